"""The order of a sweep's cells: drawn at random in balanced blocks, reads before writes, so that drift is no axis."""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

from pytest_gpuio import phases
from pytest_gpuio.core.cell import Cell
from pytest_gpuio.sweep.expand import PlannedCell, baseline_cell, writes
from pytest_gpuio.sweep.plan import Plan


@dataclass(frozen=True, slots=True)
class Step:
    """What the runner does next: measure a ``cell``, a ``baseline``, or bring a target into a state before writes."""

    kind: Literal["cell", "baseline", "precondition"]
    planned: PlannedCell


def arrange(cells: Sequence[PlannedCell], *, seed: int, block: int) -> list[PlannedCell]:
    """The cells in the order in which they are measured.

    All reads come first: a write changes what later reads meet. Within each half, each pair of target and data path is
    spread evenly from beginning to end and its cells are shuffled, and each block of neighbours is shuffled again, so
    that whatever drifts over hours meets all values of an axis alike. Cells of one environment stand together within a
    block. The same seed and cells give the same order.

    Args:
        cells: in any fixed order.
        seed: of the draw.
        block: cells drawn together.
    """
    drawn = random.Random(seed)
    found: list[PlannedCell] = []
    halves: tuple[list[PlannedCell], list[PlannedCell]] = ([], [])
    # Workloads are few, cells many.
    writing = {name: phases.get(name).writes for name in {planned.cell.workload for planned in cells}}
    for planned in cells:
        halves[writing[planned.cell.workload]].append(planned)
    for half in halves:
        spread = _spread(half, drawn)
        for start in range(0, len(spread), block):
            together = spread[start : start + block]
            names = sorted({planned.environment for planned in together})
            rank = {name: drawn.random() for name in names}
            keyed = [(rank[planned.environment], drawn.random(), number) for number, planned in enumerate(together)]
            found += [together[number] for _, _, number in sorted(keyed)]
    return found


def _spread(cells: Sequence[PlannedCell], drawn: random.Random) -> list[PlannedCell]:
    strata: dict[tuple[str, str], list[int]] = {}
    for number, planned in enumerate(cells):
        strata.setdefault((planned.cell.target, planned.cell.datapath), []).append(number)
    placed: list[tuple[float, int]] = []
    for numbers in strata.values():
        shuffled = [number for _, number in sorted((drawn.random(), number) for number in numbers)]
        placed += [((rank + drawn.random()) / len(shuffled), number) for rank, number in enumerate(shuffled)]
    return [cells[number] for _, number in sorted(placed)]


def steps(ordered: Sequence[PlannedCell], plan: Plan) -> Iterator[Step]:
    """The cells with what is measured between them.

    The baseline of each target stands before its first cell, after every so many cells, and at the end; a target's
    precondition before its first writing cell.
    """
    ready: set[str] = set()
    seen: dict[str, Cell] = {}
    watched: set[str] = set()
    since = 0
    for planned in ordered:
        cell = planned.cell
        if plan.baseline is not None and cell.target not in watched:
            watched.add(cell.target)
            yield Step("baseline", baseline_cell(plan.baseline, cell.target, cell.medium))
        if plan.precondition is not None and cell.target not in ready and writes(cell):
            ready.add(cell.target)
            yield Step("precondition", planned)
        yield Step("cell", planned)
        seen[cell.target] = cell
        since += 1
        if plan.baseline is not None and since >= plan.baseline.every:
            yield from _baselines(plan, seen)
            seen, since = {}, 0
    yield from _baselines(plan, seen)


def _baselines(plan: Plan, seen: dict[str, Cell]) -> Iterator[Step]:
    if plan.baseline is not None:
        for target, cell in seen.items():
            yield Step("baseline", baseline_cell(plan.baseline, target, cell.medium))
