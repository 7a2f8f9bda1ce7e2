"""What the rules make of sessions whose truth is known."""

import math
import random

import pytest
from hypothesis import given
from hypothesis import strategies as some

from pytest_gpuio.analysis.decision import decide, noise_floor


def sessions(count, change=0.0, noise=0.01, seed=0):
    draw = random.Random(f"{count} {change} {seed}")
    levels = [math.log1p(change) + draw.gauss(0, noise) for _ in range(count)]
    return [[level + draw.gauss(0, 0.002) for _ in range(5)] for level in levels]


def lookback(new, again=(), *, old=None, higher=False, effect=0.03):
    old = sessions(12) if old is None else old
    return decide(old, new, (), again, paired=False, higher_is_better=higher, min_effect=effect)


def test_a_change_is_a_candidate_first_and_a_verdict_after_the_rerun():
    first = lookback(sessions(6, 0.10, seed=1))
    assert (first.verdict, first.candidate, first.confirmed) == ("AMBIGUOUS", "SLOWER", False)
    second = lookback(sessions(6, 0.10, seed=1), sessions(10, 0.10, seed=2))
    assert (second.verdict, second.candidate, second.confirmed) == ("SLOWER", None, True)
    assert second.sessions == (12, 16)
    assert second.p < 0.001
    assert 0.08 < second.change < 0.12
    low, high = second.interval
    assert low < 0.10 < high


def test_a_rerun_that_does_not_repeat_it_is_no_alarm():
    found = lookback(sessions(6, 0.10, seed=1), sessions(10, 0.0, seed=2))
    assert found.verdict in ("AMBIGUOUS", "SAME")
    assert found.candidate is None
    assert "did not repeat" in found.reason


def test_direction_follows_the_metric():
    more = sessions(6, 0.10, seed=1), sessions(10, 0.10, seed=2)
    assert lookback(*more, higher=True).verdict == "FASTER"
    assert lookback(*more, higher=False).verdict == "SLOWER"
    assert lookback(*more, higher=True).change > 0


def test_unchanged_is_the_same_and_says_within_what():
    found = lookback(sessions(6, seed=4))
    assert (found.verdict, found.candidate) == ("SAME", None)
    assert found.reason == "within 3.0%"


def test_noise_is_ambiguous():
    found = lookback(sessions(4, 0.0, noise=0.2, seed=3), old=sessions(8, noise=0.2))
    assert (found.verdict, found.candidate) == ("AMBIGUOUS", None)
    assert "noisy" in found.reason


def test_the_least_effect_is_never_below_the_noise_floor():
    old = sessions(12, noise=0.05)
    floor = noise_floor(old)
    assert floor > 0.02
    assert lookback(sessions(4), old=old, effect=0.001).least_effect == floor
    assert lookback(sessions(4), old=old, effect=0.5).least_effect == 0.5
    assert noise_floor(old[:4]) is None


@pytest.mark.parametrize(("count", "why"), [(1, "1 new run:"), (2, "2 new runs:")])
def test_too_few_new_runs_never_decide_whatever_they_say(count, why):
    found = lookback(sessions(count, 1.0, seed=5))
    assert (found.verdict, found.candidate) == ("AMBIGUOUS", "SLOWER")
    assert why in found.reason
    assert lookback(sessions(count, 0.0, noise=0.001, seed=5)).candidate is None


def test_too_short_a_baseline_never_decides():
    found = lookback(sessions(6, 1.0), old=sessions(7))
    assert (found.verdict, found.candidate) == ("AMBIGUOUS", None)
    assert "7 baseline runs of this host: 8 are needed" in found.reason


def test_pairs_share_what_the_host_does():
    draw = random.Random(7)
    host = [draw.gauss(0, 0.2) for _ in range(20)]  # far larger than the change
    old = [[level + draw.gauss(0, 0.002)] for level in host]
    new = [[level + 0.05 + draw.gauss(0, 0.002)] for level in host]
    rules = {"paired": True, "higher_is_better": False, "min_effect": 0.03}
    found = decide(old[:8], new[:8], **rules)
    assert found.candidate is None  # 20 % of noise: the floor, though the test is sure
    assert found.p < 0.01
    few = decide(old[:4], new[:4], **rules)
    assert few.verdict == "AMBIGUOUS"
    assert "4 pairs of runs: 5 are needed" in few.reason


def test_pairs_find_a_change():
    old, new = sessions(20), sessions(20, 0.05, seed=9)
    found = decide(old[:10], new[:10], old[10:], new[10:], paired=True, higher_is_better=False, min_effect=0.03)
    assert (found.verdict, found.confirmed) == ("SLOWER", True)


@given(
    some.lists(some.floats(-0.5, 0.5), min_size=8, max_size=12),
    some.lists(some.floats(-0.5, 0.5), min_size=3, max_size=5),
)
def test_swapping_the_metrics_direction_swaps_the_candidate(old, new):
    old, new = [[v] for v in old], [[v] for v in new]
    lower = decide(old, new, paired=False, higher_is_better=False, min_effect=0.03, draws=0)
    higher = decide(old, new, paired=False, higher_is_better=True, min_effect=0.03, draws=0)
    other = {"SLOWER": "FASTER", "FASTER": "SLOWER", None: None}
    assert higher.candidate == other[lower.candidate]
    assert higher.change == pytest.approx(lower.change)


def test_a_certain_but_small_change_is_not_surely_above_the_limit():
    found = lookback(sessions(6, 0.028, noise=0.002, seed=1), sessions(10, 0.028, noise=0.002, seed=2),
                     old=sessions(12, noise=0.002))  # fmt: skip
    assert found.verdict in ("AMBIGUOUS", "SAME")
    assert found.verdict == "SAME" or "not surely by more than 3.0%" in found.reason
