"""The data path ``usrbio`` through a stand-in for 3FS's client library; no 3FS is here."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

STANDIN = Path(__file__).parents[2] / "cnative/tests/standin/libhf3fs_api_shared.c"
SUITE = """
    import pytest

    @pytest.mark.workload("micro/randread", "micro/randwrite")
    def test_cell(gpuio):
        gpuio.run()
"""


@pytest.fixture
def standin(shared_object, monkeypatch):
    library = shared_object(STANDIN, "libhf3fs_api_shared.so")
    monkeypatch.setenv("GPUIO_USRBIO", str(library))
    return library


def options(target, *more):
    return (
        f"--gpuio-target={target}", "--gpuio-datapath=usrbio", "--gpuio-size=8M", "--gpuio-bs=64k", "--gpuio-qd=8",
        "--gpuio-max-time=0.3", "-rs", *more,
    )  # fmt: skip


def records(pytester):
    return json.loads((pytester.path / "gpuio-results.json").read_text())["cells"]


def test_cells_through_the_standin(pytester, standin, target):
    pytester.makepyfile(SUITE)
    result = pytester.runpytest_subprocess(*options(target, "--gpuio-batch=1x1,4x2", "--gpuio-verify=full"))
    result.assert_outcomes(passed=4)
    found = records(pytester)
    assert {record["axes"]["batch"] for record in found} == {"1x1", "4x2"}
    for record in found:
        assert record["effective"]["datapath"] == "usrbio"
        assert record["verify"]["checked"] > 0
        assert record["verify"]["bad"] == 0
        depth = {"1x1": "io_depth=0", "4x2": "io_depth=-4"}[record["axes"]["batch"]]
        assert any(f"rings=1 entries=8 {depth}" in sentence for sentence in record["effective"]["evidence"])
        assert any("the rings moved them" in sentence for sentence in record["effective"]["evidence"])


@pytest.mark.parametrize(
    ("fault", "told"),
    [
        ("calls", "*path_proved*they did not go through the rings*"),
        ("short", "*no_short_io*"),
        ("code:8001", "*3FS status 8001*a hole lies inside the range*"),
        ("wrong", "*data_verified*"),
    ],
)
def test_what_a_broken_client_does_is_void(pytester, standin, target, monkeypatch, fault, told):
    monkeypatch.setenv("STANDIN_HF3FS_FAULT", fault)
    pytester.makepyfile(SUITE)
    result = pytester.runpytest_subprocess(*options(target, "--gpuio-workload=micro/randread"))
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines([told])


def test_absent_client_and_foreign_targets_are_skips_with_the_remedy(pytester, standin, target, monkeypatch):
    pytester.makepyfile(SUITE)
    monkeypatch.setenv("STANDIN_HF3FS_MOUNT", "/nowhere")
    result = pytester.runpytest_subprocess(*options(target))
    result.assert_outcomes(skipped=2)
    result.stdout.fnmatch_lines(
        ["*needs usrbio_target: *is not on 3FS: name a folder below a mount of hf3fs_fuse_main*"]
    )
    monkeypatch.setenv("GPUIO_USRBIO", "/nowhere.so")
    result = pytester.runpytest_subprocess(*options(target))
    result.assert_outcomes(skipped=2)
    result.stdout.fnmatch_lines(["*needs usrbio: 3FS's client library cannot be opened*GPUIO_USRBIO*"])


#: Stands for the daemon of the mount: a process of its name that burns CPU.
BURNER = "open('/proc/self/comm', 'w').write('hf3fs_fuse_main'); print(flush=True)\nwhile True: pass"
PRETEND = """
    import dataclasses
    from pytest_gpuio import media

    _classify = media.classify

    def classify(path, *more):
        return dataclasses.replace(_classify(path, *more), name="network_fs", file_system="fuse.hf3fs")

    media.classify = classify
"""


def test_the_daemon_s_cpu_is_counted_on_any_path_of_its_mount(pytester, standin, target):
    # Only the file system's name is made up: the daemon's process and its CPU are real.
    pytester.makeconftest(PRETEND)
    pytester.makepyfile(SUITE)
    with subprocess.Popen([sys.executable, "-c", BURNER], stdout=subprocess.PIPE) as burner:
        try:
            burner.stdout.readline()
            more = ("--gpuio-workload=micro/randread", "--gpuio-datapath=usrbio,libaio")
            result = pytester.runpytest_subprocess(*options(target, *more))
        finally:
            burner.kill()
    result.assert_outcomes(passed=2)
    for record in records(pytester):
        (daemon,) = record["cpu"]["daemons"]
        assert (daemon["name"], daemon["pid"]) == ("hf3fs_fuse_main", burner.pid)
        assert daemon["seconds"] > 0
        assert record["axes"]["medium"] == "network_fs"
    assert any("hf3fs_fuse_main" in sentence for sentence in records(pytester)[0]["effective"]["evidence"])


def test_a_target_on_3fs_has_it_among_all_its_paths(pytester, standin, target):
    pytester.makeconftest(PRETEND)
    pytester.makepyfile(SUITE)
    more = (f"--gpuio-target={target}", "--collect-only", "-q", "--gpuio-workload=micro/randread")
    assert "usrbio-network_fs" in pytester.runpytest_subprocess(*more).stdout.str()
    (pytester.path / "conftest.py").unlink()
    assert "usrbio" not in pytester.runpytest_subprocess(*more).stdout.str()
