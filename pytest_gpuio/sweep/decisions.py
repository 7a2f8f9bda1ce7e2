"""What measurements so far decide of a sweep's questions, and which cells could still change it."""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from statistics import NormalDist
from typing import Final

from pytest_gpuio.report.page.rows import KNEE
from pytest_gpuio.sweep.levels import Level, chance_above
from pytest_gpuio.sweep.questions import LEAST_POINTS, Place, Question

#: A pair this close to the edge is not expected to be decided by any number of windows that follows from it.
_LEAST_Z: Final = 0.3
_MOST_FACTOR: Final = 64.0
#: A cell known so much better than the other one of a pair gains nothing by more windows.
_KNOWN_BETTER: Final = 1 / 9


@dataclass(frozen=True, slots=True)
class Standing:
    """What is known of one place.

    Attributes:
        x: of the place.
        leader, path: the best cell so far and its data path; None = nothing could be measured.
        runner_up: best cell of another path. lead: by how much the leader is above it, relative.
        ahead: surely the best path. equal: other paths that are not surely worse.
    """

    x: int
    leader: int | None
    path: str | None
    runner_up: int | None
    lead: float | None
    ahead: bool
    equal: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Decision:
    """The state of one question.

    Attributes:
        question: what was asked.
        decided: sure enough, or nothing more can be known.
        wrong: what the chance of being wrong is at most, a union bound over all rivals.
        standings: of ``best`` and ``crossover``, by place. knee: cell of the knee, None = no curve.
        needs: cells that could still change the answer, and by what factor their variance has to shrink for that.
        unseen: cells without any measurement yet.
        unsettled: cells it names that were only measured on a disturbed machine, which recommendations leave out.
    """

    question: Question
    decided: bool
    wrong: float
    standings: tuple[Standing, ...] = ()
    knee: int | None = None
    needs: Mapping[int, float] = field(default_factory=dict)
    unseen: frozenset[int] = frozenset()
    unsettled: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class _Risk:
    """The answer is wrong if cell ``one`` truly lies above cell ``other`` by more than ``by`` (logarithms)."""

    one: int
    other: int
    by: float


def decide(
    question: Question, levels: Mapping[int, Level], out: Collection[int], *, confidence: float, margin: float
) -> Decision:
    """The state of a question.

    A path is decided when no other is better by more than ``margin``; a knee when the named depth reaches
    :data:`~pytest_gpuio.report.page.rows.KNEE` of the curve's best and no lesser one does, give or take ``margin``.

    Args:
        question: what is asked.
        levels: of measured cells.
        out: cells that cannot be measured.
        confidence: that the whole answer must have, 0 to 1.
        margin: relative difference that does not matter.
    """
    unseen = frozenset(cell for cell in question.cells if cell not in levels and cell not in out)
    least = math.log1p(margin)
    if question.kind == "knee":
        knee, risks = _knee(question.points, levels, least)
        wrong, needs = _judge(risks, levels, 1.0 - confidence)
        return Decision(question, not needs and not unseen, wrong, (), knee, needs, unseen, _unsettled([knee], levels))
    standings, wrong, all_needs = [], 0.0, dict[int, float]()
    # A lane is right when each of its places is.
    share = (1.0 - confidence) / len(question.places)
    for place in question.places:
        standing, risks = _place(place, levels, share, least)
        standings.append(standing)
        part, needs = _judge(risks, levels, share)
        wrong += part
        for cell, factor in needs.items():
            all_needs[cell] = max(factor, all_needs.get(cell, 0.0))
    unsettled = _unsettled([cell for one in standings for cell in (one.leader, one.runner_up)], levels)
    decided = not all_needs and not unseen
    return Decision(question, decided, min(wrong, 1.0), tuple(standings), None, all_needs, unseen, unsettled)


def _unsettled(cells: Sequence[int | None], levels: Mapping[int, Level]) -> tuple[int, ...]:
    return tuple(dict.fromkeys(cell for cell in cells if cell is not None and not levels[cell].settled))


def _place(place: Place, levels: Mapping[int, Level], allowed: float, least: float) -> tuple[Standing, list[_Risk]]:
    best = {
        path: max(known, key=lambda cell: levels[cell].value)
        for path, cells in place.paths.items()
        if (known := [cell for cell in cells if cell in levels])
    }
    if not best:
        return Standing(place.x, None, None, None, None, False, ()), []
    ranked = sorted(best, key=lambda path: levels[best[path]].value, reverse=True)
    leader = best[ranked[0]]
    risks, worse, equal = [], 0.0, []
    for path in ranked[1:]:
        rivals = [cell for cell in place.paths[path] if cell in levels]
        chance = math.fsum(chance_above(levels[cell], levels[leader], 0.0) for cell in rivals)
        worse += chance
        if chance > allowed / (len(ranked) - 1):
            equal.append(path)
        risks += [_Risk(cell, leader, least) for cell in rivals]
    runner_up = best[ranked[1]] if len(ranked) > 1 else None
    lead = None if runner_up is None else math.expm1(levels[leader].value - levels[runner_up].value)
    return Standing(place.x, leader, ranked[0], runner_up, lead, worse <= allowed, tuple(equal)), risks


def _knee(
    points: Sequence[tuple[int, int]], levels: Mapping[int, Level], least: float
) -> tuple[int | None, list[_Risk]]:
    known = [cell for _, cell in points if cell in levels]
    if len(known) < LEAST_POINTS:
        return None, []
    share = math.log(KNEE)
    top = max(known, key=lambda cell: levels[cell].value)
    at = next(place for place, cell in enumerate(known) if levels[cell].value >= levels[top].value + share)
    knee = known[at]
    low = [_Risk(cell, knee, least - share) for cell in known if cell != knee]
    return knee, low + [_Risk(cell, top, least + share) for cell in known[:at]]


def _judge(risks: Sequence[_Risk], levels: Mapping[int, Level], allowed: float) -> tuple[float, dict[int, float]]:
    """The chance that any risk is true, at most; and unless that is allowed, what has to be known better."""
    chances = sorted(
        ((chance_above(levels[risk.one], levels[risk.other], risk.by), risk) for risk in risks),
        key=lambda pair: pair[0],
        reverse=True,
    )
    wrong = math.fsum(chance for chance, _ in chances)
    if wrong <= allowed:
        return wrong, {}
    kept: list[_Risk] = []
    rest = wrong
    for chance, risk in chances:
        if rest <= allowed / 2:
            break
        kept.append(risk)
        rest -= chance
    wanted = NormalDist().inv_cdf(1.0 - allowed / (2 * len(kept)))
    needs: dict[int, float] = {}
    for risk in kept:
        one, other = levels[risk.one], levels[risk.other]
        apart = (other.value + risk.by - one.value) / math.sqrt(one.variance + other.variance)
        factor = min(max((wanted / max(apart, _LEAST_Z)) ** 2, 1.1), _MOST_FACTOR)
        for cell, own, beside in ((risk.one, one, other), (risk.other, other, one)):
            if own.variance >= beside.variance * _KNOWN_BETTER:
                needs[cell] = max(factor, needs.get(cell, 0.0))
    return min(wrong, 1.0), needs
