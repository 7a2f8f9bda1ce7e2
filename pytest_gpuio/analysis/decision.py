"""One metric of one case: slower, faster, the same, or not to be told yet."""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, Literal

from pytest_gpuio.analysis.statistics import (
    bootstrap_interval,
    permutation_p,
    prediction_p,
    pseudomedian,
    shift,
    sign_flip_p,
    typical_difference,
)

#: Rounds (logarithms of a metric) of each session.
Sessions = Sequence[Sequence[float]]
Outcome = Literal["SLOWER", "FASTER", "SAME", "AMBIGUOUS"]
Direction = Literal["SLOWER", "FASTER"]

#: Fewer pairs cannot reach the first threshold: 4 pairs give 1/16 at best.
LEAST_PAIRS: Final = 5
#: What a look-back needs: with 8 and 3 the smallest p-value is 1/165.
LEAST_BASELINE: Final = 8
LEAST_NEW: Final = 3
#: First look: such a case is measured again. It is a filter, and meant to let changes through.
CANDIDATE_P: Final = 0.05
#: First and second look together; it bounds the false alarms of an unchanged case, whatever the first look let through.
CONFIRMED_P: Final = 0.001
#: One new run against the baseline's spread.
PREDICTION_P: Final = 0.01


@dataclass(frozen=True, slots=True)
class Decision:
    """The verdict and the figures it was made from.

    Attributes:
        verdict: what is known.
        candidate: what the first look suggests and a re-run must confirm; None when it suggests nothing.
        reason: one sentence.
        change: relative change of the metric itself (0.1 = a tenth more); None without a value on both sides.
        p: one-sided p-value in the direction of the change; None where no test applies.
        interval: 95 % interval of the relative change.
        least_effect: changes below it do not count: the asked one, or the noise floor if that is larger.
        noise_floor: by how much two unchanged sessions of this host typically differ; None = too few to tell.
        sessions: baseline and new, those of the confirmation included.
        confirmed: the re-run agreed.
    """

    verdict: Outcome
    candidate: Direction | None
    reason: str
    change: float | None
    p: float | None
    interval: tuple[float, float] | None
    least_effect: float
    noise_floor: float | None
    sessions: tuple[int, int]
    confirmed: bool


