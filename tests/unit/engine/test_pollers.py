"""Rings with a kernel thread that submits, and rings that poll the device."""

from __future__ import annotations

import errno
import os
import re
import time
from dataclasses import replace
from pathlib import Path

import pytest

from pytest_gpuio.core.errors import EngineError
from pytest_gpuio.engine import Clock, Pool, Run, RunSpec, probe

MIB = 1 << 20


@pytest.fixture
def poller(target) -> RunSpec:
    reason = probe("io_uring_sqpoll")
    if reason is not None:
        pytest.skip(reason)
    return RunSpec(
        engine="io_uring_sqpoll", fd=target(), depth=8, order="random", region_bytes=4 * MIB, pattern_seed=7,
        verify=True, timeout_s=60,
    )  # fmt: skip


def ring_info(fd: int) -> dict[str, str]:
    lines = Path(f"/proc/self/fdinfo/{fd}").read_text().splitlines()
    return dict(re.split(r":\s*", line, maxsplit=1) for line in lines if ":" in line)


def cpu_ns(tid: str) -> int:
    return int(Path(f"/proc/self/task/{tid}/schedstat").read_text().split()[0])


def test_reads_and_writes(poller, clock: Clock, pool: Pool):
    spec = replace(poller, jobs=2, knobs=frozenset({"fixed_buffers", "registered_files"}), sq_idle_ms=2)
    with Run(spec, clock, pool) as run:
        for _ in range(3):
            window = run.window(1000)
            assert (window.ios, window.verified, window.bad, window.errors) == (1000, 1000, 0, 0)
            time.sleep(0.01)  # the poller falls asleep, and is woken
        assert run.histograms()["slat"].count == 1000
        assert run.effective_knobs == spec.knobs
    with Run(replace(spec, read_percent=0, verify=False, sync="end"), clock, pool) as run:
        assert run.window(4 * MIB // 4096).writes == 4 * MIB // 4096
        assert run.sweep().bad == 0


def test_the_poller_has_the_cpu_it_was_given(poller, clock: Clock, pool: Pool):
    cpus = sorted(os.sched_getaffinity(0))
    with Run(replace(poller, jobs=2, sq_cpus=(cpus[-1], -1)), clock, pool) as run:
        run.window(100)
        pinned, free = (ring_info(fd)["SqThread"] for fd in run.ring_fds)
        status = Path(f"/proc/self/task/{pinned}/status").read_text()
        assert f"Cpus_allowed_list:\t{cpus[-1]}\n" in status
        assert Path(f"/proc/self/task/{pinned}/comm").read_text().startswith("iou-sqp-")
        assert free != pinned


def test_a_cpu_that_is_not_there(poller, clock: Clock, pool: Pool):
    with pytest.raises(EngineError, match="the submission poller cannot have CPU 4000") as raised:
        Run(replace(poller, sq_cpus=(4000,)), clock, pool)
    assert raised.value.errno == errno.EINVAL
    with pytest.raises(EngineError, match="1 CPUs are given for 2 jobs"):
        Run(replace(poller, jobs=2, sq_cpus=(0,)), clock, pool)


def test_it_sleeps_when_it_was_told_to(poller, clock: Clock, pool: Pool):
    def spins(idle_ms: int) -> int:
        with Run(replace(poller, sq_idle_ms=idle_ms), clock, pool) as run:
            run.window(100)
            tid = ring_info(run.ring_fds[0])["SqThread"]
            time.sleep(0.05)
            before = cpu_ns(tid)
            time.sleep(0.3)
            return cpu_ns(tid) - before

    assert spins(1) == 0
    assert spins(60_000) > 0


def test_rings_are_told_by_engines_that_have_one(clock: Clock, pool: Pool, target):
    with Run(RunSpec(engine="null", jobs=2, region_bytes=MIB), clock, pool) as run:
        assert run.ring_fds == (-1, -1)


_STEADY = """
import os, sys
from pytest_gpuio.engine import Clock, Pool, Run, RunSpec
fd = os.open(sys.argv[1], os.O_RDONLY)
cpus = sorted(os.sched_getaffinity(0))
spec = RunSpec(engine=sys.argv[2], fd=fd, depth=16, order="random", region_bytes=4 << 20, cpus=(cpus[0],),
               sq_cpus=(cpus[-1],), sq_idle_ms=60_000)
with Run(spec, Clock.calibrate(), Pool()) as run:
    assert run.window(20_000).ios == 20_000
"""


@pytest.mark.parametrize(("engine", "expected"), [("io_uring_sqpoll", range(200)), ("io_uring", range(20_000, 80_000))])
def test_who_enters_the_kernel(poller, target, traced, tmp_path, engine, expected):
    """Counted by strace. With a poller the submitter only does while a starved poller keeps it waiting for 10 ms."""
    if engine == "io_uring_sqpoll" and len(os.sched_getaffinity(0)) < 2:
        pytest.skip("a poller and its submitter need a CPU each")
    target()
    path = next(tmp_path.glob("gpuio-test-*"))
    _, threads = traced("io_uring_enter", _STEADY, path, engine)
    assert "".join(threads.values()).count("io_uring_enter(") in expected


@pytest.mark.parametrize("engine", ["io_uring_iopoll", "io_uring_full"])
def test_what_cannot_be_polled_says_so(target, clock: Clock, pool: Pool, engine):
    reason = probe(engine)
    if reason is not None:
        pytest.skip(reason)
    # Buffered: not even a device with poll queues can be polled for that.
    with Run(RunSpec(engine=engine, fd=target(), depth=4, region_bytes=4 * MIB, timeout_s=60), clock, pool) as run:
        if int(os.uname().release.split(".")[0]) * 100 + int(os.uname().release.split(".")[1]) < 612:
            assert run.window(100).ios == 100
            pytest.skip("before Linux 6.12 what cannot be polled completes by interrupt, and nothing says so")
        with pytest.raises(EngineError, match="queue/io_poll") as raised:
            run.window(100)
    assert raised.value.errno == errno.EOPNOTSUPP
    assert engine in str(raised.value)
    assert "nvme.poll_queues" in str(raised.value)


def test_passthrough_needs_its_own_kind_of_device(target, clock: Clock, pool: Pool):
    reason = probe("io_uring_cmd")
    if reason is not None:
        pytest.skip(reason)
    with pytest.raises(EngineError, match="NVMe generic character device such as /dev/ng0n1") as raised:
        Run(RunSpec(engine="io_uring_cmd", fd=target(), depth=4, region_bytes=4 * MIB), clock, pool)
    assert raised.value.errno == errno.ENOTSUP
