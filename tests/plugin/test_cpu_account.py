"""The CPU of a cell, seen by the user: daemons, pollers, and what the host says."""

import os
import subprocess
import sys
from contextlib import contextmanager

import pytest

SPIN = "print(flush=True)\nwhile True: pass"


@contextmanager
def spinning():
    with subprocess.Popen([sys.executable, "-S", "-c", SPIN], stdout=subprocess.PIPE) as process:
        try:
            process.stdout.readline()
            yield process
        finally:
            process.kill()


def test_a_daemons_cpu_is_added_by_name_and_a_strangers_is_elsewhere(gpuio_run, results):
    with spinning() as daemon, spinning() as stranger:
        os.sched_setaffinity(stranger.pid, {min(os.sched_getaffinity(0))})
        gpuio_run("--gpuio-datapath=psync", f"--gpuio-daemon={daemon.pid}").assert_outcomes(passed=1)
    (cell,) = results()["cells"]
    cpu = cell["cpu"]
    (counted,) = cpu["daemons"]
    assert (counted["pid"], counted["name"][:6]) == (daemon.pid, "python")
    assert counted["seconds"] > 0.02
    assert cpu["cores_used"] * cell["seconds"] == pytest.approx(cpu["seconds"] + counted["seconds"])
    control = cpu["control"]
    assert sum(seconds for name, seconds in control["elsewhere"].items() if name.startswith("python")) > 0.02
    assert control["parts_s"] >= counted["seconds"] + cpu["seconds"]
    assert not control["trusted"]
    assert "4 s are needed" in control["reason"]


def test_a_daemon_that_is_not_there_is_an_error_with_the_remedy(gpuio_run):
    with subprocess.Popen(["true"]) as gone:
        gone.wait()
    result = gpuio_run("--gpuio-datapath=psync", f"--gpuio-daemon={gone.pid}")
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(
        [f"*there is no process {gone.pid}: --gpuio-daemon takes the ids of running processes*"]
    )


def test_a_poller_reserves_its_core(gpuio_run, results):
    result = gpuio_run("--gpuio-datapath=io_uring_sqpoll", "--gpuio-qd=4", "-rs")
    if not results()["cells"]:
        pytest.skip("no cell: " + next((line for line in result.outlines if "needs" in line or "void" in line), "void"))
    (cell,) = results()["cells"]
    cpu = cell["cpu"]
    pollers = [thread for thread in cpu["threads"] if thread["name"] == "iou-sqp"]
    assert len(pollers) == cell["axes"]["jobs"]
    assert all(thread["role"] == "kernel_helper" and thread["tid"] for thread in pollers)
    # The poller and the worker that polls for completions: two cores each, whatever they used.
    assert cpu["cores_reserved"] >= 2 * len(pollers) * 0.999
    assert cpu["cores_reserved"] >= cpu["cores_used"]
    assert cpu["gb_per_s_per_core_reserved"] <= cpu["gb_per_s_per_core"]
    assert (cpu["sq_useful_share"] is None) == (cpu["sq_reason"] is not None)


def test_where_processors_count_nothing_the_reason_is_told(gpuio_run, results):
    gpuio_run("--gpuio-datapath=null").assert_outcomes(passed=1)
    (cell,) = results()["cells"]
    cpu = cell["cpu"]
    if cpu["perf_reason"] is None:
        # A request of null is a handful of instructions, never a million.
        assert 1 < cpu["instructions_per_io"] < 1e6
        assert 1 < cpu["cycles_per_io"] < 1e6
    else:
        assert cpu["cycles_per_io"] is None
        assert cpu["instructions_per_io"] is None
