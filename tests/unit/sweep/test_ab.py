"""Order, stages and stops of an A/B, with a stand-in for pytest that writes results of known speed."""

import json
import os
import sys
from pathlib import Path

import pytest

from pytest_gpuio.analysis.policy import Policy
from pytest_gpuio.core.errors import ConfigError, GpuioError
from pytest_gpuio.sweep.ab import Effort, run_ab
from pytest_gpuio.sweep.pytest_process import Side, measure, split

GOLDEN = Path(__file__).parents[2] / "golden/cell_record.json"
STAND_IN = """\
#!{python}
import json, os, random, sys, time
log = os.environ["LOG"]
with open(log, "a") as out:
    out.write(os.environ["SIDE"] + (" cases" if any("--gpuio-case=@" in a for a in sys.argv) else "") + "\\n")
number = len(open(log).readlines())
if os.environ.get("HANG"):
    time.sleep(60)
if os.environ.get("SAY"):
    print(os.environ["SAY"]); sys.exit(4)
record = json.load(open({golden!r}))
noise = random.Random(number).gauss(0, 0.002)
factor = float(os.environ["FACTOR"]) * (1 + noise)
record["windows"]["seconds"] = [0.25 * factor] * 4
record["cpu"]["gb_per_s_per_core"] /= factor
record["latency"]["lat"]["p99_ns"] = int(2e6 * factor)
if os.environ.get("PATH_NAME"):
    record["case"] = record["case"].replace("datapath=io_uring", "datapath=" + os.environ["PATH_NAME"])
cells = [] if os.environ.get("EMPTY") else [record]
block = {{"schema": 1, "kind": "gpuio-results", "gpuio_version": "0", "interrupted": False, "settings": {{}},
  "created": "2026-01-01T00:%02d:%02dZ" % divmod(number, 60), "machine": {{"id": "a"}}, "voids": [], "skips": [],
  "failures": [{{"nodeid": "t", "case": record["case"], "reason": "it broke"}}] if not cells else [], "cells": cells}}
path = next(a for a in sys.argv if a.startswith("--gpuio-results=")).partition("=")[2]
json.dump(block, open(path, "w"))
"""


@pytest.fixture
def side(tmp_path):
    """Function: a side whose cells take ``factor`` times as long as the golden one's."""
    stand_in = tmp_path / "python"
    stand_in.write_text(STAND_IN.format(python=sys.executable, golden=str(GOLDEN)))
    stand_in.chmod(0o755)

    def make(name, factor=1.0, before=None, **env):
        env = {"LOG": str(tmp_path / "log"), "SIDE": name, "FACTOR": str(factor), **env}
        return Side(name, ("suite",), env, str(stand_in), before)

    return make


@pytest.fixture
def folder(tmp_path):
    place = tmp_path / "out"
    place.mkdir()
    return place


def order(tmp_path):
    return (tmp_path / "log").read_text().split("\n")[:-1]


def test_unchanged_sides_alternate_and_stop_early(side, folder, tmp_path):
    lines = []
    report = run_ab(side("A"), side("B"), folder, Policy(), Effort(10, 10), lines.append)
    assert report.counts() == {"SAME": 3}
    assert order(tmp_path) == list("ABBAABBAABBA")
    assert lines[-1] == "decided after 6 pairs"


def test_a_change_is_confirmed_by_fresh_pairs_of_its_cases_only(side, folder, tmp_path):
    report = run_ab(side("A"), side("B", 1.1), folder, Policy(), Effort(6, 5), lambda _: None)
    assert report.counts() == {"SLOWER": 3}
    assert order(tmp_path)[12:] == [f"{name} cases" for name in "ABBAABBAAB"]
    (case,) = (folder / "cases.txt").read_text().splitlines()
    assert case == json.loads(GOLDEN.read_text())["case"]


def test_across_an_axis(side, folder):
    sides = side("A", PATH_NAME="psync"), side("B", 0.8, PATH_NAME="libaio")
    report = run_ab(*sides, folder, Policy(), Effort(6, 5), lambda _: None, across=["datapath"])
    assert report.counts() == {"FASTER": 3}
    assert "datapath" not in report.findings[0].case
    assert len((folder / "cases.txt").read_text().splitlines()) == 2


def test_sides_that_share_no_case(side, folder):
    sides = side("A", PATH_NAME="psync"), side("B", PATH_NAME="libaio")
    report = run_ab(*sides, folder, Policy(), Effort(5, 5), lambda _: None)
    assert report.counts() == {"MISSING": 1, "NEW": 1}


def test_before_runs_before_each_process_and_its_failure_is_named(side, folder, tmp_path):
    marks = tmp_path / "marks"
    b = side("B", before=f"echo b >> {marks}")
    run_ab(side("A"), b, folder, Policy(), Effort(5, 5), lambda _: None)
    assert marks.read_text() == "b\n" * 5
    with pytest.raises(ConfigError, match="side A: 'exit 3' ended with status 3"):
        measure(side("A", before="exit 3"), folder / "x.json")


@pytest.mark.parametrize(
    ("env", "told"),
    [
        ({"SAY": "no such option"}, r"pytest ended with status 4 and measured nothing:\n.*no such option"),
        ({"EMPTY": "1"}, "pytest measured nothing: it broke"),
    ],
)
def test_a_side_that_measures_nothing_ends_it(side, folder, env, told):
    with pytest.raises(GpuioError, match=f"(?s)side A: {told}"):
        measure(side("A", **env), folder / "x.json")


def test_a_process_that_does_not_end_is_ended(side, folder):
    with pytest.raises(GpuioError, match=r"did not end within 0\.5 s"):
        measure(side("A", HANG="1"), folder / "x.json", timeout_s=0.5)


def test_no_such_interpreter(folder):
    with pytest.raises(ConfigError, match="cannot be started"):
        measure(Side("A", (), python="/none/python"), folder / "x.json")


def test_too_few_pairs(side, folder):
    with pytest.raises(ConfigError, match="at least 5 and 1 are needed"):
        run_ab(side("A"), side("B"), folder, Policy(), Effort(4, 10), lambda _: None)


def test_interrupted_pairs_are_judged(side, folder, monkeypatch):
    count = iter(range(100))
    real = measure

    def sometimes(*arguments, **more):
        if next(count) == 13:
            raise KeyboardInterrupt
        return real(*arguments, **more)

    monkeypatch.setattr("pytest_gpuio.sweep.ab.measure", sometimes)
    report = run_ab(side("A"), side("B", 1.1), folder, Policy(), Effort(10, 10), lambda _: None)
    assert len(report.new) == 6
    assert {found.candidate for found in report.findings} == {"SLOWER"}


def test_words():
    assert split("-k 'a b' c") == ("-k", "a b", "c")
    with pytest.raises(ConfigError, match="is no command line"):
        split("'")
    assert os.environ.get("SIDE") is None
