"""A cell that crashes, hangs or loses its parent costs that cell and nothing else."""

import contextlib
import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from pytest_gpuio.results.validate import validate_file

TWO = """
import pytest

@pytest.mark.workload("micro/randread")
@pytest.mark.parametrize("gpuio_bs", [4096, 8192], indirect=True)
def test_it(gpuio):
    gpuio.run()
"""
READ = TWO.replace('@pytest.mark.parametrize("gpuio_bs", [4096, 8192], indirect=True)\n', "")
#: Takes requests and never gives them back, nor comes back itself.
SLEEPY = r"""
#include <time.h>
#include "gpuio.h"

static int probe(const char *library, struct gpuio_why *why) { (void)library; (void)why; return 0; }
static int open_(struct gpuio_job *job) { (void)job; return 0; }
static int submit(struct gpuio_job *job, struct gpuio_io *const *ios, unsigned n)
{
	struct timespec day = {.tv_sec = 86400};

	(void)job; (void)ios; (void)n;
	while (nanosleep(&day, 0) <= 0)
		continue;
	return 0;
}
static int reap(struct gpuio_job *job, struct gpuio_io **done, unsigned min, unsigned max)
{
	(void)job; (void)done; (void)min; (void)max;
	return 0;
}
static void close_(struct gpuio_job *job) { (void)job; }

const struct gpuio_engine gpuio_engine = {
	.name = "sleepy", .abi = GPUIO_ABI, .flags = GPUIO_ENGINE_SYNC,
	.probe = probe, .open = open_, .submit = submit, .reap = reap, .close = close_,
};
"""
CRASHY = SLEEPY.replace(
    "while (nanosleep(&day, 0) <= 0)", "(void)day;\n\t*(volatile int *)8 = 1;\n\twhile (0)"
).replace('"sleepy"', '"crashy"')
REGISTER = """
import dataclasses
from pytest_gpuio.datapaths import get
from pytest_gpuio.datapaths.base import kernel_path

def pytest_gpuio_register_datapaths(config):
    return [
        dataclasses.replace(
            get("psync"), name=name, engine=name, family=family, synchronous=synchronous, prove=kernel_path(name, name)
        )
        for name, family, synchronous in {names!r}
    ]
"""


def children_of(pid):
    """Measuring children of a process by their name, with the ids of their threads."""
    found = {}
    with contextlib.suppress(OSError):
        for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split():
            words = Path(f"/proc/{child}/cmdline").read_text().split("\0")
            if "pytest_gpuio.measure.child" in words:
                found[words[5]] = (int(child), sorted(int(task.name) for task in Path(f"/proc/{child}/task").iterdir()))
    return found


def measuring_child(process, other_than=None):
    """Id of the child in which a worker's thread is at work; None while there is none."""
    pid, threads = children_of(process.pid).get("posix", (None, []))
    return pid if len(threads) > 1 and pid != other_than else None