def decide(
    baseline: Sessions,
    new: Sessions,
    baseline_again: Sessions = (),
    new_again: Sessions = (),
    *,
    paired: bool,
    higher_is_better: bool,
    min_effect: float,
    draws: int = 999,
) -> Decision:
    """The verdict on one metric.

    A first look (p < 0.05 and more than half of the least effect) makes a candidate. The verdict falls when fresh
    sessions point the same way and both looks together give p < 0.001 and an effect above the least one.

    Args:
        baseline: logarithms of the metric, per session its rounds; none empty.
        new: the same.
        baseline_again: the re-run's baseline sessions; a look-back has none.
        new_again: the re-run's new sessions.
        paired: session i of one side ran beside session i of the other.
        higher_is_better: direction of the metric.
        min_effect: relative effect worth an alarm.
        draws: resamplings of the interval; 0 = none, and then nothing is ever SAME.
    """
    sign = -1.0 if higher_is_better else 1.0  # larger = worse from here on
    look = _look_pairs if paired else _look_back
    floor = noise_floor(baseline)
    least = max(min_effect, floor or 0.0)
    first = look(_medians(baseline, sign), _medians(new, sign))
    has_again = bool(new_again)
    all_old, all_new = [*baseline, *baseline_again], [*new, *new_again]
    both = look(_medians(all_old, sign), _medians(all_new, sign)) if has_again else first
    old, fresh = _medians(all_old, 1.0), _medians(all_new, 1.0)
    # A single new run has no spread of its own: its rounds would make an interval that knows nothing of sessions.
    interval = None
    if draws and len(all_new) >= LEAST_NEW:
        low, high = bootstrap_interval(all_old, all_new, paired=paired, draws=draws)
        interval = math.expm1(low), math.expm1(high)

    def result(verdict: Outcome, reason: str, candidate: Direction | None = None, confirmed: bool = False) -> Decision:
        centre = pseudomedian([b - a for a, b in zip(old, fresh, strict=True)]) if paired else shift(old, fresh)
        return Decision(
            verdict, candidate, reason, math.expm1(centre), both.p if both.tested else None, interval, least, floor,
            (len(all_old), len(all_new)), confirmed,
        )  # fmt: skip

    if first.lacking is not None and not has_again:
        return result("AMBIGUOUS", first.lacking, first.direction if first.p < PREDICTION_P else None)
    half = math.log1p(least) / 2.0
    candidate = first.direction if first.p < CANDIDATE_P and abs(first.effect) > half else None
    if candidate is not None and not has_again:
        return result("AMBIGUOUS", "looks changed: run this case again to confirm", candidate)
    if candidate is not None:
        again = look(_medians(baseline_again or baseline, sign), _medians(new_again, sign))
        repeated = again.direction == candidate and abs(again.effect) > half
        certain = both.p < CONFIRMED_P and abs(both.effect) > math.log1p(least) and both.direction == candidate
        if repeated and certain:
            return result(candidate, "confirmed by a re-run", None, confirmed=True)
        if not repeated:
            reason = "looked changed, and the re-run did not repeat it"
        else:
            reason = f"changed, but not surely by more than {least:.1%}"
        if not _inside(interval, least):
            return result("AMBIGUOUS", reason)
    if _inside(interval, least):
        return result("SAME", f"within {least:.1%}")
    return result("AMBIGUOUS", "too noisy to tell: more runs, or quieter ones, are needed")


def noise_floor(baseline: Sessions) -> float | None:
    """By how much two unchanged sessions typically differ, relative; None below five sessions."""
    difference = typical_difference(_medians(baseline, 1.0))
    return None if difference is None else math.expm1(difference)


@dataclass(frozen=True, slots=True)
class _Look:
    """One comparison: effect (positive = worse), direction and p-value (1 untested), and what it lacks to decide."""

    effect: float
    p: float
    lacking: str | None = None
    tested: bool = True

    @property
    def direction(self) -> Direction:
        return "SLOWER" if self.effect > 0 else "FASTER"


def _look_pairs(old: Sequence[float], new: Sequence[float]) -> _Look:
    differences = [b - a for a, b in zip(old, new, strict=True)]
    if len(differences) < LEAST_PAIRS:
        effect = pseudomedian(differences) if differences else 0.0
        return _Look(effect, 1.0, f"{_count(differences, 'pair')} of runs: {LEAST_PAIRS} are needed", tested=False)
    effect = pseudomedian(differences)
    return _Look(effect, sign_flip_p([value if effect > 0 else -value for value in differences]))


def _look_back(old: Sequence[float], new: Sequence[float]) -> _Look:
    effect = shift(old, new)
    if len(old) < LEAST_BASELINE:
        return _Look(
            effect, 1.0, f"{_count(old, 'baseline run')} of this host: {LEAST_BASELINE} are needed", tested=False
        )
    flip = 1.0 if effect > 0 else -1.0
    if len(new) < LEAST_NEW:
        p = prediction_p([flip * value for value in old], flip * statistics.median(new))
        return _Look(effect, p, f"{_count(new, 'new run')}: {LEAST_NEW} are needed for a verdict")
    return _Look(effect, permutation_p([flip * value for value in old], [flip * value for value in new]))


def _count(things: Sequence[object], name: str) -> str:
    return f"{len(things)} {name}{'s' * (len(things) != 1)}"


def _medians(sessions: Sessions, sign: float) -> list[float]:
    return [sign * statistics.median(rounds) for rounds in sessions]


def _inside(interval: tuple[float, float] | None, least: float) -> bool:
    return interval is not None and -least < interval[0] and interval[1] < least
