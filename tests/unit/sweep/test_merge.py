"""Journals of shards as one, and what is refused."""

from __future__ import annotations

import copy
import json
from pathlib import Path

import pytest

from pytest_gpuio.cli import command
from pytest_gpuio.core.errors import ConfigError
from pytest_gpuio.results import journal
from pytest_gpuio.sweep.export import choose, read_series, records
from pytest_gpuio.sweep.journal import SweepJournal
from pytest_gpuio.sweep.merge import merge

GOLDEN = json.loads((Path(__file__).parents[2] / "golden/cell_record.json").read_text())
DEVICE = {"model": "X", "firmware": "1", "which": "aaaa"}
IDENTITY = {
    "id": "host-a",
    "kernel": "6.1",
    "gpuio": "0.1.0",
    "target fast": {"medium": "nvme_ssd", "file_system": "xfs", "devices": [DEVICE]},
}


def record(case):
    made = copy.deepcopy(GOLDEN)
    made["case"] = case
    return made


@pytest.fixture
def shard(tmp_path):
    """Function: the journal of a shard that measured the cases of these names."""

    def make(number, cases, of=2, cells=4, digest="d1", identity=IDENTITY, name=None, ends="complete", **fates):
        path = tmp_path / (name or f"{number}.jsonl")
        made = SweepJournal(path)
        part = {"number": number, "of": of, "plan_cells": cells, "digest": digest}
        made.start(f"{number:016x}", identity, {"name": "p", "text": "", "cells": len(cases), "shard": part})
        for case in cases:
            made.cell(f"{number:08x}{abs(hash(case)):016x}", record(case))
        for case, gate in fates.get("voids", {}).items():
            void = {"case": case, "axes": {}, "gate": gate, "reason": "r", "evidence": []}
            made.void(f"{number:08x}{abs(hash(case)):016x}", void)
        if ends:
            made.end(ends)
        made.close()
        return path

    return make


def test_every_cell_of_every_shard_is_there_once(shard, tmp_path):
    out = tmp_path / "all.jsonl"
    found = merge(out, [shard(1, ["a", "b"]), shard(2, ["c"], voids={"d": "stable"})])
    assert (found.cells, found.voids, found.plan_cells, found.missing) == (3, 1, 4, [])
    assert found.complete
    series = choose(read_series(out), None)
    assert series.id == found.series
    assert series.ended == "complete"
    assert {body["case"] for _, body in records(out, series)} == {"a", "b", "c"}
    assert [line.kind for line in journal.scan(out)] == ["start", "cell", "cell", "cell", "void", "end"]
    told = series.start["settings"]["sweep"]["shards"]
    assert [one["journal"] for one in told] == ["1.jsonl", "2.jsonl"]


def test_a_cell_measured_again_counts_once_with_its_newest_record(shard, tmp_path):
    path = shard(1, ["a", "b"])
    again = SweepJournal(path)
    newest = record("a") | {"seed": 99}
    again.start(f"{1:016x}", IDENTITY, read_series(path)[f"{1:016x}"].start["settings"]["sweep"]["plan"])
    again.cell("ff", newest)
    again.end("complete")
    again.close()
    out = tmp_path / "all.jsonl"
    merge(out, [path, shard(2, ["c", "d"])])
    found = {body["case"]: body["seed"] for _, body in records(out, choose(read_series(out), None))}
    assert found["a"] == 99
    assert len(found) == 4


def test_what_is_missing_is_named(shard, tmp_path):
    found = merge(tmp_path / "out", [shard(1, ["a"], of=4), shard(3, ["c"], of=4, ends=None)])
    assert not found.complete
    assert found.missing == [2, 4]
    assert [Path(path).name for path in found.unfinished] == ["3.jsonl"]


@pytest.mark.parametrize(
    ("second", "told"),
    [
        ({"number": 1, "name": "1b.jsonl", "cases": ["x"]}, "both hold shard 1/2: merge one of them"),
        ({"number": 2, "cases": ["b", "c"]}, r"1 cells are in two journals: b \("),
        ({"number": 2, "cases": ["c"], "of": 3}, "not of one plan: shards 3 and 2"),
        ({"number": 2, "cases": ["c"], "digest": "d2"}, "not of one plan: cells d2 and d1"),
        ({"number": 2, "cases": ["c"], "identity": IDENTITY | {"kernel": "6.12"}}, "other kind .*kernel: 6.1 -> 6.12"),
    ],
)  # fmt: skip
def test_contradictions_are_refused_and_nothing_is_written(shard, tmp_path, second, told):
    out = tmp_path / "out.jsonl"
    with pytest.raises(ConfigError, match=told):
        merge(out, [shard(1, ["a", "b"]), shard(**second)])
    assert not out.exists()


def test_hosts_may_be_others_of_their_kind(shard, tmp_path):
    other = copy.deepcopy(IDENTITY) | {"id": "host-b"}
    other["target fast"]["devices"][0]["which"] = "bbbb"
    assert merge(tmp_path / "one", [shard(1, ["a", "b"]), shard(2, ["c", "d"], identity=other)]).complete
    other["target fast"]["devices"][0]["model"] = "Y"
    pair = [shard(1, ["a", "b"], name="3"), shard(2, ["c", "d"], name="4", identity=other)]
    with pytest.raises(ConfigError, match="target fast: devices"):
        merge(tmp_path / "two", pair)
    assert merge(tmp_path / "two", pair, mixed=True).complete


def test_a_whole_plan_s_journal_is_no_shard(shard, tmp_path):
    whole = SweepJournal(tmp_path / "whole")
    whole.start("ab", IDENTITY, {"name": "p", "text": "", "cells": 1})
    whole.close()
    with pytest.raises(ConfigError, match="is the journal of a whole plan, not of a shard"):
        merge(tmp_path / "out", [shard(1, ["a"]), tmp_path / "whole"])


def test_an_existing_file_is_never_written(shard, tmp_path):
    out = tmp_path / "out"
    out.write_text("mine")
    with pytest.raises(ConfigError, match="exists already"):
        merge(out, [shard(1, ["a", "b"]), shard(2, ["c", "d"])])
    assert out.read_text() == "mine"


def test_the_command(shard, tmp_path, capsys):
    one, other, out = shard(1, ["a", "b"]), shard(2, ["c"]), tmp_path / "all.jsonl"
    assert command.main(["sweep", "merge", str(out), str(one), str(other), "--json", "-"]) == 1
    told = json.loads(capsys.readouterr().out)
    assert (told["complete"], told["cells"], told["plan_cells"]) == (False, 3, 4)
    assert command.main(["sweep", "merge", str(tmp_path / "again"), str(one)]) == 2
    assert "at least two journals" in capsys.readouterr().err