def running(pid):
    """Whether the process is there and no zombie."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def until(condition, seconds=30.0):
    """The first true value of the condition; fails after so many seconds."""
    deadline = time.monotonic() + seconds
    while not (value := condition()):
        assert time.monotonic() < deadline, "not within the deadline"
        time.sleep(0.005)
    return value


@pytest.fixture
def started(pytester, target):
    """Function: pytest in the background on a suite of long cells; killed at the end if it is still there."""
    processes = []

    def start(*arguments, suite=TWO):
        pytester.makepyfile(test_suite=suite)
        command = [sys.executable, "-P", "-m", "pytest", f"--gpuio-target={target}", "--gpuio-size=32M", *arguments]
        command += ["-p", "no:codspeed", "-p", "no:cacheprovider", "-p", "no:hypothesispytest"]
        process = subprocess.Popen(
            command, cwd=pytester.path, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
        )
        processes.append(process)
        return process

    yield start
    for process in processes:
        process.kill()
        process.communicate(timeout=30)


@pytest.fixture
def outside_engine(shared_object, monkeypatch):
    """Function: compiles engines from C (text, or a file of the checkout) and names them in GPUIO_ENGINE_PATH."""

    def build(**sources):
        made = [shared_object(source, f"{name}.so") for name, source in sources.items()]
        monkeypatch.setenv("GPUIO_ENGINE_PATH", os.pathsep.join(map(str, made)))

    return build


# ---- death -----------------------------------------------------------------------------------------------------------


def test_a_child_that_is_killed_in_the_middle_fails_its_cell_and_the_next_one_passes(started, pytester, results):
    process = started("--gpuio-datapath=psync", "--gpuio-max-time=2s", "--gpuio-precision=0.001%")
    first = until(lambda: measuring_child(process))
    time.sleep(0.3)
    os.kill(first, signal.SIGKILL)
    second = until(lambda: measuring_child(process, other_than=first))
    output, _ = process.communicate(timeout=60)
    assert second != first
    assert process.returncode == pytest.ExitCode.TESTS_FAILED
    assert "1 failed, 1 passed" in output
    assert "was killed by SIGKILL" in output
    assert "Traceback" not in output
    (failure,) = results()["failures"]
    assert f"measuring child 'posix' (pid {first}) was killed by SIGKILL" in failure["reason"]
    assert "|bs=4k|" in failure["case"]
    assert [cell["axes"]["bs"] for cell in results()["cells"]] == [8192]
    assert validate_file(pytester.path / "gpuio-results.json") == []
    assert not running(first)
    assert not running(second)


def test_kill_9_of_pytest_leaves_no_child_and_no_lock(started, gpuio_run):
    process = started("--gpuio-datapath=psync", "--gpuio-max-time=30s", "--gpuio-precision=0.001%")
    until(lambda: measuring_child(process))
    children = [pid for pid, _ in children_of(process.pid).values()]
    assert len(children) >= 3  # probe, layout, and the one that measures
    process.kill()
    process.wait(30)
    until(lambda: not any(running(child) for child in children), 10)
    gpuio_run("--gpuio-datapath=psync", "--gpuio-lock-timeout=5s").assert_outcomes(passed=1)


def test_an_engine_that_crashes_fails_its_cell_with_the_signal(outside_engine, gpuio_run, pytester, results):
    outside_engine(crashy=CRASHY)
    pytester.makeconftest(REGISTER.format(names=[("crashy", "posix", True)]))
    suite = TWO.replace('"gpuio_bs", [4096, 8192]', '"datapath", ["crashy", "psync"]')
    result = gpuio_run(suite=suite)
    result.assert_outcomes(failed=1, passed=1)
    result.stdout.no_fnmatch_line("*another exception*")
    (failure,) = results()["failures"]
    assert re.match(r"measuring child 'posix' \(pid \d+\) was killed by SIGSEGV", failure["reason"])
    assert 'engine/run.py", line' in failure["reason"], "faulthandler's last words are kept"
    assert [cell["axes"]["datapath"] for cell in results()["cells"]] == ["psync"]


# ---- hanging ---------------------------------------------------------------------------------------------------------


def test_an_engine_that_never_comes_back_is_timed_out_by_name_and_the_run_goes_on(
    outside_engine, gpuio_run, pytester, results
):
    outside_engine(sleepy=SLEEPY)
    pytester.makeconftest(REGISTER.format(names=[("sleepy", "posix", True)]))
    # Both paths share a child: what is stuck in it must not reach the next cell.
    suite = TWO.replace('"gpuio_bs", [4096, 8192]', '"datapath", ["sleepy", "psync"]')
    begin = time.monotonic()
    gpuio_run("--gpuio-timeout=1s", "--gpuio-jobs=2", suite=suite).assert_outcomes(failed=1, passed=1)
    assert time.monotonic() - begin < 60
    (failure,) = results()["failures"]
    assert "worker 0 of engine sleepy did not come back within 1 s" in failure["reason"]
    assert "|datapath=sleepy|" in failure["case"]
    assert [cell["axes"]["datapath"] for cell in results()["cells"]] == ["psync"]
    assert validate_file(pytester.path / "gpuio-results.json") == []


def test_a_stuck_worker_does_not_outlive_the_run(outside_engine, started, pytester):
    outside_engine(sleepy=SLEEPY)
    pytester.makeconftest(REGISTER.format(names=[("sleepy", "posix", True)]))
    process = started("--gpuio-datapath=sleepy", "--gpuio-timeout=1s", "--gpuio-bs=4k", suite=READ)
    seen = set()
    deadline = time.monotonic() + 60
    while process.poll() is None and time.monotonic() < deadline:
        seen.update(pid for pid, _ in children_of(process.pid).values())
        time.sleep(0.02)
    output, _ = process.communicate(timeout=10)
    assert "1 failed" in output
    assert len(seen) >= 3  # probe, layout, and the one that measured
    assert not any(running(pid) for pid in seen)


# ---- outside engines that work, and those that do not load -----------------------------------------------------------


def test_the_skeleton_engine_is_measured_like_any_other(outside_engine, gpuio_run, pytester, results):
    outside_engine(sleepy=SLEEPY, skeleton=Path("src/engines/skeleton.c"))
    pytester.makeconftest(REGISTER.format(names=[("skeleton", "posix", False)]))
    arguments = ("--gpuio-datapath=skeleton", "--gpuio-cache=hot", "--gpuio-qd=4", "--gpuio-verify=full")
    gpuio_run(*arguments, suite=TWO).assert_outcomes(passed=2)
    for cell in results()["cells"]:
        assert cell["effective"]["datapath"] == "skeleton"
        assert "engine skeleton" in cell["effective"]["evidence"]
        assert cell["verify"]["checked"] >= cell["ios"]


@pytest.mark.parametrize("what", ["missing", "no_engine"])
def test_an_engine_that_cannot_be_loaded_is_a_sentence(gpuio_run, results, tmp_path, monkeypatch, what):
    library = tmp_path / "library.so"
    if what == "no_engine":
        library.write_bytes(b"not a shared object")
    monkeypatch.setenv("GPUIO_ENGINE_PATH", str(library))
    result = gpuio_run("-rs", "--gpuio-datapath=psync", "--gpuio-require=engine")
    assert "passed" not in result.parseoutcomes()
    assert "Traceback" not in result.stdout.str()
    (fate,) = results()["failures"] + results()["skips"]
    assert "GPUIO_ENGINE_PATH" in fate["reason"]
    assert str(library) in fate["reason"]
