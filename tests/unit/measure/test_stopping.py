import math
import statistics

import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from pytest_gpuio.measure.stopping import StoppingRule, WarmUp, relative_ci, t95

COSTS = st.lists(st.floats(1e-9, 1e3, allow_nan=False), min_size=2, max_size=60)


@pytest.mark.parametrize("freedom", [*range(1, 41), 60, 100, 1000, 10**6])
def test_t_quantile_agrees_with_scipy(freedom):
    assert t95(freedom) == pytest.approx(stats.t.ppf(0.975, freedom), rel=1e-3)


def test_t_quantile_needs_a_degree_of_freedom():
    with pytest.raises(ValueError, match="degree of freedom"):
        t95(0)


@given(COSTS)
def test_relative_ci_is_scipys_interval(costs):
    mean = statistics.fmean(costs)
    error = stats.sem(costs)
    expected = stats.t.ppf(0.975, len(costs) - 1) * error / mean
    assert relative_ci(costs) == pytest.approx(expected, rel=2e-3, abs=1e-12)


@pytest.mark.parametrize("costs", [[], [1.0], [0.0, 0.0]])
def test_relative_ci_is_unknown_without_spread_or_mean(costs):
    assert relative_ci(costs) is None


def test_precision_stops_only_after_enough_windows():
    rule = StoppingRule(precision=0.05, max_time=100.0)
    assert rule.reason([1.0] * 4, 4.0) is None
    assert rule.reason([1.0] * 5, 5.0) == "precision"


def test_time_budget_stops_a_noisy_cell_but_never_below_three_windows():
    rule = StoppingRule(precision=0.001, max_time=1.0)
    assert rule.reason([1.0, 2.0], 3.0) is None
    assert rule.reason([1.0, 2.0, 1.5], 4.5) == "max_time"


def test_window_limit():
    rule = StoppingRule(precision=1e-6, max_time=1e9, most_windows=7)
    assert rule.reason([1.0, 2.0] * 4, 12.0) == "max_windows"


@given(COSTS, st.floats(0.001, 0.5))
def test_precision_is_claimed_only_when_it_holds(costs, precision):
    rule = StoppingRule(precision=precision, max_time=math.inf)
    if rule.reason(costs, 0.0) == "precision":
        assert relative_ci(costs) <= precision


def test_warm_up_ends_when_neighbours_agree():
    warm_up = WarmUp(tolerance=0.05)
    assert not warm_up.done(2.0, 100)
    assert not warm_up.done(1.0, 100)
    assert warm_up.done(1.01, 100)
    assert warm_up.reason == "flat after 3 windows"


def test_warm_up_loses_patience_and_says_so():
    warm_up = WarmUp(most_windows=3, most_seconds=100.0)
    assert not warm_up.done(1.0, 10)
    assert not warm_up.done(2.0, 10)
    assert warm_up.done(4.0, 10)
    assert warm_up.reason == "gave up after 3 windows: still moving by 100%"


def test_one_long_window_ends_warm_up_by_time():
    warm_up = WarmUp(most_seconds=0.5)
    assert warm_up.done(1.0, 10)
    assert warm_up.reason == "gave up after 1 windows: one window only"
