"""Tests and intervals for a handful of sessions: exact where that is affordable, seeded where it is not."""

from __future__ import annotations

import bisect
import functools
import itertools
import math
import random
import statistics
from collections.abc import Sequence
from typing import Final

import numpy as np
from numpy.typing import NDArray

#: Sign flips are enumerated in halves, so that this many pairs cost two lists of 2^15 sums.
MOST_PAIRS: Final = 30
#: Splits of two samples that are enumerated.
MOST_SPLITS: Final = 60_000
#: Splits that are drawn where there are more: a p-value of 0.001 is then known to a fifth.
DRAWN_SPLITS: Final = 20_000
_SEED: Final = 20_261_130
_REDRAWS: Final = 50
#: Sums that differ by less of the largest possible sum are equal: floating point adds in another order.
_TIE: Final = 1e-12


def sign_flip_p(differences: Sequence[float]) -> float:
    """One-sided exact p-value of paired differences: how often random signs make their sum as large.

    Fisher's randomisation test of paired samples; it assumes only that a difference and its opposite are equally likely
    where nothing changed, which holds for interleaved runs.

    Args:
        differences: one per pair, at most :data:`MOST_PAIRS`.

    Raises:
        ValueError: no pair, or too many.
    """
    if not 1 <= len(differences) <= MOST_PAIRS:
        raise ValueError(f"{len(differences)} pairs: the test takes 1 to {MOST_PAIRS}")
    half = len(differences) // 2
    left = _signed_sums(differences[:half])
    right = sorted(_signed_sums(differences[half:]))
    least = math.fsum(differences) - _TIE * math.fsum(map(abs, differences))
    as_large = sum(len(right) - bisect.bisect_left(right, least - value) for value in left)
    return as_large / (len(left) * len(right))


def _signed_sums(values: Sequence[float]) -> list[float]:
    sums = [0.0]
    for value in values:
        sums = [total + value for total in sums] + [total - value for total in sums]
    return sums


def permutation_p(baseline: Sequence[float], new: Sequence[float]) -> float:
    """One-sided p-value of two samples: how often a random split makes the new ones' mean as large.

    Exact up to :data:`MOST_SPLITS` splits; above, of :data:`DRAWN_SPLITS` random ones and the observed one, always the
    same.

    Raises:
        ValueError: an empty sample.
    """
    if not baseline or not new:
        raise ValueError("both samples need a value")
    values = np.array([*baseline, *new])
    least = float(np.sum(values[len(baseline) :])) - _TIE * float(np.sum(np.abs(values)))
    if math.comb(len(values), len(new)) <= MOST_SPLITS:
        return float(np.mean(values[_splits(len(values), len(new))].sum(axis=1) >= least))
    hits = int(np.sum(values[_drawn_splits(len(values), len(new))].sum(axis=1) >= least))
    return (hits + 1) / (DRAWN_SPLITS + 1)


@functools.lru_cache(maxsize=16)
def _splits(size: int, chosen: int) -> NDArray[np.int64]:
    return np.array(list(itertools.combinations(range(size), chosen)), dtype=np.int64)


@functools.lru_cache(maxsize=4)
def _drawn_splits(size: int, chosen: int) -> NDArray[np.int64]:
    order = np.random.default_rng(_SEED).random((DRAWN_SPLITS, size)).argsort(axis=1)
    return np.array(order[:, :chosen])


def pseudomedian(differences: Sequence[float]) -> float:
    """Hodges and Lehmann's centre: the median of the means of all pairs, a value with itself included.

    As robust as a median against a wild session, with nearly the precision of a mean.

    Raises:
        ValueError: no value.
    """
    if not differences:
        raise ValueError("a centre needs a value")
    return statistics.median((a + b) / 2 for a, b in itertools.combinations_with_replacement(differences, 2))


def shift(baseline: Sequence[float], new: Sequence[float]) -> float:
    """Hodges and Lehmann's shift between two samples: the median of all differences, new less baseline.

    Raises:
        ValueError: an empty sample.
    """
    if not baseline or not new:
        raise ValueError("both samples need a value")
    return statistics.median(b - a for a, b in itertools.product(baseline, new))


