import json
import random
import subprocess
import sys
from pathlib import Path

import pytest
from pytest_benchmark.stats import Stats

from pytest_gpuio.core.errors import ConfigError
from pytest_gpuio.results.journal import Journal
from pytest_gpuio.results.run_file import start
from pytest_gpuio.results.runs import read_run
from pytest_gpuio.results.validate import validate_file
from pytest_gpuio.sweep.benchmark_stats import stats_of
from pytest_gpuio.sweep.export import COLUMNS, choose, read_series, write_benchmark_json, write_parquet
from pytest_gpuio.sweep.status import read_status

GOLDEN = Path(__file__).parents[2] / "golden/cell_record.json"


def begin(out, series, cells=3):
    sweep = {"identity": {}, "plan": {"name": "p", "cells": cells, "left": cells}, "pid": 1}
    out.append("start", start(machine={"id": "m" * 16}, settings={"sweep": sweep}), key=series, at=1.0)


@pytest.fixture
def path(tmp_path, record):
    path = tmp_path / "sweep.jsonl"
    out, _ = Journal.go_on(path)
    with out:
        begin(out, "aa")
        out.append("cell", record(case="one"), key="01", at=2.0)
        begin(out, "bb")
        out.append("baseline", record(2.0, case="base"), at=3.0)
        out.append("void", {"case": "one", "axes": {}, "gate": "g", "reason": "g: r", "evidence": []}, key="11", at=4.0)
        out.append("cell", record(2.0, case="one"), key="11", at=5.0)
        out.append("cell", record(3.0, case="one"), key="12", at=6.0)
        out.append("skip", {"nodeid": "two", "case": "two", "reason": "needs cuda: no"}, key="13", at=7.0)
        out.append("failure", {"nodeid": "three", "case": "three", "reason": "died"}, key="14", at=8.0)
        out.append("end", {"reason": "complete"}, at=9.0)
    return path


@pytest.mark.parametrize("rounds", range(1, 14))
def test_figures_are_pytest_benchmarks_own(rounds):
    chance = random.Random(rounds)
    for _ in range(30):
        seconds = [chance.choice([1.0, 1.5, chance.random(), 9.0]) for _ in range(rounds)]
        theirs = Stats()
        for second in seconds:
            theirs.update(second / 7)
        ours = stats_of(seconds, 7)
        assert ours.pop("iterations") == 7
        assert ours.pop("data") == theirs.data
        expected = theirs.as_dict()
        assert ours.pop("outliers") == expected.pop("outliers")
        assert ours == pytest.approx(expected, rel=1e-9, abs=1e-12)


def test_the_newest_record_of_each_case_in_the_last_series(path, tmp_path, record):
    out = tmp_path / "out.json"
    assert write_benchmark_json(path, out, choose(read_series(path), None)) == 1
    content = json.loads(out.read_text())
    assert [row["fullname"] for row in content["benchmarks"]] == ["one"]
    row = content["benchmarks"][0]
    assert row["extra_info"]["gpuio"] == record(3.0, case="one")
    assert row["stats"]["ops"] == pytest.approx(1 / (sum(row["stats"]["data"]) / row["stats"]["rounds"]))
    assert content["gpuio"]["voids"] == []
    assert [skip["case"] for skip in content["gpuio"]["skips"]] == ["two"]
    assert [failure["case"] for failure in content["gpuio"]["failures"]] == ["three"]
    assert content["gpuio"]["interrupted"] is False
    with pytest.raises(ConfigError, match="Nothing is ever replaced"):
        write_benchmark_json(path, out, choose(read_series(path), None))
    assert sorted(file.name for file in tmp_path.iterdir()) == ["out.json", "sweep.jsonl"]


def test_another_series_by_the_beginning_of_its_id(path, tmp_path, record):
    write_benchmark_json(path, tmp_path / "a.json", choose(read_series(path), "a"))
    content = json.loads((tmp_path / "a.json").read_text())
    assert content["benchmarks"][0]["extra_info"]["gpuio"] == record(case="one")
    assert content["gpuio"]["interrupted"] is True
    with pytest.raises(ConfigError, match="'c' is none of aa, bb"):
        choose(read_series(path), "c")


def test_pytest_benchmark_compares_exports(path, tmp_path):
    out = tmp_path / "out.json"
    write_benchmark_json(path, out, choose(read_series(path), None))
    tool = "import sys, pytest_benchmark.cli as c; sys.argv[0] = 'pytest-benchmark'; c.main()"
    done = subprocess.run(
        [sys.executable, "-P", "-c", tool, "compare", out], capture_output=True, text=True, timeout=60, cwd=tmp_path
    )
    assert done.returncode == 0, done.stderr
    assert "1 tests" in done.stdout


def test_exports_are_valid(tmp_path):
    # With the golden record's own windows: what the fixture changes would contradict its totals.
    own = tmp_path / "own.jsonl"
    out, _ = Journal.go_on(own)
    with out:
        begin(out, "aa")
        golden = json.loads(GOLDEN.read_text())
        out.append("cell", golden, key="01", at=1.0)
        out.append("rest", {"target": "a", "before": 71.0, "after": 60.0, "seconds": 9.0}, at=2.0)
    assert validate_file(own) == []
    write_benchmark_json(own, tmp_path / "own.json", choose(read_series(own), None))
    assert validate_file(tmp_path / "own.json") == []


def test_a_sweeps_journal_is_a_run_too(path):
    found = read_run(path)
    assert list(found.cells) == ["one"]
    assert found.cells["one"]["windows"]["seconds"][0] == 0.75
    assert (found.voids, found.skips, found.failures) == ({}, {"two": "needs cuda: no"}, {"three": "died"})
    assert not found.interrupted
    assert found.machine == {"id": "m" * 16}


def test_parquet_has_a_row_per_cell(path, tmp_path, record):
    parquet = pytest.importorskip("pyarrow.parquet")
    out = tmp_path / "out.parquet"
    assert write_parquet(path, out, choose(read_series(path), None)) == 1
    table = parquet.read_table(out)
    assert table.column_names == list(COLUMNS)
    row = table.to_pylist()[0]
    golden = record(3.0)
    assert (row["case"], row["series"], row["iops"]) == ("one", "bb", golden["iops"])
    assert row["p99_ns"] == golden["latency"]["lat"]["p99_ns"]
    assert row["bs"] == golden["axes"]["bs"]


def test_status_counts_each_series(path):
    status = read_status(path)
    first, last = status.series
    assert (first.id, first.measured, first.ended) == ("aa", 1, None)
    assert (last.id, last.measured, last.void, last.failed, last.skipped) == ("bb", 2, 0, 1, 1)
    assert last.ended == "complete"
    assert not status.running
    assert last.last == "three"
    assert last.seconds == pytest.approx((8.0 - 1.0) / 4)


def test_the_journal_of_a_pytest_run_is_told_apart(tmp_path):
    path = tmp_path / "j.jsonl"
    with Journal.create(path) as out:
        out.append("start", start(machine={}, settings={}))
    for read in (read_series, read_status):
        with pytest.raises(ConfigError, match="journal of a pytest run"):
            read(path)
    (tmp_path / "empty.jsonl").touch()
    for read in (read_series, read_status):
        with pytest.raises(ConfigError, match="holds no run of a sweep"):
            read(tmp_path / "empty.jsonl")
