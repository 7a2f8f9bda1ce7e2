import os
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_gpuio.measure import control, host
from pytest_gpuio.measure.control import Snapshot
from pytest_gpuio.measure.processes import Census
from pytest_gpuio.measure.task_time import TaskTime

S = 10**9
CPUS = {0: (0.0, 0.0), 1: (0.0, 0.0)}


def snapshot(at_s, idle_s, own_s, others, steal_s=0.0, cpus=CPUS, tasks=None):
    times = host.HostTimes(round(at_s * S), idle_s, steal_s, cpus)
    census = Census({pid: round(s * S) for pid, s in others.items()})
    return Snapshot(round(at_s * S), S // 100, times, round(own_s * S), census, tasks)


def weigh(before, after, **changes):
    return control.weigh(before, after, **({"outside_s": 0.0, "daemons": (), "idle_cores": None} | changes))


def test_the_host_is_ours_elsewheres_or_unattributed(monkeypatch):
    monkeypatch.setattr(host, "every_task_is_visible", lambda: True)
    before = snapshot(0, 100.0, 1.0, {10**6: 4.0, 10**6 + 1: 7.0})
    after = snapshot(5, 103.0, 4.0, {10**6: 6.0, 10**6 + 1: 8.0}, steal_s=0.5)
    seen = weigh(before, after, daemons=(10**6 + 1,), outside_s=0.25)
    # 2 CPUs x 5 s, 3 s idle, 0.5 s stolen; 3 s ours, 0.25 s interrupts, 1 s the daemon's, 2 s a stranger's.
    assert seen.truth_s == pytest.approx(6.5)
    assert seen.parts_s == pytest.approx(4.25)
    assert seen.elsewhere_s == pytest.approx(2.0)
    assert seen.unattributed_s == pytest.approx(0.25)
    assert seen.unattributed_share == pytest.approx(0.25 / 6.5)
    assert (seen.trusted, seen.reason, seen.seconds) == (True, None, 5.0)
    # Both looks took 10 ms, in which two CPUs can do 20 ms of work each time.
    assert seen.uncertainty_s == pytest.approx(0.04 + 0.04)


def tasks(seconds, *, stolen_too=False):
    return TaskTime(round(seconds * S), stolen_too)


@pytest.mark.parametrize(
    ("total", "outside", "no_task", "left"),
    [
        # 2 CPUs x 5 s, 3 s idle, 0.5 s stolen: 6.5 s spent, of which 3 s ours and 2 s a stranger's.
        (tasks(5.0), 0.0, 1.5, 0.0),
        (tasks(5.25), 0.0, 1.25, 0.25),  # a task of 0.25 s was missed
        (tasks(5.5, stolen_too=True), 0.0, 1.5, 0.0),
        (tasks(5.0), 0.5, 1.0, 0.0),  # half a second of interrupts is in the account already
        (tasks(7.0), 0.0, 0.0, 1.5),  # more than the host spent: nothing is left for interrupts
        (tasks(4.0), 0.0, None, 1.5),  # it lags behind the clocks that it is the sum of
        (None, 0.0, None, 1.5),
    ],
)
def test_what_no_task_spent_is_told_where_the_kernel_sums_its_tasks(total, outside, no_task, left):
    before = snapshot(0, 100.0, 1.0, {10**6: 4.0}, tasks=tasks(0.0, stolen_too=bool(total and total.stolen_too)))
    after = snapshot(5, 103.0, 4.0, {10**6: 6.0}, steal_s=0.5, tasks=total)
    seen = weigh(before, after, outside_s=outside)
    assert seen.no_task_s == (None if no_task is None else pytest.approx(no_task))
    assert seen.unattributed_s == pytest.approx(left)
    assert seen.parts_s + seen.elsewhere_s + (seen.no_task_s or 0) + seen.unattributed_s == pytest.approx(seen.truth_s)


def look_taking(monkeypatch, *took_ms):
    taken = iter(took_ms)
    seen = []

    def fake_look(*, first, ended):
        seen.append(Snapshot(len(seen), next(taken) * S // 1000, None, 0, Census({})))
        return seen[-1]

    monkeypatch.setattr(control, "_look", fake_look)
    return control.look(first=True, ended=True), len(seen)


def test_a_look_that_was_interrupted_is_taken_again(monkeypatch):
    assert look_taking(monkeypatch, 2)[1] == 1
    best, looks = look_taking(monkeypatch, 40, 3)
    assert (best.took_ns, looks) == (3 * S // 1000, 2)
    # It always takes so long: once more is enough to know.
    best, looks = look_taking(monkeypatch, 60, 58)
    assert (best.took_ns, looks) == (60 * S // 1000, 2)
    assert look_taking(monkeypatch, 400, 200, 100, 50, 25)[1] == 4


@given(
    st.floats(0.01, 1e4),
    st.floats(0, 1e4),
    st.floats(0, 1e4),
    st.floats(0, 100),
    st.lists(st.floats(0, 1e4), max_size=6),
)
def test_parts_elsewhere_and_unattributed_are_the_truth(seconds, idle, own, outside, others):
    strangers = {10**6 + number: spent for number, spent in enumerate(others)}
    before = snapshot(0, 0.0, 0.0, dict.fromkeys(strangers, 0.0))
    seen = weigh(before, snapshot(seconds, idle, own, strangers), outside_s=outside)
    assert seen.parts_s + seen.elsewhere_s + seen.unattributed_s == pytest.approx(seen.truth_s, rel=1e-9, abs=1e-6)
    assert seen.elsewhere_s == pytest.approx(sum(others), rel=1e-9, abs=1e-6)
    assert sum(seen.elsewhere.values()) == pytest.approx(seen.elsewhere_s)


def test_short_stretches_hidden_tasks_and_vanishing_cpus_are_not_trusted(monkeypatch):
    monkeypatch.setattr(host, "every_task_is_visible", lambda: False)
    before, after = snapshot(0, 0.0, 0.0, {}), snapshot(3.9, 1.0, 1.0, {}, cpus={0: (0.0, 0.0)})
    seen = weigh(before, after)
    assert not seen.trusted
    assert "3.9 s" in seen.reason
    assert "container" in seen.reason
    assert "off line" in seen.reason
    assert seen.unattributed_s is not None


def test_without_proc_stat_there_is_no_truth():
    before = Snapshot(0, 0, None, 0, Census({}))
    seen = weigh(before, Snapshot(5 * S, 0, None, S, Census({})))
    assert (seen.truth_s, seen.unattributed_s, seen.unattributed_share) == (None, None, None)
    assert not seen.trusted
    assert "/proc/stat" in seen.reason


def test_this_process_is_seen_by_the_host():
    """The real thing: what we spin must be in the truth, and in our part of it."""
    before = control.look(first=True, ended=True)
    until = time.thread_time() + 1.0
    while time.thread_time() < until:
        pass
    after = control.look(first=False, ended=True)
    seen = weigh(before, after)
    assert seen.parts_s >= 1.0
    assert seen.truth_s > 0.95
    assert os.getpid() in after.census.clocks
    # A fifth is far more than steps of 10 ms, and far less than counting anything twice.
    assert seen.unattributed_s > -0.2