def prediction_p(baseline: Sequence[float], new: float) -> float:
    """One-sided p-value of one new value against a baseline, by Student's prediction limit (normal noise assumed).

    Raises:
        ValueError: fewer than two baseline values.
    """
    count = len(baseline)
    if count < 2:
        raise ValueError("a prediction limit needs two baseline values")
    spread = statistics.stdev(baseline) * math.sqrt(1.0 + 1.0 / count)
    distance = new - statistics.fmean(baseline)
    if spread == 0.0:
        return 0.5 if distance == 0.0 else float(distance < 0.0)
    return student_sf(distance / spread, count - 1)


def student_sf(t: float, freedom: int) -> float:
    """Chance that Student's t exceeds ``t``; for whole degrees of freedom, by the finite series of Gosset's integral.

    Raises:
        ValueError: fewer than one degree of freedom.
    """
    if freedom < 1:
        raise ValueError("Student's t needs at least one degree of freedom")
    # Abramowitz and Stegun 26.7.3 and 26.7.4: A = P(|T| < t) is a finite sum in cos(theta), theta = atan(t / sqrt(n)).
    theta = math.atan(abs(t) / math.sqrt(freedom))
    cosine, sine = math.cos(theta), math.sin(theta)
    term, total = 1.0, 0.0
    if freedom % 2:
        term = cosine
        for k in range(1, freedom - 1, 2):
            total += term
            term *= cosine * cosine * (k + 1) / (k + 2)
        inside = 2.0 / math.pi * (theta + sine * total)
    else:
        for k in range(0, freedom - 1, 2):
            total += term
            term *= cosine * cosine * (k + 1) / (k + 2)
        inside = sine * total
    tail = max(0.0, (1.0 - inside) / 2.0)
    return tail if t >= 0 else 1.0 - tail


def bootstrap_interval(
    baseline: Sequence[Sequence[float]],
    new: Sequence[Sequence[float]],
    *,
    paired: bool,
    confidence: float = 0.95,
    draws: int = 999,
) -> tuple[float, float]:
    """Percentile interval of the shift between two groups of sessions; sessions are drawn first, then their rounds.

    Args:
        baseline: rounds of each session.
        new: the same.
        paired: session i of one group belongs to session i of the other, and both are drawn together.
        confidence: share of the draws between the ends.
        draws: resamplings; always the same ones.

    Raises:
        ValueError: a group or a session without values, or pairs that do not match.
    """
    if not baseline or not new or not all(baseline) or not all(new):
        raise ValueError("an interval needs sessions with rounds on both sides")
    if paired and len(baseline) != len(new):
        raise ValueError(f"{len(baseline)} and {len(new)} sessions are no pairs")
    draw = random.Random(_SEED)
    old = [_redrawn(session, draw) for session in baseline]
    fresh = [_redrawn(session, draw) for session in new]
    shifts: list[float] = []
    for _ in range(draws):
        if paired:
            chosen = draw.choices(range(len(old)), k=len(old))
            differences = [draw.choice(fresh[i]) - draw.choice(old[i]) for i in chosen]
            shifts.append(statistics.median(differences))
        else:
            before = [draw.choice(session) for session in draw.choices(old, k=len(old))]
            after = [draw.choice(session) for session in draw.choices(fresh, k=len(fresh))]
            shifts.append(statistics.median(after) - statistics.median(before))
    shifts.sort()
    outside = (1.0 - confidence) / 2.0
    low = math.floor(outside * (draws - 1))
    return shifts[low], shifts[draws - 1 - low]


def _redrawn(rounds: Sequence[float], draw: random.Random) -> list[float]:
    """Medians of redrawn rounds; a few dozen stand for all, which costs a twentieth of drawing each time."""
    if len(rounds) == 1:
        return list(rounds)
    return [statistics.median(draw.choices(rounds, k=len(rounds))) for _ in range(_REDRAWS)]


def typical_difference(values: Sequence[float]) -> float | None:
    """Median distance of two of the values, over all pairs; None below five values, which cannot tell.

    A quarter of the values may be wild without moving it far, and it is known twice as well as the median absolute
    deviation of as many values (an efficiency of 0.86 against 0.37 for normal noise, Rousseeuw and Croux 1993).
    """
    if len(values) < 5:
        return None
    return statistics.median(abs(a - b) for a, b in itertools.combinations(values, 2))
