import threading
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_gpuio.measure.cpu import Task, split, tasks

SECONDS = st.floats(0.0, 1e4, allow_nan=False)


def test_tasks_sees_a_busy_thread_of_this_process():
    tid, stop = [], threading.Event()

    def spin():
        tid.append(threading.get_native_id())
        while not stop.is_set():
            pass

    thread = threading.Thread(target=spin, name="spinner")
    before = tasks()
    thread.start()
    until = time.monotonic() + 10
    while time.monotonic() < until and (not tid or tasks().get(tid[0], Task(0, "", 0.0)).seconds < 0.02):
        pass
    after = tasks()
    stop.set()
    thread.join()
    assert tid[0] not in before
    assert after[tid[0]].seconds >= 0.02


def test_kernel_helpers_are_named_and_the_rest_is_what_is_left():
    before = {1: Task(1, "python", 5.0), 2: Task(2, "iou-sqp-77", 1.0)}
    after = {
        1: Task(1, "python", 9.0),
        2: Task(2, "iou-sqp-77", 1.5),
        3: Task(3, "iou-wrk-77", 0.25),
        4: Task(4, "iou-wrkers", 3.0),
    }
    shares = split(2.0, [0.5, 0.25], before, after)
    assert [(share.name, share.role, share.seconds) for share in shares] == [
        ("worker0", "submitter", 0.5),
        ("worker1", "submitter", 0.25),
        ("iou-sqp", "kernel_helper", 0.5),
        ("iou-wrk", "kernel_helper", 0.25),
        ("rest of the process", "other", 0.5),
    ]


@given(st.lists(SECONDS, max_size=8), SECONDS)
def test_shares_add_up_to_the_total_when_it_is_the_larger(submitters, extra):
    total = sum(submitters) + extra
    assert sum(share.seconds for share in split(total, submitters, {}, {})) == pytest.approx(total, rel=1e-9, abs=1e-9)


def test_a_reused_thread_id_does_not_inherit_its_predecessors_time():
    shares = split(1.0, [], {5: Task(5, "iou-wrk-1", 9.0)}, {5: Task(5, "iou-wrk-2", 0.5)})
    assert shares[0].seconds == 0.5
