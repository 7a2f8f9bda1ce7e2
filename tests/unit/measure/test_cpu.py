import os
import threading
import time
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_gpuio.engine import thread_clocks
from pytest_gpuio.measure.cpu import Thread, ThreadMeter, split

SECONDS = st.floats(0.0, 1e4, allow_nan=False)
MAIN = 1


def spin(seconds):
    """Use CPU of the calling thread; returns what its own clock says."""
    until = time.thread_time() + seconds
    while time.thread_time() < until:
        pass
    return time.thread_time()


def schedstat(tid):
    """What the scheduler says about a thread: an observer besides its clock, at most a tick old."""
    return int(Path(f"/proc/self/task/{tid}/schedstat").read_text().split()[0]) / 1e9


def test_the_clock_of_each_thread_is_the_schedulers():
    stop, ready = threading.Event(), threading.Event()

    def work():
        spin(0.1)
        ready.set()
        stop.wait(30)

    thread = threading.Thread(target=work)
    before = thread_clocks()
    thread.start()
    assert ready.wait(30)
    after = thread_clocks()
    tid = thread.native_id
    told = schedstat(tid)
    stop.set()
    thread.join()
    assert tid not in before
    assert after[tid] / 1e9 == pytest.approx(told, abs=0.02)
    assert after[tid] >= 0.1e9
    assert after[os.getpid()] >= before[os.getpid()] > 0


def test_only_what_threads_do_inside_windows_counts():
    go = threading.Semaphore(0)
    done = threading.Semaphore(0)
    names = []

    def work():
        names.append(threading.get_native_id())
        for seconds in (0.1, 0.4, 0.1):
            go.acquire()
            spin(seconds)
            done.release()
        go.acquire()

    thread = threading.Thread(target=work)
    thread.start()
    meter = ThreadMeter()
    for window in (True, False, True):
        if window:
            meter.begin()
        go.release()
        done.acquire()
        if window:
            meter.end()
    seen = meter.threads()[names[0]]
    go.release()
    thread.join()
    assert 0.2 <= seen.seconds < 0.3


def test_a_thread_that_ended_before_the_windows_end_is_in_the_total_only():
    meter = ThreadMeter()
    before = time.process_time()
    meter.begin()
    thread = threading.Thread(target=spin, args=(0.2,))
    thread.start()
    tid = thread.native_id
    thread.join()
    deadline = time.monotonic() + 30
    while tid in thread_clocks() and time.monotonic() < deadline:
        time.sleep(0.001)  # it is joined a moment before it is gone
    meter.end()
    total = time.process_time() - before
    assert tid not in meter.threads()
    shares = split(total, [], meter.threads(), os.getpid())
    (rest,) = [share for share in shares if share.role == "other"]
    assert rest.seconds > 0.15


def test_threads_have_their_roles_and_the_rest_is_what_is_left():
    threads = {
        MAIN: Thread("python", 9.0),
        2: Thread("iou-sqp-77", 0.5),
        3: Thread("iou-wrk-77", 0.25),
        4: Thread("cufile_worker", 0.125),
        5: Thread("gpuio-worker", 0.5),
        6: Thread("iou-wrkers", 0.0),
    }
    shares = split(2.0, [(5, 0.5), (7, 0.25)], threads, MAIN)
    assert [(share.name, share.role, share.seconds, share.tid) for share in shares] == [
        ("worker0", "submitter", 0.5, 5),
        ("worker1", "submitter", 0.25, 7),
        ("iou-sqp", "kernel_helper", 0.5, 2),
        ("iou-wrk", "kernel_helper", 0.25, 3),
        ("cufile_worker", "library", 0.125, 4),
        ("rest of the process", "other", 0.375, None),
    ]


def test_a_poller_that_slept_is_still_a_poller():
    shares = split(1.0, [(5, 1.0)], {2: Thread("iou-sqp-1", 0.0), 3: Thread("iou-wrk-1", 0.0)}, MAIN)
    assert [share.name for share in shares] == ["worker0", "iou-sqp", "rest of the process"]


@given(
    st.lists(SECONDS, max_size=4),
    st.lists(st.tuples(st.sampled_from(["iou-sqp-9", "iou-wrk-9", "pool"]), SECONDS), max_size=4),
    SECONDS,
)
def test_shares_add_up_to_the_total_whatever_the_threads_say(submitters, others, extra):
    total = sum(submitters) + extra
    threads = {100 + number: Thread(name, seconds) for number, (name, seconds) in enumerate(others)}
    shares = split(total, list(enumerate(submitters, start=10)), threads, MAIN)
    assert sum(share.seconds for share in shares) == pytest.approx(total, rel=1e-9, abs=1e-9)
    assert all(share.seconds >= 0 for share in shares)
