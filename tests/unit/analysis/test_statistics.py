"""Against scipy as an oracle, and against properties every such test has."""

import itertools
import math
import statistics as st

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as some
from scipy import stats

from pytest_gpuio.analysis import statistics

VALUES = some.floats(-1.0, 1.0).map(lambda x: round(x, 6))


@given(some.lists(VALUES, min_size=2, max_size=8))
def test_sign_flips_are_those_of_scipy(differences):
    found = statistics.sign_flip_p(differences)
    told = stats.permutation_test(
        (differences,), np.sum, permutation_type="samples", alternative="greater", n_resamples=np.inf, vectorized=False
    ).pvalue
    assert found == pytest.approx(told, abs=1e-12)


def test_sign_flips_of_many_pairs_stay_exact():
    assert statistics.sign_flip_p([1.0 + i / 100 for i in range(30)]) == 2.0**-30
    with pytest.raises(ValueError, match="31 pairs"):
        statistics.sign_flip_p([1.0] * 31)
    with pytest.raises(ValueError, match="0 pairs"):
        statistics.sign_flip_p([])


WHOLE = some.integers(-1000, 1000)


@given(some.lists(WHOLE, min_size=1, max_size=5), some.lists(WHOLE, min_size=1, max_size=4))
def test_permutations_by_brute_force_in_whole_numbers(old, new):
    splits = [sum(split) >= sum(new) for split in itertools.combinations([*old, *new], len(new))]
    found = statistics.permutation_p([value / 1000 for value in old], [value / 1000 for value in new])
    assert found == pytest.approx(sum(splits) / len(splits), abs=1e-12)


@pytest.mark.parametrize("seed", range(6))
def test_permutations_are_those_of_scipy(seed):
    draw = np.random.default_rng(seed)
    old, new = draw.normal(0, 1, 5), draw.normal(0.5, 1, 2 + seed % 3)
    told = stats.permutation_test(
        (new, old), lambda a, b: np.mean(a) - np.mean(b), alternative="greater", n_resamples=np.inf, vectorized=False
    ).pvalue
    assert statistics.permutation_p(list(old), list(new)) == pytest.approx(told, abs=1e-12)


def test_published_smallest_p_values():
    assert statistics.permutation_p([0.0] * 5, [1.0] * 5) == pytest.approx(1 / 252)
    assert statistics.permutation_p([0.1 * i for i in range(8)], [5.0, 6.0, 7.0]) == pytest.approx(1 / 165)
    assert statistics.sign_flip_p([0.1, 0.2, 0.3, 0.4, 0.5]) == 1 / 32


def test_drawn_splits_come_near_the_exact_p_value(monkeypatch):
    draw = np.random.default_rng(5)
    old, new = list(draw.normal(0, 1, 9)), list(draw.normal(0.8, 1, 6))
    exact = statistics.permutation_p(old, new)
    monkeypatch.setattr(statistics, "MOST_SPLITS", 10)
    drawn = statistics.permutation_p(old, new)
    assert drawn == statistics.permutation_p(old, new)
    assert abs(drawn - exact) < 5 * math.sqrt(exact / statistics.DRAWN_SPLITS)


def test_empty_samples_are_refused():
    for call in (
        lambda: statistics.permutation_p([], [1.0]),
        lambda: statistics.shift([1.0], []),
        lambda: statistics.pseudomedian([]),
        lambda: statistics.prediction_p([1.0], 2.0),
        lambda: statistics.student_sf(1.0, 0),
        lambda: statistics.bootstrap_interval([[]], [[1.0]], paired=False),
        lambda: statistics.bootstrap_interval([[1.0]], [[1.0], [2.0]], paired=True),
    ):
        with pytest.raises(ValueError, match=r"value|freedom|sessions"):
            call()


@given(some.integers(1, 60), some.floats(-30, 30))
def test_student_is_that_of_scipy(freedom, t):
    assert statistics.student_sf(t, freedom) == pytest.approx(stats.t.sf(t, freedom), abs=1e-12)


@given(some.lists(VALUES, min_size=2, max_size=12, unique=True), VALUES)
def test_prediction_limit_is_the_textbooks(old, new):
    t = (new - st.fmean(old)) / (st.stdev(old) * math.sqrt(1 + 1 / len(old)))
    assert statistics.prediction_p(old, new) == pytest.approx(stats.t.sf(t, len(old) - 1), abs=1e-9)


def test_prediction_without_spread():
    assert statistics.prediction_p([1.0, 1.0], 1.0) == 0.5
    assert statistics.prediction_p([1.0, 1.0], 2.0) == 0.0
    assert statistics.prediction_p([1.0, 1.0], 0.0) == 1.0


@given(some.lists(VALUES, min_size=1, max_size=8), some.lists(VALUES, min_size=1, max_size=8))
def test_shift_and_pseudomedian_by_brute_force(old, new):
    assert statistics.shift(old, new) == np.median(np.subtract.outer(new, old))
    walsh = [(a + b) / 2 for i, a in enumerate(old) for b in old[i:]]
    assert statistics.pseudomedian(old) == pytest.approx(np.median(walsh), abs=1e-15)


def test_interval_holds_the_true_shift_about_as_often_as_it_says():
    draw = np.random.default_rng(3)
    for paired in (True, False):
        hits = 0
        for _ in range(100):
            old = [list(draw.normal(level, 0.01, 5)) for level in draw.normal(0, 0.02, 12)]
            new = [list(draw.normal(level, 0.01, 5)) for level in draw.normal(0.05, 0.02, 12)]
            low, high = statistics.bootstrap_interval(old, new, paired=paired, draws=299)
            assert low <= high
            hits += low <= 0.05 <= high
        assert 85 <= hits <= 100


def test_interval_is_always_the_same():
    old, new = [[0.0, 0.1], [0.2]], [[0.3], [0.5, 0.6]]
    first = statistics.bootstrap_interval(old, new, paired=False)
    assert first == statistics.bootstrap_interval(old, new, paired=False)


def test_typical_difference_is_that_of_the_normal_distribution_and_one_wild_session_does_not_move_it():
    values = stats.norm.ppf((np.arange(200) + 0.5) / 200)
    half = stats.norm.ppf(0.75) * math.sqrt(2)  # the median of the half-normal distance of two
    assert statistics.typical_difference(list(values)) == pytest.approx(half, abs=0.02)
    assert statistics.typical_difference([*values, 1e6]) == pytest.approx(half, abs=0.03)
    assert statistics.typical_difference([1.0] * 4) is None


@given(some.lists(VALUES, min_size=5, max_size=9))
def test_typical_difference_by_brute_force(values):
    distances = [abs(a - b) for i, a in enumerate(values) for b in values[i + 1 :]]
    assert statistics.typical_difference(values) == pytest.approx(np.median(distances), abs=1e-15)


def test_splits_are_all_of_them():
    assert {tuple(row) for row in statistics._splits(5, 2)} == set(itertools.combinations(range(5), 2))
