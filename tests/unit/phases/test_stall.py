"""Accelerator utilisation on timelines drawn by hand, against MLPerf Storage's definition."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_gpuio.core.errors import ConfigError
from pytest_gpuio.phases.stall import stall

MS = 1_000_000


def test_an_accelerator_that_never_waits_is_fully_used() -> None:
    found = stall([5 * MS, 15 * MS, 25 * MS], [10 * MS] * 3)
    assert found.utilization == 1.0
    assert (found.stall_s, found.longest_stall_s) == (0.0, 0.0)
    # The first step's wait counts in samples per second, not in utilisation.
    assert found.running_s == pytest.approx(0.035)
    assert found.steps_per_s == pytest.approx(3 / 0.035)


def test_waits_between_steps_are_what_is_lost() -> None:
    # Steps of 10 ms; waits of 100 (first), 5 and 5 ms: 20 ms of compute in 30 ms of running.
    found = stall([100 * MS, 115 * MS, 130 * MS], [10 * MS] * 3)
    assert found.utilization == pytest.approx(20 / 30)
    assert found.stall_s == pytest.approx(0.010)
    assert found.longest_stall_s == pytest.approx(0.005)
    assert found.compute_s == pytest.approx(0.030)


def test_mlperf_storage_formula_of_the_published_unet3d_h100_configuration() -> None:
    # computation_time 0.323 s and a required AU of 0.90: each step may wait for at most 0.323 / 0.9 - 0.323 s.
    compute, allowed = 0.323, 0.323 / 0.9 - 0.323
    begin, at = [], 0.0
    for _ in range(500):
        at += allowed
        begin.append(round(at * 1e9))
        at += compute
    assert stall(begin, [round(compute * 1e9)] * 500).utilization == pytest.approx(0.90, abs=1e-6)


def test_without_compute_or_with_one_step_there_is_no_utilisation() -> None:
    assert stall([5], [7]).utilization is None
    assert stall([5, 9], [0, 0]).utilization is None


@pytest.mark.parametrize(("begin", "compute"), [([], []), ([1], [1, 2]), ([0, 5], [10, 1]), ([0], [-1])])
def test_what_is_no_timeline_is_refused(begin: list[int], compute: list[int]) -> None:
    with pytest.raises(ConfigError):
        stall(begin, compute)


@given(st.lists(st.tuples(st.integers(0, 10**9), st.integers(1, 10**9)), min_size=2, max_size=50))
def test_compute_and_stalls_add_up_to_the_running_time(steps: list[tuple[int, int]]) -> None:
    begin, at = [], 0
    for wait, compute in steps:
        begin.append(at + wait)
        at += wait + compute
    found = stall(begin, [compute for _, compute in steps])
    assert found.utilization is not None
    assert 0 < found.utilization <= 1
    after_first = at - begin[0] - steps[0][1]
    assert found.stall_s * 1e9 == pytest.approx(sum(wait for wait, _ in steps[1:]), abs=1)
    assert found.utilization * after_first + found.stall_s * 1e9 == pytest.approx(after_first, rel=1e-9)
