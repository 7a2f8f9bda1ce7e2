"""Drift and change points of a series: is the level at the end the one of the beginning?"""

from __future__ import annotations

import math
import random
import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Final

#: Chance that a series without any change is said to have a change point.
FALSE_ALARM: Final = 0.01
#: Smaller steps of the level are not reported: they change no conclusion.
LEAST_STEP: Final = 0.05
#: Fewer windows cannot show a change point: even a perfect step is then hardly rarer than the false-alarm rate.
LEAST_WINDOWS: Final = 12
#: Windows a level must last.
_SEGMENT: Final = 3
_PERMUTATIONS: Final = 499
# Longer series are thinned to medians of neighbours, so that the cost of a cell stays bounded.
_MOST_VALUES: Final = 256
_SEED: Final = 5489


@dataclass(frozen=True, slots=True)
class ChangePoint:
    """A step of the level.

    Attributes:
        index: first window of the new level, counted from 0.
        before, after: median seconds per I/O of the levels on both sides.
    """

    index: int
    before: float
    after: float

    @property
    def ratio(self) -> float:
        """``after`` over ``before``."""
        return self.after / self.before

    def sentence(self) -> str:
        """The step in words, with what usually looks like it."""
        step = self.ratio - 1.0
        cause = (
            "throttling, an SLC cache that ran full or a neighbour that came looks like this"
            if step > 0
            else "a cache that filled or a neighbour that left looks like this"
        )
        return f"a step of {step:+.0%} in time per I/O at window {self.index}: {cause}"


@dataclass(frozen=True, slots=True)
class Drift:
    """How the level moved over the windows; None where there are too few windows to tell.

    Attributes:
        slope_per_window_rel: Theil-Sen slope per window, over the median.
        first_to_last: what that slope makes of the whole stretch: 0.1 = a tenth slower at its end.
        trend_p: two-sided p-value of Mann and Kendall's test for a monotone trend.
        change_points: steps of the level, in order.
    """

    slope_per_window_rel: float | None
    first_to_last: float | None
    trend_p: float | None
    change_points: tuple[ChangePoint, ...]


def find(costs: Sequence[float]) -> Drift:
    """Drift of the windows' costs (seconds per I/O, in order of time)."""
    if len(costs) < 3 or statistics.median(costs) <= 0:
        return Drift(None, None, None, ())
    relative = theil_sen(costs) / statistics.median(costs)
    return Drift(relative, relative * (len(costs) - 1), trend_p(costs), change_points(costs))


def theil_sen(values: Sequence[float]) -> float:
    """Median of the slopes between all pairs: a quarter of the values may be wild without moving it.

    Raises:
        ValueError: fewer than two values.
    """
    thin, width = _thinned(values)
    if len(thin) < 2:
        raise ValueError("a slope needs two values")
    slopes = [(thin[j] - thin[i]) / (j - i) for i in range(len(thin)) for j in range(i + 1, len(thin))]
    return statistics.median(slopes) / width


