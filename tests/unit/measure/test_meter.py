"""The meter around real windows of the null engine, and around a poller and a daemon."""

import os
import subprocess
import sys
import time
from contextlib import closing

import pytest

from pytest_gpuio.core.errors import ConfigError
from pytest_gpuio.engine import Clock, Pool, Run, RunSpec
from pytest_gpuio.measure import meter, processes
from pytest_gpuio.measure.meter import CpuMeter

SPEC = RunSpec(engine="null", depth=4, block=4096, region_bytes=1 << 20)
DAEMON = "print(flush=True)\nwhile True: pass"


@pytest.fixture(scope="module")
def clock():
    return Clock.calibrate()


@pytest.fixture
def run(clock):
    with closing(Pool()) as pool, Run(SPEC, clock, pool) as run:
        yield run


def measure(run, meter, windows=2, ios=300_000):
    seen = []
    meter.begin_window()
    meter.end_window(run.window(ios))
    meter.start()
    for _ in range(windows):
        meter.begin_window()
        window = run.window(ios)
        meter.end_window(window)
        seen.append(window)
    return seen, meter.finish(None)


def test_the_shares_are_the_processes_clock_over_the_windows(run):
    with_meter = CpuMeter()
    windows, found = measure(run, with_meter)
    with_meter.close()
    total = sum(window.cpu_ns for window in windows) / 1e9
    assert sum(thread["seconds"] for thread in found["threads"]) == pytest.approx(total)
    worker = found["threads"][0]
    assert worker["role"] == "submitter"
    assert worker["tid"] == windows[0].workers[0].tid
    assert worker["seconds"] == pytest.approx(sum(window.workers[0].cpu_ns for window in windows) / 1e9)


def test_starting_again_forgets_what_was_measured(run):
    with_meter = CpuMeter()
    measure(run, with_meter)
    windows, found = measure(run, with_meter, windows=1)
    assert sum(t["seconds"] for t in found["threads"]) == pytest.approx(windows[0].cpu_ns / 1e9)


def test_what_is_unknown_has_a_reason(run):
    with_meter = CpuMeter()
    _, found = measure(run, with_meter)
    assert (found["sq_useful_share"], found["sq_reason"]) == (None, "no submission poller")
    assert (found["cycles_per_io"] is None) == (found["perf_reason"] is not None)
    assert (found["instructions_per_io"] is None) == (found["perf_reason"] is not None)
    assert found["irq_reason"]
    assert (found["irq_s"] is None) == ("outside" not in found["irq_reason"] and "of " not in found["irq_reason"][:3])
    control = found["control"]
    assert not control["trusted"]
    assert "4 s are needed" in control["reason"]
    assert control["idle_cores"] is None


def test_a_named_daemon_is_counted_inside_windows_only(run):
    with subprocess.Popen([sys.executable, "-S", "-c", DAEMON], stdout=subprocess.PIPE) as daemon:

        def clock():
            return processes.clocks([daemon.pid])[daemon.pid] / 1e9

        def wait_until(seconds):
            deadline = time.monotonic() + 60
            while clock() < seconds:
                assert time.monotonic() < deadline, "the daemon gets no CPU"
                time.sleep(0.01)

        try:
            daemon.stdout.readline()
            with_meter = CpuMeter((daemon.pid,))
            with_meter.start()
            wait_until(clock() + 0.2)  # between windows: it is not the cell's
            begun = clock()
            with_meter.begin_window()
            window = run.window(1_000)
            wait_until(begun + 0.2)
            with_meter.end_window(window)
            ended = clock()
            (found,) = with_meter.finish(None)["daemons"]
        finally:
            daemon.kill()
    assert found["pid"] == daemon.pid
    assert found["name"].startswith("python")
    assert 0.1 < found["seconds"] <= ended - begun + 1e-6


def test_a_daemon_that_does_not_exist_is_refused():
    with subprocess.Popen(["true"]) as gone:
        gone.wait()
    with pytest.raises(ConfigError, match=rf"no process {gone.pid}: --gpuio-daemon"):
        CpuMeter((os.getpid(), gone.pid))


def test_a_stopped_window_is_no_part_of_the_figures(clock):
    stop = memoryview(bytearray(4)).cast("I")
    stop[0] = 1
    with closing(Pool()) as pool, Run(SPEC, clock, pool, stop) as run:
        with_meter = CpuMeter()
        with_meter.start()
        with_meter.begin_window()
        with_meter.end_window(run.window(1_000))
        found = with_meter.finish(None)
    assert [thread["seconds"] for thread in found["threads"]] == [0.0]


def test_the_idle_host_is_watched_once(monkeypatch):
    calls = []
    monkeypatch.setattr(meter.host, "idle_cores", lambda: calls.append(1) or 0.25)
    meter.idle_cores.cache_clear()
    try:
        for _ in range(2):
            CpuMeter(controlled=True).close()
        CpuMeter().close()
    finally:
        meter.idle_cores.cache_clear()
    assert calls == [1]
