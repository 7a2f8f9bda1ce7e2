"""An adaptive sweep's decisions in words, and as JSON-able values: what was decided, and what is still open."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from pytest_gpuio.analysis.crossover import shown
from pytest_gpuio.report.labels import within_workload
from pytest_gpuio.sweep.decisions import Decision, Standing
from pytest_gpuio.sweep.expand import PlannedCell
from pytest_gpuio.sweep.questions import KINDS, Question
from pytest_gpuio.sweep.terms import Terms

_TITLES: Final = {
    "best": "best path",
    "crossover": "where the best path changes",
    "knee": "knee: from where on depth gives less than a tenth more",
}
#: Cells that are named of those an open question waits for.
_NAMED: Final = 3


def answer_lines(
    decisions: Sequence[Decision], cells: Sequence[PlannedCell], out: Mapping[int, str], terms: Terms
) -> Iterator[str]:
    """What is known, for people, by kind of question; then what is open, and what could not be measured.

    Args:
        decisions: of all questions.
        cells: that their numbers stand for.
        out: why cells could not be measured, by number.
        terms: that were kept to.
    """
    for kind in KINDS:
        of_kind = [one for one in decisions if one.question.kind == kind]
        if not of_kind:
            continue
        done = [one for one in of_kind if one.decided]
        yield (
            f"{_TITLES[kind]}: {len(done):,} of {len(of_kind):,} decided (confidence {terms.confidence:.4g}, "
            f"within {terms.margin:.1%})\n"
        )
        if kind == "knee":
            yield from _knees(done)
            continue
        for one in done:
            yield f"  {subject(one.question)}: {answer(one, cells)}{_note(one)}\n"
    still = [one for one in decisions if not one.decided]
    if still:
        yield f"still open: {len(still):,}\n"
    for kind in KINDS:
        of_kind = [one for one in still if one.question.kind == kind]
        if kind == "knee" and of_kind:
            yield f"  {len(of_kind):,} knees: {_titles(of_kind)}\n"
            continue
        for one in of_kind:
            yield f"  {one.question.title}: {answer(one, cells)}; {waits_for(one, cells)}\n"
    reasons: dict[str, list[int]] = {}
    for number, why in out.items():
        reasons.setdefault(why, []).append(number)
    for why, numbers in reasons.items():
        yield f"not measured, {len(numbers):,} cells, such as {_label(cells, numbers[0])}: {why}\n"


def subject(question: Question) -> str:
    """What a question is about, without its kind."""
    along = f" along {question.axis}" if question.axis else ""
    return f"{question.situation}{question.where}{along}"


def answer(decision: Decision, cells: Sequence[PlannedCell]) -> str:
    """What is known of a question so far, surely or not."""
    question = decision.question
    match question.kind:
        case "best":
            return _best(decision.standings[0], cells)
        case "crossover":
            return changes(decision.standings, question)
        case "knee":
            at = {cell: x for x, cell in question.points}
            axis = question.axis or "qd"
            return "too few depths can be measured" if decision.knee is None else shown(axis, at[decision.knee])


def _best(standing: Standing, cells: Sequence[PlannedCell]) -> str:
    if standing.leader is None:
        return "nothing could be measured"
    label = _label(cells, standing.leader)
    if standing.runner_up is None or standing.lead is None:
        return f"{label}, the only path with a result"
    rival = _label(cells, standing.runner_up)
    if standing.ahead:
        return f"{label}, {standing.lead:.1%} above {rival}"
    equal = (
        f"not told apart from {', '.join(standing.equal)}" if standing.equal else f"{standing.lead:.1%} above {rival}"
    )
    return f"{label}, {equal}"


def changes(standings: Sequence[Standing], question: Question) -> str:
    """The best path along an axis, with as few changes as what is known allows: equal ones count for either."""
    axis = question.axis or "bs"
    parts: list[tuple[set[str], list[str], int, int]] = []
    for standing in standings:
        if standing.path is None:
            continue
        good = {standing.path, *standing.equal} if not standing.ahead else {standing.path}
        if parts and parts[-1][0] & good:
            kept, leaders, low, _ = parts[-1]
            parts[-1] = (kept & good, [*leaders, standing.path], low, standing.x)
        else:
            parts.append((good, [standing.path], standing.x, standing.x))
    if not parts:
        return "nothing could be measured"
    told = []
    for place, (good, leaders, low, high) in enumerate(parts):
        path = max(sorted(good), key=leaders.count)
        if len(parts) == 1:
            told.append(f"{path} from {shown(axis, low)} to {shown(axis, high)}")
        elif place == 0:
            told.append(f"{path} up to {shown(axis, high)}")
        elif place == len(parts) - 1:
            told.append(f"{path} from {shown(axis, low)} on")
        else:
            told.append(f"{path} {f'from {shown(axis, low)} to' if low != high else 'at'} {shown(axis, high)}")
    return ", ".join(told)


def waits_for(decision: Decision, cells: Sequence[PlannedCell]) -> str:
    """Which cells an open question waits for."""
    if decision.unseen:
        return f"{len(decision.unseen):,} of its cells are not measured yet"
    names = [_label(cells, cell) for cell in list(decision.needs)[:_NAMED]]
    more = len(decision.needs) - len(names)
    return f"wrong with a chance of up to {decision.wrong:.0%}; longer: {', '.join(names)}" + (
        f" and {more:,} more" if more else ""
    )


def _knees(decisions: Sequence[Decision]) -> Iterator[str]:
    grouped: dict[tuple[str, str], list[str]] = {}
    for one in decisions:
        path, _, rest = one.question.where.removeprefix(", ").partition(" ")
        grouped.setdefault((one.question.situation, path), []).append(
            f"{rest} {answer(one, ())}{'*' if one.unsettled else ''}"
        )
    for (situation, path), found in grouped.items():
        yield f"  {situation}, {path}: {', '.join(found)}\n"
    if any(one.unsettled for one in decisions):
        yield "  * unsettled: the machine was disturbed, see the records' gates\n"


def _note(decision: Decision) -> str:
    return " (unsettled: the machine was disturbed, see the records' gates)" if decision.unsettled else ""


def _titles(decisions: Sequence[Decision]) -> str:
    names = [subject(one.question) for one in decisions[:_NAMED]]
    more = len(decisions) - len(names)
    return "; ".join(names) + (f" and {more:,} more" if more else "")


def _label(cells: Sequence[PlannedCell], number: int) -> str:
    return within_workload(cells[number].cell.axes())


def answer_data(
    decisions: Sequence[Decision], cells: Sequence[PlannedCell], out: Mapping[int, str], terms: Terms
) -> dict[str, Any]:
    """The same for programs."""
    return {
        "confidence": terms.confidence,
        "margin": terms.margin,
        "decided": sum(one.decided for one in decisions),
        "open": sum(not one.decided for one in decisions),
        "questions": [_question_data(one, cells) for one in decisions],
        "out": {cells[number].cell.case: why for number, why in out.items()},
    }


def _question_data(decision: Decision, cells: Sequence[PlannedCell]) -> dict[str, Any]:
    question = decision.question

    def case(number: int | None) -> str | None:
        return None if number is None else cells[number].cell.case

    knees = {cell: x for x, cell in question.points}
    return {
        "kind": question.kind,
        "question": question.title,
        "axis": question.axis,
        "decided": decision.decided,
        "answer": answer(decision, cells),
        "wrong_at_most": decision.wrong,
        "places": [
            {
                "x": standing.x or None, "datapath": standing.path, "case": case(standing.leader),
                "runner_up": case(standing.runner_up), "lead": standing.lead, "ahead": standing.ahead,
                "equal": list(standing.equal),
            }
            for standing in decision.standings
        ],
        "knee": None if decision.knee is None else {"x": knees[decision.knee], "case": case(decision.knee)},
        "unsettled": [case(cell) for cell in decision.unsettled],
        "waits_for": [] if decision.decided else [case(cell) for cell in (*decision.needs, *sorted(decision.unseen))],
    }  # fmt: skip