def trend_p(values: Sequence[float]) -> float:
    """Two-sided p-value of Mann and Kendall's test: exact up to 10 values, normal approximation above."""
    thin, _ = _thinned(values)
    n = len(thin)
    score = sum(_sign(thin[j] - thin[i]) for i in range(n) for j in range(i + 1, n))
    if score == 0:
        return 1.0
    if n <= 10:
        # Number of orders of n values by how many of their pairs are out of order.
        orders = [1]
        for size in range(2, n + 1):
            orders = [sum(orders[max(0, pairs - size + 1) : pairs + 1]) for pairs in range(len(orders) + size - 1)]
        rarer = sum(orders[: (n * (n - 1) // 2 - abs(score)) // 2 + 1])
        return min(1.0, 2.0 * rarer / math.factorial(n))
    deviation = math.sqrt(n * (n - 1) * (2 * n + 5) / 18.0)
    return math.erfc((abs(score) - 1) / deviation / math.sqrt(2.0))


def change_points(values: Sequence[float], least: float = LEAST_STEP) -> tuple[ChangePoint, ...]:
    """Steps of the level, by binary segmentation; the same values always give the same answer.

    A series is cut where the ranks on both sides differ most. The cut stands if fewer than :data:`FALSE_ALARM` of
    random orders of the same values can be cut as well, which holds for any distribution of independent noise; then
    both parts are looked at in the same way.

    Args:
        values: positive, in order of time.
        least: relative steps below it are not reported.
    """
    thin, width = _thinned(values)
    shuffler = random.Random(_SEED)
    cuts: list[int] = []
    todo = [(0, len(thin))]
    while todo:
        low, high = todo.pop()
        cut = _cut(thin[low:high], least, shuffler)
        if cut is not None:
            cuts.append(low + cut)
            todo += [(low, low + cut), (low + cut, high)]
    return _levels(thin, sorted(cuts), width, least)


def _levels(values: Sequence[float], cuts: list[int], width: int, least: float) -> tuple[ChangePoint, ...]:
    """The cuts as change points; the smallest step goes first until every one is at least ``least``."""
    while cuts:
        bounds = [0, *cuts, len(values)]
        levels = [statistics.median(values[a:b]) for a, b in pairwise(bounds)]
        steps = [_step(before, after) for before, after in pairwise(levels)]
        smallest = min(range(len(cuts)), key=steps.__getitem__)
        if steps[smallest] >= least:
            return tuple(
                ChangePoint(cut * width, before, after)
                for cut, before, after in zip(cuts, levels, levels[1:], strict=False)
            )
        del cuts[smallest]
    return ()


def _step(before: float, after: float) -> float:
    return abs(after / before - 1.0) if before > 0 else math.inf


def _cut(values: Sequence[float], least: float, shuffler: random.Random) -> int | None:
    """Where the level changes, or None when chance explains it or it is too small to matter."""
    size = len(values)
    if size < LEAST_WINDOWS:
        return None
    ranks = _centred_ranks(values)
    weights = [math.sqrt(size / (k * (size - k))) if 0 < k < size else 0.0 for k in range(size)]
    cut, best = _most_different(ranks, weights)
    left, right = values[:cut], values[cut:]
    step = max(
        _step(statistics.median(left), statistics.median(right)), _step(statistics.fmean(left), statistics.fmean(right))
    )
    if step < least or best <= 0.0:
        return None
    allowed = math.floor(FALSE_ALARM * (_PERMUTATIONS + 1)) - 1
    as_good = 0
    for _ in range(_PERMUTATIONS):
        shuffler.shuffle(ranks)
        as_good += _most_different(ranks, weights)[1] >= best
        if as_good > allowed:
            return None
    return cut


def _most_different(ranks: Sequence[float], weights: Sequence[float]) -> tuple[int, float]:
    """The cut with the largest standardised rank sum, and that sum."""
    best, at, total = -1.0, _SEGMENT, 0.0
    last = len(ranks) - _SEGMENT
    for k, rank in enumerate(ranks[:last], start=1):
        total += rank
        if k >= _SEGMENT:
            difference = abs(total) * weights[k]
            if difference > best:
                best, at = difference, k
    return at, best


def _centred_ranks(values: Sequence[float]) -> list[float]:
    """Ranks less their mean; equal values share one."""
    order = sorted(range(len(values)), key=values.__getitem__)
    ranks = [0.0] * len(values)
    first = 0
    while first < len(order):
        last = first
        while last + 1 < len(order) and values[order[last + 1]] == values[order[first]]:
            last += 1
        for place in range(first, last + 1):
            ranks[order[place]] = (first + last) / 2 - (len(values) - 1) / 2
        first = last + 1
    return ranks


def _thinned(values: Sequence[float]) -> tuple[list[float], int]:
    """At most :data:`_MOST_VALUES` medians of neighbours, and how many neighbours each stands for."""
    width = -(-len(values) // _MOST_VALUES) or 1
    if width == 1:
        return list(values), 1
    return [statistics.median(values[i : i + width]) for i in range(0, len(values) - width + 1, width)], width


def _sign(value: float) -> int:
    return (value > 0) - (value < 0)
