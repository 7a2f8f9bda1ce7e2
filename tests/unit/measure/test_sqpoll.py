"""Submission pollers of real rings, made by system call; the expected thread is found by its name under /proc."""

import ctypes
import os
import time
from pathlib import Path

import pytest

from pytest_gpuio.engine import thread_clocks
from pytest_gpuio.measure import cpu, sqpoll
from pytest_gpuio.measure.cpu import ThreadMeter
from pytest_gpuio.measure.sqpoll import Poller

IO_URING_SETUP, IO_URING_ENTER = 425, 426
SETUP_SQPOLL, ENTER_SQ_WAKEUP = 1 << 1, 1 << 1
IDLE_MS = 5_000


def setup(flags):
    libc = ctypes.CDLL(None, use_errno=True)
    parameters = (ctypes.c_uint32 * 30)()
    parameters[2], parameters[4] = flags, IDLE_MS
    fd = libc.syscall(IO_URING_SETUP, 8, ctypes.byref(parameters))
    if fd < 0:
        pytest.skip(f"no ring can be made here: {os.strerror(ctypes.get_errno())}")
    return libc, fd


@pytest.fixture
def polled_ring():
    others = named_pollers()  # a ring that was closed takes its time to end
    libc, fd = setup(SETUP_SQPOLL)
    deadline = time.monotonic() + 30
    # It spins from its first wake-up on; one that comes before it sleeps is lost.
    try:
        while not (new := named_pollers() - others):  # a thread gets its name when it first runs
            assert time.monotonic() < deadline, "the ring has no poller"
        (tid,) = new
        while thread_clocks()[tid] < 10_000_000:
            assert time.monotonic() < deadline, "the poller does not wake up"
            libc.syscall(IO_URING_ENTER, fd, 0, 0, ENTER_SQ_WAKEUP, None, 0)
            time.sleep(0.01)
        yield tid
    finally:
        os.close(fd)


def named_pollers():
    tasks = Path("/proc/self/task").iterdir()
    return {int(task.name) for task in tasks if (task / "comm").read_text().startswith("iou-sqp-")}


def test_the_poller_of_a_ring_is_its_thread(polled_ring):
    assert sqpoll.pollers().keys() == {polled_ring}


def test_a_poller_spins_on_its_own_clock_and_is_a_kernel_helper(polled_ring):
    tid, meter = polled_ring, ThreadMeter()
    before, whole = sqpoll.pollers(), time.process_time()
    meter.begin()
    deadline = time.monotonic() + 30
    while meter.threads().get(tid, cpu.Thread("", 0.0)).seconds < 0.2:
        assert time.monotonic() < deadline, "the poller does not spin"
        time.sleep(0.05)
        meter.end()
        meter.begin()
    spent = meter.threads()[tid].seconds
    # The process's clock holds it, although no thread of ours did anything.
    assert time.process_time() - whole >= spent
    (share,) = [s for s in cpu.split(spent, [], meter.threads(), os.getpid()) if s.name == cpu.POLLER]
    assert share.role == "kernel_helper"
    useful, reason = sqpoll.useful_share(before, sqpoll.pollers())
    # Nothing was ever submitted.
    assert useful is None or useful < 0.1
    assert useful is not None or "SqWorkTime" in reason


def test_a_ring_without_poller_has_none():
    _, fd = setup(0)
    assert sqpoll.pollers() == {}
    os.close(fd)
    assert sqpoll.useful_share({}, {}) == (None, "no submission poller")


FDINFO = "pos:\t0\nSqMask:\t0x7\nSqThread:\t77\nSqThreadCpu:\t3\nSqTotalTime:\t1000\nSqWorkTime:\t250\nUserFiles:\t0\n"


def test_fdinfo_is_read_by_name():
    assert sqpoll.parse(FDINFO) == Poller(77, 3, 1000, 250)
    assert sqpoll.parse(FDINFO.replace("77", "-1")) is None
    assert sqpoll.parse("pos:\t0\n") is None
    older = "SqThread:\t77\nSqThreadCpu:\t3\n"  # Linux 6.1
    assert sqpoll.parse(older) == Poller(77, 3, None, None)


def test_the_share_is_of_the_stretch_and_over_all_pollers():
    before = {7: Poller(7, 0, 1000, 900), 8: Poller(8, 1, 0, 0)}
    after = {7: Poller(7, 0, 3000, 1000), 8: Poller(8, 1, 2000, 1100)}
    assert sqpoll.useful_share(before, after) == (1200 / 4000, None)
    assert sqpoll.useful_share({}, {9: Poller(9, 0, 100, 25)}) == (0.25, None)
    assert sqpoll.useful_share(after, after) == (None, "the poller slept all the time")
    share, reason = sqpoll.useful_share(before, {7: Poller(7, 0, None, None)})
    assert share is None
    assert "SqWorkTime" in reason
