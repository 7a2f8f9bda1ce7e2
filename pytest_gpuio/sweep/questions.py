"""What a sweep's cells are measured for: the best path of each situation, where it changes, and knees of depth."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, Literal

from pytest_gpuio.analysis.crossover import Axis, shown
from pytest_gpuio.analysis.recommend import NEVER
from pytest_gpuio.sweep.expand import PlannedCell
from pytest_gpuio.sweep.plan import PLAIN

Kind = Literal["best", "crossover", "knee"]
#: In the order in which time goes to them.
KINDS: Final[tuple[Kind, ...]] = ("best", "crossover", "knee")
#: A curve of fewer depths shows no knee.
LEAST_POINTS: Final = 3


@dataclass(frozen=True, slots=True)
class Place:
    """One place of an axis (0 = the question has none), with the cells of each data path there: its best one counts."""

    x: int
    paths: Mapping[str, tuple[int, ...]]


@dataclass(frozen=True, slots=True)
class Question:
    """Something that is to be decided.

    Attributes:
        kind: ``best`` path of a situation, ``crossover`` = best path at each place of an axis, or ``knee`` of a curve.
        situation: what is asked for, in words. where: what else holds.
        axis: of places and points; None = there is none.
        places: of ``best`` (one) and ``crossover``. points: of ``knee``: places of the axis in order, and their cells.
    """

    kind: Kind
    situation: str
    where: str
    axis: Axis | None
    places: tuple[Place, ...] = ()
    points: tuple[tuple[int, int], ...] = ()

    @property
    def title(self) -> str:
        """``best path of micro/randread on nvme_ssd``, ..."""
        match self.kind:
            case "best":
                return f"best path of {self.situation}"
            case "crossover":
                return f"best path along {self.axis} of {self.situation}{self.where}"
            case "knee":
                return f"knee along {self.axis} of {self.situation}{self.where}"

    @property
    def cells(self) -> set[int]:
        """All cells it is about."""
        asked = {cell for place in self.places for cells in place.paths.values() for cell in cells}
        return asked | {cell for _, cell in self.points}


def questions(cells: Sequence[PlannedCell]) -> list[Question]:
    """What can be asked of the cells, by kind: numbers in it are places in ``cells``."""
    groups: dict[Hashable, list[int]] = {}
    for number, planned in enumerate(cells):
        if planned.cell.datapath not in NEVER:
            groups.setdefault(_situation(planned), []).append(number)
    found: list[Question] = []
    for members in groups.values():
        name = _name(cells[members[0]])
        found.append(Question("best", name, "", None, (Place(0, _by_path(cells, members)),)))
        # The best geometry at each block size, and the best number of jobs at each size and depth.
        found += _crossovers(cells, members, name, "bs", lambda _: "")
        found += _crossovers(cells, members, name, "qd", lambda planned: f", {shown('bs', planned.cell.bs)}")
        found += _knees(cells, members, name)
    return sorted(found, key=lambda question: KINDS.index(question.kind))


def _situation(planned: PlannedCell) -> Hashable:
    """What :data:`~pytest_gpuio.analysis.recommend.SITUATION` is in a record, and the environment."""
    cell = planned.cell
    return (
        planned.environment, cell.medium, cell.target, cell.workload, cell.destination, cell.cache, cell.durability,
        planned.arrivals,
    )  # fmt: skip


def _name(planned: PlannedCell) -> str:
    cell = planned.cell
    parts = [f"{cell.workload} on {cell.medium}"]
    more = (
        (cell.target, "default"), (cell.destination, "host"), (cell.cache, "direct"), (cell.durability, "none"),
        (cell.arrivals, "closed"), (planned.environment, PLAIN),
    )  # fmt: skip
    # Writes name their durability in the workload already.
    parts += [value for value, usual in more if value != usual and value not in cell.workload]
    return " ".join(parts)


def _by_path(cells: Sequence[PlannedCell], members: Sequence[int]) -> dict[str, tuple[int, ...]]:
    found: dict[str, tuple[int, ...]] = {}
    for number in members:
        path = cells[number].cell.datapath
        found[path] = (*found.get(path, ()), number)
    return found


def _crossovers(
    cells: Sequence[PlannedCell], members: Sequence[int], name: str, axis: Axis, fixed: Callable[[PlannedCell], str]
) -> list[Question]:
    lanes: dict[str, dict[int, list[int]]] = {}
    for number in members:
        at = int(getattr(cells[number].cell, axis))
        lanes.setdefault(fixed(cells[number]), {}).setdefault(at, []).append(number)
    found = []
    for where, by_x in lanes.items():
        places = [Place(x, _by_path(cells, by_x[x])) for x in sorted(by_x)]
        # Where one path is alone nothing is to be chosen.
        contested = tuple(place for place in places if len(place.paths) > 1)
        if len(contested) > 1:
            found.append(Question("crossover", name, where, axis, contested))
    return found


def _knees(cells: Sequence[PlannedCell], members: Sequence[int], name: str) -> list[Question]:
    curves: dict[tuple[str, Axis, str], dict[int, int]] = {}
    deep = {cells[number].cell.datapath for number in members if cells[number].cell.qd > 1}
    for number in members:
        cell = cells[number].cell
        if cell.arrivals != "closed":
            continue  # what is asked of an open loop is a response time: it has no depth of its own
        # A path without a queue gets its depth from jobs.
        axis: Axis = "qd" if cell.datapath in deep else "jobs"
        other = shown("jobs", cell.jobs) if axis == "qd" else shown("qd", cell.qd)
        rest = [shown("bs", cell.bs), other]
        rest += [shown("gpus", cell.gpus)] if cell.gpus else []
        rest += [f"batch{cell.batch}"] if cell.batch != "1x1" else []
        curve = curves.setdefault((cell.datapath, axis, " ".join(rest)), {})
        curve[int(getattr(cell, axis))] = number
    return [
        Question("knee", name, f", {path} {rest}", axis, points=tuple(sorted(curve.items())))
        for (path, axis, rest), curve in curves.items()
        if len(curve) >= LEAST_POINTS
    ]
