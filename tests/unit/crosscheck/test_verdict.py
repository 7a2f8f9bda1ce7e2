"""What is decided, and what is not."""

import statistics

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_gpuio.crosscheck.verdict import Spread, Target, judge_figure, judge_ratio, noise_floor

RATIOS = st.floats(0.05, 20.0)
MANY = st.lists(RATIOS, min_size=7, max_size=11)


def judged(ratio, target, noise, count=7):
    return judge_ratio(Spread(ratio, ratio, ratio, count), Target(*target), noise)[0]


@pytest.mark.parametrize(
    ("ratio", "target", "noise", "verdict"),
    [
        (4.4, (">=", 4.0), (0.95, 1.05), "reached"),
        (3.6, (">=", 4.0), (0.95, 1.05), "missed"),
        (1.10, (">=", 1.08), (0.95, 1.05), "reached"),
        (1.10, (">=", 1.08), (0.80, 1.25), "not decided"),  # fio against itself is as far off
        (1.00, (">=", 1.08), (0.95, 1.05), "not decided"),
        (0.80, ("<=", 0.85), (0.95, 1.05), "reached"),
        (0.90, ("<=", 0.85), (0.95, 1.05), "missed"),
        (0.90, ("<=", 0.85), (0.85, 1.18), "not decided"),
        # A target on the lenient side of all the noise: whatever inside the floor is true, it is kept.
        (0.99, (">=", 0.97), (0.98, 1.02), "reached"),
        (0.99, (">=", 0.97), (0.95, 1.05), "not decided"),
        (0.92, (">=", 0.97), (0.95, 1.05), "missed"),
        (1.10, (">=", 0.97), (0.95, 1.05), "reached"),
    ],
)
def test_ratios(ratio, target, noise, verdict):
    assert judged(ratio, target, noise) == verdict


def test_too_few_pairs_decide_nothing():
    assert judged(9.0, (">=", 4.0), (0.99, 1.01), count=6) == "not decided"
    assert judge_ratio(None, Target(">=", 1.0), (0.9, 1.1))[0] == "not decided"
    assert judge_ratio(Spread(9.0, 9.0, 9.0, 7), Target(">=", 1.0), None)[0] == "not decided"


def test_strangers_leave_nothing_decided():
    spread = Spread(9.0, 9.0, 9.0, 7)
    assert judge_ratio(spread, Target(">=", 4.0), (0.99, 1.01)) == ("reached", "noise floor 0.990 .. 1.010")
    verdict, why = judge_ratio(spread, Target(">=", 4.0), (0.99, 1.01), disturbed="strangers used 50% of the CPUs")
    assert verdict == "not decided"
    assert why.startswith("strangers used 50%")


@given(MANY, MANY, st.sampled_from([">=", "<="]), st.floats(0.1, 10.0))
def test_a_ratio_inside_the_noise_is_never_held_against_us(ratios, selves, relation, value):
    spread, noise, target = Spread.of(ratios), noise_floor(selves), Target(relation, value)
    verdict, why = judge_ratio(spread, target, noise)
    assert why
    inside = noise[0] <= spread.median <= noise[1]
    if inside:
        assert verdict != "missed"
        if verdict == "reached":  # then every ratio inside the floor keeps the target
            assert target.met(noise[0])
            assert target.met(noise[1])
    else:
        assert verdict == ("reached" if target.met(spread.median) else "missed")


@given(MANY)
def test_the_noise_floor_is_symmetric_and_within_the_self_pairs(selves):
    low, high = noise_floor(selves)
    assert low <= 1.0 <= high
    assert low == pytest.approx(1.0 / high)
    assert high <= max(max(ratio, 1 / ratio) for ratio in selves) * 1.000001
    median = statistics.median(selves)
    assert low * 0.999999 <= median <= high * 1.000001
    assert noise_floor([1 / ratio for ratio in selves]) == pytest.approx((low, high))
    assert noise_floor([]) is None


@given(st.lists(RATIOS, min_size=1, max_size=8))
def test_with_few_pairs_the_noise_floor_holds_every_self_pair(selves):
    low, high = noise_floor(selves)
    for ratio in selves:
        assert low * 0.999999 <= ratio <= high * 1.000001
        assert low * 0.999999 <= 1 / ratio <= high * 1.000001


@pytest.mark.parametrize(
    # The outermost ranks of a median's 95 % interval, as tables of the sign test give them.
    ("count", "rank"),
    [(6, 1), (8, 1), (9, 2), (10, 2), (12, 3), (15, 4), (20, 6), (25, 8), (30, 10), (40, 14), (50, 18)],
)
def test_with_more_pairs_the_noise_floor_is_that_of_their_median(count, rank):
    selves = [1.01**k for k in range(count)]
    low, high = noise_floor(selves)
    assert high == pytest.approx(1.01 ** (count - rank))
    assert low == pytest.approx(1 / high)


@given(st.lists(st.floats(-1e9, 1e9), min_size=1, max_size=20))
def test_spread(values):
    spread = Spread.of(values)
    assert spread.low <= spread.median <= spread.high
    assert spread.median == statistics.median(values)
    assert (spread.low, spread.high, spread.count) == (min(values), max(values), len(values))
    assert Spread.of([]) is None


def test_figures():
    assert judge_figure(9.9, Target("<=", 10.0)) == "reached"
    assert judge_figure(10.1, Target("<=", 10.0)) == "missed"
    assert judge_figure(None, Target("<=", 10.0)) == "not decided"
    assert str(Target(">=", 1.08)) == ">= 1.08"
