"""A real run, seen by the user: files, figures, and pytest-benchmark's own tools on them."""

import os
import re
import subprocess
import sys

import pytest

from pytest_gpuio.results.validate import validate_file

ALL = "--gpuio-datapath=null,psync,libaio,io_uring"
WRITE = """
import pytest


@pytest.mark.workload("micro/randwrite", "micro/randrw70", "micro/seqwrite_fsync", "micro/randwrite_fdatasync")
def test_write(gpuio):
    gpuio.run()
"""


def test_every_path_is_measured_and_both_files_are_valid(gpuio_run, pytester, results):
    result = gpuio_run("-v", ALL, "--benchmark-json=out.json", "-rs")
    outcomes = result.parseoutcomes()
    assert outcomes.get("failed", 0) == 0
    # A kernel without io_uring skips that one, with its reason.
    assert outcomes["passed"] + outcomes.get("skipped", 0) == 4
    assert validate_file(pytester.path / "out.json") == []
    assert validate_file(pytester.path / "gpuio-results.json") == []
    ours, theirs = results(), results("out.json")
    assert [cell["case"] for cell in ours["cells"]] == [b["extra_info"]["gpuio"]["case"] for b in theirs["benchmarks"]]
    assert ours["interrupted"] is False
    assert theirs["gpuio"]["voids"] == []
    for bench in theirs["benchmarks"]:
        record = bench["extra_info"]["gpuio"]
        assert bench["stats"]["ops"] == pytest.approx(record["iops"], rel=1e-9)
        assert bench["stats"]["iterations"] == record["windows"]["ios_per_window"]
        assert bench["stats"]["rounds"] == record["windows"]["count"]
        assert bench["options"]["timer"] == "gpuio_window_clock"
        assert record["bytes"] == record["ios"] * 4096
        assert record["effective"]["datapath"] == bench["params"]["datapath"]
        assert all(isinstance(value, (str, int)) for value in bench["params"].values())
    moved = [b["extra_info"]["gpuio"] for b in theirs["benchmarks"] if b["params"]["datapath"] != "null"]
    assert all(record["verify"]["checked"] > 0 and record["verify"]["bad"] == 0 for record in moved)
    assert all(record["effective"]["direct"] for record in moved)
    assert ours["settings"]["window"] == 0.03
    assert all(min(record["windows"]["seconds"]) >= 0.02 for record in ours["cells"])
    result.stdout.re_match_lines([r".*test_read\[psync-.*\] PASSED \S+ GB/s \S+ IOPS p99 \S+ \S+ cores.*"])
    result.stdout.fnmatch_lines(["*- gpuio -*", "case * GB/s * IOPS * p50 * p99 * p99.9 * cores * GB/s/core*"])
    # No stray file: the two we name, besides what pytest-benchmark and pytester make.
    found = {path.name for path in pytester.path.iterdir()} - {".benchmarks", "__pycache__", "stdout", "stderr"}
    ours = {name for name in found if not name.startswith("runpytest-")}
    assert ours == {"gpuio-results.json", "out.json", "test_suite.py"}


def test_writes_are_read_back_and_every_durability_is_in_the_id(gpuio_run, results):
    result = gpuio_run("--gpuio-datapath=psync,libaio", "--gpuio-qd=1", "--gpuio-bs=64k", suite=WRITE)
    result.assert_outcomes(passed=8)
    by_workload = {}
    for cell in results()["cells"]:
        by_workload.setdefault(cell["axes"]["workload"], []).append(cell)
        assert cell["verify"]["checked"] > 0
    assert {cell["durability"]["syncs"] for cell in by_workload["micro/randwrite"]} == {0}
    for cell in by_workload["micro/seqwrite_fsync"]:
        assert cell["durability"]["syncs"] == cell["windows"]["count"]
    for cell in by_workload["micro/randwrite_fdatasync"]:
        per_window = cell["windows"]["ios_per_window"] // 32
        assert per_window <= cell["durability"]["syncs"] / cell["windows"]["count"] <= per_window + 1
    for cell in by_workload["micro/randrw70"]:
        assert 0.6 < cell["reads"] / cell["ios"] < 0.8


def test_full_verification_checks_every_read(gpuio_run, results):
    gpuio_run("--gpuio-datapath=psync", "--gpuio-verify=full", "--gpuio-jobs=2").assert_outcomes(passed=1)
    (cell,) = results()["cells"]
    # The sweep adds the last block of each job.
    assert cell["verify"] == {"mode": "full", "checked": cell["ios"] + 2, "bad": 0}


def test_second_run_reuses_the_target_and_the_same_seed_gives_the_same_case(gpuio_run, results, target):
    gpuio_run("--gpuio-datapath=psync").assert_outcomes(passed=1)
    file = target / "gpuio-read.dat"
    before, first = file.stat(), results()["cells"][0]["case"]
    gpuio_run("--gpuio-datapath=psync").assert_outcomes(passed=1)
    after = file.stat()
    assert (before.st_ino, before.st_mtime_ns, before.st_size) == (after.st_ino, after.st_mtime_ns, after.st_size)
    assert results()["cells"][0]["case"] == first


