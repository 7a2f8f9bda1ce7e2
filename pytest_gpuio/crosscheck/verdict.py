"""What a figure is worth against its target, given how far a tool's runs differ from each other."""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final, Literal

Relation = Literal[">=", "<="]
Verdict = Literal["reached", "missed", "not decided", "not measurable here", "reported only"]

#: Fewer pairs give figures but no verdict.
LEAST_PAIRS: Final = 7
#: CPU of others, as a share of the machine, from which on a comparison counts as disturbed.
MOST_FOREIGN: Final = 0.04
_CONFIDENCE: Final = 0.95


@dataclass(frozen=True, slots=True)
class Target:
    """A limit that a figure has to keep."""

    relation: Relation
    value: float

    def met(self, figure: float) -> bool:
        """Whether the figure keeps it."""
        return figure >= self.value if self.relation == ">=" else figure <= self.value

    def __str__(self) -> str:
        return f"{self.relation} {self.value:g}"


@dataclass(frozen=True, slots=True)
class Spread:
    """Median, extremes and number of repeated figures."""

    median: float
    low: float
    high: float
    count: int

    @classmethod
    def of(cls, figures: Iterable[float]) -> Spread | None:
        """None when there is no figure."""
        values = list(figures)
        return cls(statistics.median(values), min(values), max(values), len(values)) if values else None

    def __str__(self) -> str:
        return f"{self.median:.3f} [{self.low:.3f} .. {self.high:.3f}]"


def noise_floor(ratios: Sequence[float]) -> tuple[float, float] | None:
    """How far the median of a tool's ratios to itself can be from 1 by chance, taken both ways round; None without any.

    What is judged is a median, so its floor is the distribution-free interval of the self-pairs' median: for up to 8
    pairs their whole range, for more the inner ranks that hold the median in 95 % of cases. Which of two equal runs is
    the first is chance, so the interval is the same on both sides of 1.

    Args:
        ratios: of the self-pairs.
    """
    if not ratios:
        return None
    ordered = sorted(ratios)
    cut = _outer_ranks(len(ordered))
    most = max(ordered[-1 - cut], 1.0 / ordered[cut], 1.0)
    return 1.0 / most, most


def _outer_ranks(count: int) -> int:
    """Values that may be left out at either end of ``count`` for the rest to hold the median with enough confidence."""
    cut, below = 0, 1
    while 1.0 - 2.0 * (below + math.comb(count, cut + 1)) / 2**count >= _CONFIDENCE:
        cut += 1
        below += math.comb(count, cut)
    return cut


def judge_ratio(
    ratio: Spread | None,
    target: Target,
    noise: tuple[float, float] | None,
    *,
    disturbed: str | None = None,
    least_pairs: int = LEAST_PAIRS,
) -> tuple[Verdict, str]:
    """The verdict on a ratio of two tools, and why.

    A ratio inside the noise floor could be that of a tool with itself, so it decides nothing - unless the target is so
    far on the lenient side that any ratio inside the floor keeps it.

    Args:
        ratio: of the pairs.
        target: what the median should keep.
        noise: see :func:`noise_floor`.
        disturbed: why the machine was not quiet enough; such a ratio decides nothing either.
        least_pairs: fewer pairs decide nothing.
    """
    if ratio is None:
        return "not decided", "no pair was measured"
    if ratio.count < least_pairs:
        return "not decided", f"{ratio.count} pairs, needs {least_pairs}"
    if noise is None:
        return "not decided", "no self-pair was measured"
    low, high = noise
    if disturbed is not None:
        return "not decided", f"{disturbed}; noise floor {low:.3f} .. {high:.3f}"
    if low <= ratio.median <= high and not (target.met(low) and target.met(high)):
        return "not decided", f"inside the noise floor {low:.3f} .. {high:.3f}"
    return ("reached" if target.met(ratio.median) else "missed"), f"noise floor {low:.3f} .. {high:.3f}"


def judge_figure(figure: float | None, target: Target) -> Verdict:
    """The verdict on a figure that needs no other tool's."""
    if figure is None:
        return "not decided"
    return "reached" if target.met(figure) else "missed"
