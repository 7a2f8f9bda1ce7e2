import math
import random
import statistics

import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from pytest_gpuio.measure.stopping import StoppingRule, WarmUp, effective_count, relative_ci, t95

COSTS = st.lists(st.floats(1e-9, 1e3, allow_nan=False), min_size=2, max_size=60)


@pytest.mark.parametrize("freedom", [*range(1, 41), 60, 100, 1000, 10**6])
def test_t_quantile_agrees_with_scipy(freedom):
    assert t95(freedom) == pytest.approx(stats.t.ppf(0.975, freedom), rel=1e-3)


def test_t_quantile_needs_a_degree_of_freedom():
    with pytest.raises(ValueError, match="degree of freedom"):
        t95(0)


@given(COSTS)
def test_relative_ci_is_scipys_interval_for_the_independent_count(costs):
    count = effective_count(costs)
    expected = stats.t.ppf(0.975, count - 1) * statistics.stdev(costs) / math.sqrt(count) / statistics.fmean(costs)
    # Between whole degrees of freedom the quantile is interpolated.
    assert relative_ci(costs) == pytest.approx(expected, rel=0.04, abs=1e-12)


@given(COSTS)
def test_correlation_never_makes_an_interval_narrower_than_the_textbook(costs):
    assert 2 <= effective_count(costs) <= len(costs)
    textbook = stats.t.ppf(0.975, len(costs) - 1) * stats.sem(costs) / statistics.fmean(costs)
    assert relative_ci(costs) >= textbook * 0.998


def autoregressive(draw, count, correlation):
    level, values = draw.gauss(0.0, 1.0), []
    for _ in range(count):
        level = correlation * level + math.sqrt(1.0 - correlation**2) * draw.gauss(0.0, 1.0)
        values.append(1.0 + 0.05 * level)
    return values


def covered(values):
    mean = statistics.fmean(values)
    return abs(mean - 1.0) <= relative_ci(values) * mean


@pytest.mark.parametrize(("count", "correlation", "least"), [(20, 0.0, 0.93), (40, 0.6, 0.85), (100, 0.6, 0.9)])
def test_the_interval_holds_the_true_mean_of_correlated_windows_too(count, correlation, least):
    # The textbook's interval holds it in two thirds of the cases at correlation 0.6, however many windows.
    draw = random.Random(7)
    assert sum(covered(autoregressive(draw, count, correlation)) for _ in range(400)) >= least * 400


def test_independent_windows_lose_little():
    draw = random.Random(11)
    lost = [effective_count(autoregressive(draw, 40, 0.0)) / 40 for _ in range(200)]
    assert statistics.median(lost) > 0.8


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


def test_the_rule_looks_less_often_at_a_long_series():
    rule = StoppingRule(precision=0.05, max_time=math.inf)
    costs = [1.0, 9.0] * 50
    assert rule.reason(costs, 0.0) is None
    assert rule.reason([1.0] * 105, 0.0) is None
    assert rule.reason([1.0] * 106, 0.0) == "precision"


def feed(warm_up, *costs):
    """Windows until warm-up is over; how many it took."""
    for count, cost in enumerate(costs, start=1):
        if warm_up.done(cost * 0.1, 1):
            return count
    raise AssertionError("warm-up went on")


@pytest.mark.parametrize(
    ("costs", "windows", "reason"),
    [
        ((2.0, 1.0, 1.01), 3, "flat after 3 windows: the last 2 within 1.2%"),
        ((2.0, 1.0, 1.04, 1.01), 4, "flat after 4 windows: the last 3 within 5.0%"),
        # Noise without a trend: waiting for neighbours to agree would use up all patience.
        ((1.2, 0.9, 1.1, 1.0), 4, "flat after 4 windows: the last 4 scatter by 33% without a trend"),
        # Neighbours within 4 % of each other on a slope that goes on.
        ((1.0, 0.96, 0.92, 0.88, 0.85, 0.849), 6, "flat after 6 windows: the last 2 within 1.2%"),
    ],
)
def test_warm_up_ends_when_the_cost_is_flat(costs, windows, reason):
    warm_up = WarmUp(most_seconds=100.0)
    assert feed(warm_up, *costs) == windows
    assert warm_up.reason == reason


def test_warm_up_loses_patience_and_says_so():
    warm_up = WarmUp(most_windows=3, most_seconds=100.0)
    assert feed(warm_up, 1.0, 2.0, 4.0) == 3
    assert warm_up.reason == "gave up after 3 windows: still moving by 100%"


@given(st.integers(0, 2**32))
def test_a_noisy_flat_target_needs_few_windows(seed):
    draw = random.Random(seed)
    warm_up = WarmUp(most_windows=50, most_seconds=1e9)
    assert feed(warm_up, *(draw.lognormvariate(0.0, 0.3) for _ in range(50))) <= 25


def test_one_long_window_ends_warm_up_by_time():
    warm_up = WarmUp(most_seconds=0.5)
    assert warm_up.done(1.0, 10)
    assert warm_up.reason == "gave up after 1 windows: one window only"
