"""Where a sweep stands, from journals written by hand."""

import pytest

from pytest_gpuio.results.journal import Journal
from pytest_gpuio.results.run_file import start
from pytest_gpuio.sweep.status import read_status


class Writer:
    def __init__(self, out):
        self.out, self.at = out, 1.0

    def add(self, kind, body, key=""):
        self.at += 1.0
        self.out.append(kind, body, key=key, at=self.at)

    def start(self, cells, left, measured):
        plan = {"name": "p", "cells": cells, "left": left, "measured": measured}
        sweep = {"identity": {}, "plan": plan, "pid": 1}
        self.add("start", start(machine={"id": "m" * 16}, settings={"sweep": sweep}), key="aa")

    def cells(self, record, keys):
        for key in keys:
            self.add("cell", record(case=key), key=key)

    def skip(self, key):
        self.add("skip", {"nodeid": key, "case": key, "reason": "needs cuda: no"}, key=key)

    def end(self, reason):
        self.add("end", {"reason": reason})


@pytest.fixture
def written(tmp_path):
    """Function: the status of a journal's one series, after what the given function wrote."""

    def of(write):
        path = tmp_path / "sweep.jsonl"
        out, _ = Journal.go_on(path)
        with out:
            write(Writer(out))
        (one,) = read_status(path).series
        return one

    return of


def test_what_a_shrunken_plan_has_left_is_its_own(written, record):
    def write(journal):
        journal.start(60, 60, 0)
        journal.cells(record, [f"{number:02d}" for number in range(10)])
        journal.end("stopped")
        journal.start(8, 6, 2)  # two of the ten are in it
        journal.cells(record, ["90"])

    one = written(write)
    assert (one.cells, one.measured, one.dropped, one.left, one.ended) == (8, 11, 8, 5, None)


def test_a_skip_that_is_not_told_again_is_not_left(written, record):
    def write(journal):
        journal.start(4, 4, 0)
        journal.skip("01")
        journal.cells(record, ["02"])
        journal.end("stopped")
        journal.start(4, 3, 1)
        journal.cells(record, ["03"])

    one = written(write)
    assert (one.measured, one.skipped, one.dropped, one.left) == (2, 1, 0, 1)


def test_a_cell_that_is_measured_again_is_no_new_one(written, record):
    def write(journal):
        journal.start(2, 2, 0)
        journal.cells(record, ["01"])
        journal.end("stopped")
        journal.start(2, 2, 1)  # an adaptive sweep gives it more time
        journal.cells(record, ["01", "02"])
        journal.end("complete")

    one = written(write)
    assert (one.measured, one.dropped, one.left) == (2, 0, 0)
