"""Reading runs back, whatever wrote them."""

import json
from datetime import UTC, datetime

import pytest

from pytest_gpuio.core.errors import ConfigError, GpuioError
from pytest_gpuio.results.journal import Journal
from pytest_gpuio.results.run_file import benchmark_block, results, write_results
from pytest_gpuio.results.runs import read_run, read_runs

MACHINE = {"id": "a" * 16, "kernel": "6.1"}


def block(**more):
    return benchmark_block(
        interrupted=False, machine=MACHINE, settings={}, created=datetime(2026, 1, 2, tzinfo=UTC), **more
    )


@pytest.fixture
def benchmark_file(record, tmp_path):
    def write(name, *cells, when="2026-01-02T00:00:00+00:00", **changes):
        content = {
            "datetime": when,
            "machine_info": {"gpuio": {"machine": MACHINE}},
            "benchmarks": [{"name": "t", "extra_info": {"gpuio": cell}} for cell in cells],
            **changes,
        }
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps(content))
        return path

    return write


def test_results_file(record, tmp_path):
    void = {"case": "v", "axes": {}, "gate": "littles_law", "reason": "off", "evidence": []}
    skip = {"nodeid": "t", "case": "s", "reason": "needs x"}
    path = tmp_path / "gpuio-results.json"
    write_results(path, results(block(voids=[void], skips=[skip, {**skip, "case": None}]), [record()]))
    run = read_run(path)
    assert list(run.cells) == [record()["case"]]
    assert (run.voids["v"]["gate"], run.skips, run.failures) == ("littles_law", {"s": "needs x"}, {})
    assert (run.created, run.machine, run.interrupted) == (datetime(2026, 1, 2, tzinfo=UTC), MACHINE, False)


def test_benchmark_files_with_and_without_our_block(record, benchmark_file):
    bare = read_run(benchmark_file("bare.json", record()))
    assert (bare.machine, list(bare.cells)) == (MACHINE, [record()["case"]])
    full = read_run(benchmark_file("full.json", record(), gpuio=block()))
    assert full.created == datetime(2026, 1, 2, tzinfo=UTC)
    void_only = read_run(benchmark_file("void.json", gpuio=block()))
    assert not void_only.cells


def test_journal(record, tmp_path):
    path = tmp_path / "j.jsonl"
    with Journal.create(path) as journal:
        journal.append("cell", record())
        journal.append("void", {"case": "v", "gate": "g", "reason": "r"})
    run = read_run(path)
    assert run.interrupted
    assert (list(run.cells), list(run.voids)) == ([record()["case"]], ["v"])


def test_a_storage_folder_oldest_first_foreign_runs_passed_over(record, benchmark_file, tmp_path):
    benchmark_file("store/Linux/0002_b.json", record(), when="2026-01-03T00:00:00")
    benchmark_file("store/Linux/0001_a.json", record(), when="2026-01-01T00:00:00")
    benchmark_file("store/Linux/0003_other.json")
    runs = read_runs([tmp_path / "store"])
    assert [run.created.day for run in runs] == [1, 3]
    with pytest.raises(ConfigError, match="named twice"):
        read_runs([tmp_path / "store", tmp_path / "store/Linux/0001_a.json"])


def test_what_is_no_run_is_named(benchmark_file, tmp_path):
    (tmp_path / "empty").mkdir()
    other = tmp_path / "other.json"
    other.write_text('{"a": 1}')
    broken = tmp_path / "broken.json"
    broken.write_text('{"a": NaN}')
    for path, told in (
        (tmp_path / "none.json", "does not exist"),
        (tmp_path / "empty", "holds no run with gpuio cells"),
        (other, "is no run"),
        (broken, "NaN is not JSON"),
        (benchmark_file("foreign.json"), "holds no gpuio cell"),
    ):
        with pytest.raises(GpuioError, match=told):
            read_runs([path])


def test_records_that_are_none(record, benchmark_file):
    with pytest.raises(ConfigError, match="a cell without a case"):
        read_run(benchmark_file("a.json", {"schema": 1}))
    with pytest.raises(ConfigError, match="is there twice"):
        read_run(benchmark_file("b.json", record(), record()))


def test_a_time_that_is_none_is_the_oldest(record, benchmark_file):
    assert read_run(benchmark_file("a.json", record(), when="yesterday")).created.year == 1970