def test_compare_fail_passes_on_an_unchanged_machine_and_ratios_are_sensible(gpuio_run, pytester, results):
    arguments = ("--gpuio-datapath=psync,libaio", "--benchmark-save-data")
    gpuio_run(*arguments, "--benchmark-autosave", "--benchmark-json=one.json").assert_outcomes(passed=2)
    # This machine is shared: what is asserted is that the gate runs and compares, so its limit is wide.
    second = gpuio_run(
        *arguments, "--benchmark-compare", "--benchmark-compare-fail=mean:900%", "--benchmark-json=two.json"
    )
    second.assert_outcomes(passed=2)
    assert "machine_info differs" not in second.stderr.str() + second.stdout.str()
    command = [sys.executable, "-P", "-m", "pytest_benchmark", "compare", "--between=mean,ops", "one.json", "two.json"]
    table = subprocess.run(command, cwd=pytester.path, text=True, capture_output=True, check=True).stdout
    assert len(re.findall(r"test_read\[(?:psync|libaio)-", table)) == 2


def test_a_slower_run_fails_the_gate(gpuio_run, pytester, results):
    """The baseline is a real run whose stored rounds were made ten times faster by hand."""
    import json

    gpuio_run("--gpuio-datapath=psync", "--benchmark-save=base", "--benchmark-save-data").assert_outcomes(passed=1)
    (file,) = pytester.path.glob(".benchmarks/*/*_base.json")
    content = json.loads(file.read_text())
    stats = content["benchmarks"][0]["stats"]
    for name in ("min", "max", "mean", "median"):
        stats[name] /= 10
    file.write_text(json.dumps(content))
    result = gpuio_run("--gpuio-datapath=psync", "--benchmark-compare", "--benchmark-compare-fail=mean:50%")
    assert result.ret != 0
    assert "Performance has regressed" in result.stdout.str() + result.stderr.str()


def test_machine_info_names_what_decides_and_drops_what_moves(gpuio_run, results):
    gpuio_run("--gpuio-datapath=psync", "--benchmark-json=out.json")
    info = results("out.json")["machine_info"]
    assert not {"hz_actual", "hz_actual_friendly", "flags"} & set(info["cpu"])
    assert info["gpuio"]["machine"]["kernel"] == os.uname().release
    assert set(info["gpuio"]["targets"]["default"]) == {"medium", "file_system", "mount_options", "devices"}


def test_user_columns_are_kept(gpuio_run):
    chosen = gpuio_run("--gpuio-datapath=psync", "--benchmark-columns=min,ops")
    head = next(line for line in chosen.outlines if line.startswith("Name (time in"))
    assert re.sub(r"\s+", " ", re.sub(r"\(.*?\)", "", head)).split() == ["Name", "Min", "OPS"]


def test_default_output_fits_120_columns(gpuio_run, monkeypatch):
    monkeypatch.setenv("COLUMNS", "120")
    result = gpuio_run(ALL)
    section = result.outlines[next(n for n, line in enumerate(result.outlines) if "benchmark '" in line) :]
    assert [line for line in section if len(line) > 120] == []


def test_quiet_run_still_writes_results(gpuio_run, results):
    assert gpuio_run("-q", "--gpuio-datapath=psync").ret == 0
    assert len(results()["cells"]) == 1


def test_a_suite_can_use_the_record(gpuio_run):
    suite = """
import pytest


@pytest.mark.workload("inference/random_read_4k")
def test_read(gpuio, datapath, medium, phase, gpuio_bs):
    record = gpuio.run()
    assert (record["axes"]["datapath"], record["axes"]["medium"], phase) == (datapath, medium, "inference")
    assert record["bytes"] == record["ios"] * gpuio_bs
    with pytest.raises(pytest.fail.Exception, match="once per test"):
        gpuio.run()
"""
    gpuio_run("--gpuio-datapath=psync", suite=suite).assert_outcomes(passed=1)


def test_several_jobs_share_the_region(gpuio_run, results):
    gpuio_run("--gpuio-datapath=libaio", "--gpuio-jobs=3", "--gpuio-qd=4").assert_outcomes(passed=1)
    (cell,) = results()["cells"]
    assert len(cell["placement"]["worker_cpus"]) == 3
    assert len([thread for thread in cell["cpu"]["threads"] if thread["role"] == "submitter"]) == 3


@pytest.mark.parametrize("cache", ["cold", "hot"])
def test_page_cache_on_purpose(gpuio_run, results, cache):
    # Cold windows end where the region does, so it must hold a tenth of a second of reads.
    result = gpuio_run("--gpuio-datapath=psync", f"--gpuio-cache={cache}", "--gpuio-size=256M", "-v")
    result.assert_outcomes(passed=1)
    (cell,) = results()["cells"]
    assert cell["effective"]["direct"] is False
    assert cell["cache"]["mode"] == cache
    if cache == "hot":
        assert cell["cache"]["resident_before"] == cell["target"]["region_bytes"]
    else:
        assert cell["cache"]["resident_before"] == 0
        assert cell["cache"]["resident_after"] > 0
    assert f"-{cache}]" in result.stdout.str()
