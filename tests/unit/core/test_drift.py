import random
import statistics

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from pytest_gpuio.core import drift

SEEDS = st.integers(0, 2**32)
FEW = settings(max_examples=40, deadline=None)


def noise(seed, count, spread=0.05):
    draw = random.Random(seed)
    return [1.0 + draw.gauss(0.0, spread) for _ in range(count)]


def stepped(values, index, factor):
    return [value * (factor if place >= index else 1.0) for place, value in enumerate(values)]


@pytest.mark.parametrize("distribution", ["gauss", "lognormal", "spikes"])
def test_independent_noise_has_change_points_no_more_often_than_stated(distribution):
    # Binomial: with the stated rate, more than 11 of 400 has a chance of 0.1 %.
    draw = random.Random(distribution)
    shapes = {
        "gauss": lambda: draw.gauss(1.0, 0.05),
        "lognormal": lambda: draw.lognormvariate(0.0, 0.7),
        "spikes": lambda: 10.0 if draw.random() < 0.1 else draw.gauss(1.0, 0.05),
    }
    false = sum(bool(drift.change_points([shapes[distribution]() for _ in range(24)], least=0.0)) for _ in range(400))
    assert stats.binom.ppf(0.999, 400, drift.FALSE_ALARM) == 11
    assert false <= 11


@FEW
@given(SEEDS, st.integers(24, 48), st.data(), st.sampled_from([1.3, 1 / 1.3, 2.0]))
def test_a_step_of_thirty_percent_in_five_percent_noise_is_found(seed, count, data, factor):
    index = data.draw(st.integers(11, count - 11))
    found = drift.change_points(stepped(noise(seed, count), index, factor))
    assert found
    largest = max(found, key=lambda change: abs(change.ratio - 1.0))
    # Noise can move the best cut by a few windows where one side is short.
    assert abs(largest.index - index) <= 4
    assert largest.ratio == pytest.approx(factor, rel=0.12)


def test_two_steps_are_two_change_points():
    up_and_down = stepped(stepped(noise(3, 60), 20, 1.5), 40, 1 / 1.5)
    first, second = drift.change_points(up_and_down)
    assert abs(first.index - 20) <= 1
    assert abs(second.index - 40) <= 1
    assert first.after == second.before


@FEW
@given(st.lists(st.integers(1, 1000), min_size=12, max_size=40), st.integers(0, 10**6), st.integers(1, 1000))
def test_change_points_do_not_depend_on_where_zero_is_or_on_the_unit(values, shift, unit):
    plain = [change.index for change in drift.change_points(values, least=0.0)]
    assert [change.index for change in drift.change_points([v + shift for v in values], least=0.0)] == plain
    assert [change.index for change in drift.change_points([v * unit for v in values], least=0.0)] == plain


def test_a_small_step_is_not_reported_however_certain():
    values = stepped(noise(1, 60, spread=0.001), 30, 1.03)
    assert drift.change_points(values) == ()
    assert len(drift.change_points(values, least=0.02)) == 1


@pytest.mark.parametrize("count", [0, 1, 2, 11])
def test_too_few_windows_show_no_change_point(count):
    assert drift.change_points(stepped([1.0] * count, count // 2, 3.0)) == ()


def test_one_wild_window_is_not_a_step():
    values = noise(5, 30)
    values[14] = 40.0
    assert drift.change_points(values) == ()


@given(st.lists(st.floats(0.1, 10), min_size=2, max_size=40))
@FEW
def test_slope_is_scipys(values):
    assert drift.theil_sen(values) == pytest.approx(stats.theilslopes(values).slope, abs=1e-12)


def test_a_slope_needs_two_values():
    with pytest.raises(ValueError, match="two values"):
        drift.theil_sen([1.0])


@pytest.mark.parametrize("count", [3, 6, 10])
def test_trend_is_scipys_exact_test(count):
    for seed in range(20):
        values = noise(seed, count)
        expected = stats.kendalltau(range(count), values, method="exact").pvalue
        assert drift.trend_p(values) == pytest.approx(expected)


def test_trend_of_many_windows_is_close_to_the_exact_test():
    for seed in range(20):
        values = noise(seed, 30)
        expected = stats.kendalltau(range(30), values, method="exact").pvalue
        assert drift.trend_p(values) == pytest.approx(expected, abs=0.03)


def test_a_slow_drift_is_told_with_its_size():
    values = [value * (1 + 0.01 * place) for place, value in enumerate(noise(2, 30, spread=0.01))]
    found = drift.find(values)
    assert found.first_to_last == pytest.approx(0.29 / statistics.median(values), rel=0.15)
    assert found.trend_p < 1e-6


@pytest.mark.parametrize("costs", [[], [1.0], [1.0, 2.0], [0.0, 0.0, 0.0]])
def test_too_little_to_tell_is_none(costs):
    assert drift.find(costs) == drift.Drift(None, None, None, ())


def test_a_long_series_is_thinned_and_its_step_found():
    found = drift.change_points(stepped(noise(1, 5000), 2500, 1.3))
    (change,) = found
    assert abs(change.index - 2500) <= 60
    assert drift.theil_sen([0.5 * place for place in range(5000)]) == pytest.approx(0.5)


def test_words_say_what_looks_like_it():
    assert drift.ChangePoint(12, 1.0, 1.38).sentence() == (
        "a step of +38% in time per I/O at window 12: throttling, an SLC cache that ran full or a neighbour that came "
        "looks like this"
    )
    assert "-20%" in drift.ChangePoint(3, 1.0, 0.8).sentence()
    assert "neighbour that left" in drift.ChangePoint(3, 1.0, 0.8).sentence()
