"""Gate ``cpu_account``: on figures, and on CPU that really is counted twice."""

import os
import time
from dataclasses import asdict
from types import SimpleNamespace

import pytest

from pytest_gpuio.measure import control, host
from pytest_gpuio.measure.gates import physics


def judge(steal_s=0.0, **changes):
    values = {
        "trusted": True,
        "reason": None,
        "truth_s": 5.0,
        "parts_s": 4.0,
        "elsewhere_s": 1.0,
        "no_task_s": 0.0,
        "unattributed_s": 0.0,
        "uncertainty_s": 0.04,
    } | changes
    return physics.cpu_account(SimpleNamespace(outcome={"cpu": {"control": values, "steal_s": steal_s}}))


@pytest.mark.parametrize(
    ("truth", "left", "state"),
    [
        (5.0, 0.0, "passed"),
        (5.0, 2.0, "passed"),  # nobody's CPU is not a contradiction
        (5.0, -0.099, "passed"),
        (5.0, -0.101, "failed"),
        (1.0, -0.039, "passed"),  # clocks are not read that well
        (1.0, -0.041, "failed"),
    ],
)
def test_more_than_two_percent_below_the_hosts_figure_is_impossible(truth, left, state):
    assert judge(truth_s=truth, unattributed_s=left).state == state


def test_stolen_time_may_be_inside_task_time():
    assert judge(unattributed_s=-0.5, steal_s=0.0).state == "failed"
    assert judge(unattributed_s=-0.5, steal_s=0.5).state == "passed"
    assert judge(unattributed_s=-0.5, steal_s=None).state == "failed"


def test_what_is_not_trusted_is_unknown_and_says_why():
    finding = judge(trusted=False, reason="the measured stretch lasted 1.0 s", unattributed_s=-3.0)
    assert (finding.state, finding.detail) == ("unknown", "the measured stretch lasted 1.0 s")
    assert physics.cpu_account(SimpleNamespace(outcome={})).state == "unknown"


def spun(monkeypatch, daemons):
    monkeypatch.setattr(host, "LEAST_CONTROL_S", 0.5)
    monkeypatch.setattr(host, "every_task_is_visible", lambda: True)
    before = control.look(first=True, ended=True)
    until = time.thread_time() + 1.0
    while time.thread_time() < until:
        pass
    after = control.look(first=False, ended=True)
    seen = control.weigh(before, after, outside_s=0.0, daemons=daemons, idle_cores=None)
    metered = {"control": asdict(seen), "steal_s": host.stolen(before.times, after.times)}
    return physics.cpu_account(SimpleNamespace(outcome={"cpu": metered}))


def test_a_daemon_that_is_measured_anyway_is_counted_twice(monkeypatch):
    finding = spun(monkeypatch, (os.getpid(),))
    assert finding.state == "failed"
    assert "counted twice" in finding.detail
    assert "--gpuio-daemon" in finding.detail


def test_the_same_account_without_it_is_possible(monkeypatch):
    assert spun(monkeypatch, ()).state == "passed"
