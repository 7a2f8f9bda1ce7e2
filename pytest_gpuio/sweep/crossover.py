"""Looking for a crossover by measuring: both ends, then the middle of what is still open."""

from __future__ import annotations

import math
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Final

from pytest_gpuio.analysis.crossover import SYNCHRONOUS, Axis, Crossover, Point, find, from_runs, shown
from pytest_gpuio.analysis.metrics import Metric
from pytest_gpuio.core.errors import ConfigError, GpuioError
from pytest_gpuio.core.sizes import format_size
from pytest_gpuio.results.runs import RunFile
from pytest_gpuio.sweep.pytest_process import Side, measure

#: Processes a place is measured by; six is the least that can decide.
PROCESSES: Final = 6
_MOST_PROCESSES: Final = 12
#: Block sizes are multiples of it: what every device can address.
_SECTOR: Final = 4096


@dataclass(frozen=True, slots=True)
class Search:
    """What to look for.

    Attributes:
        a, b: data paths. axis: to look along. low, high: its ends. metric: that decides.
        resolution: stop when the open stretch's ends are within this factor.
        arguments: of pytest, for everything else about the cells.
        timeout_s: of one process. python: interpreter that runs pytest.
    """

    a: str
    b: str
    axis: Axis
    low: int
    high: int
    metric: Metric
    resolution: float
    arguments: tuple[str, ...]
    timeout_s: float | None = None
    python: str = sys.executable

    def __post_init__(self) -> None:
        if self.a == self.b:
            raise ConfigError(f"{self.a} cannot cross itself: name two data paths.")
        if not 0 < self.low < self.high:
            raise ConfigError(f"{self.axis} from {self.low} to {self.high}: the first must be smaller.")
        if not 1.0 < self.resolution < 100.0:
            raise ConfigError(f"resolution {self.resolution:g}: a factor above 1, like 1.3.")


def search(task: Search, folder: Path, tell: Callable[[str], None]) -> Crossover:
    """Measures both ends and the middle, then bisects between places where the better path differs.

    A place that stays undecided after more processes closes the stretch around it: it *is* the crossover's interval.

    Args:
        task: what to look for.
        folder: for results and logs; must exist.
        tell: is given one line per place.

    Raises:
        GpuioError: pytest measured nothing, or the two paths in cells that do not match.
    """
    points: dict[int, Point] = {}
    middle = _between(task, task.low, task.high)
    for place in (task.low, middle, task.high):
        if place is not None:
            points[place] = _measured(task, place, folder, tell)
    while (x := _next(task, points)) is not None:
        points[x] = _measured(task, x, folder, tell)
    return find(task.a, task.b, task.axis, task.metric.name, list(points.values()))


def _next(task: Search, points: dict[int, Point]) -> int | None:
    """The middle of the widest stretch whose ends disagree, or None when all are narrow enough."""
    order = sorted(points)
    open_ones = [
        (high / low, low, high)
        for low, high in pairwise(order)
        if points[low].better != points[high].better
        and "undecided" not in (points[low].better, points[high].better)
        and high / low > task.resolution
    ]
    for _, low, high in sorted(open_ones, reverse=True):
        middle = _between(task, low, high)
        if middle is not None and middle not in points:
            return middle
    return None


def _between(task: Search, low: int, high: int) -> int | None:
    """The geometric middle as a value the axis can take; None when there is none between."""
    middle = round(math.sqrt(low * high))
    if task.axis == "bs":
        middle = round(middle / _SECTOR) * _SECTOR
    return middle if low < middle < high else None


def _measured(task: Search, x: int, folder: Path, tell: Callable[[str], None]) -> Point:
    value = format_size(x) if task.axis == "bs" else str(x)
    runs: list[RunFile] = []
    point = Point(x, ())
    while len(runs) < _MOST_PROCESSES:
        paths = (task.a, task.b) if len(runs) % 2 == 0 else (task.b, task.a)
        runs.append(_process(task, value, paths, folder / f"{task.axis}{x}-{len(runs) + 1:02}.json"))
        if len(runs) < PROCESSES:
            continue
        point = Point(x, _differences(task, runs, x))
        if point.better != "undecided":
            break
    winner = {"a": task.a, "b": task.b, "undecided": "undecided"}[point.better]
    tell(f"{shown(task.axis, x)}: {winner} ({task.a} {point.gain:+.1%}, {len(runs)} processes)")
    return point


def _process(task: Search, value: str, paths: Sequence[str], results: Path) -> RunFile:
    if task.axis == "qd" and value != "1" and _has_synchronous(task):
        value = f"1,{value}"  # the synchronous path at its only depth, beside the other at this one
    arguments = (*task.arguments, f"--gpuio-datapath={','.join(paths)}", f"--gpuio-{task.axis}={value}")
    return measure(Side(shown_side(paths), arguments, python=task.python), results, timeout_s=task.timeout_s)


def shown_side(paths: Sequence[str]) -> str:
    """``psync and libaio``, for messages."""
    return " and ".join(paths)


def _differences(task: Search, runs: Sequence[RunFile], x: int) -> tuple[float, ...]:
    try:
        found = from_runs(runs, task.a, task.b, task.axis, task.metric)
    except ConfigError:
        voids = [f"{void['gate']}: {void['reason']}" for run in runs for void in run.voids.values()]
        skips = [reason for run in runs for reason in (*run.skips.values(), *run.failures.values())]
        measured = {record["axes"]["datapath"] for run in runs for record in run.cells.values()}
        unseen = {task.a, task.b} - measured
        if len(unseen) == 1 and unseen <= SYNCHRONOUS:
            why = f"{min(unseen)} has one request in flight: let --gpuio-qd hold 1 as well, like --gpuio-qd=1,32"
        else:
            why = "the cells do not match"
        why = next(iter([*voids, *skips]), why)
        raise GpuioError(
            f"at {shown(task.axis, x)} there is no pair of {task.a} and {task.b} with {task.metric.name}: {why}"
        ) from None
    if _has_synchronous(task) and task.axis != "qd":
        # Depth 1 beside others was measured for the synchronous path only.
        deepest = max(int(one.situation["qd"]) for one in found)
        found = [one for one in found if int(one.situation["qd"]) == deepest]
    if len(found) > 1:
        raise ConfigError(
            f"pytest ran {len(found)} kinds of cells: narrow them to one with --gpuio-workload, -bs, -qd and -jobs, "
            "so that there is one crossover to look for."
        )
    return next(point.differences for point in found[0].points if point.x == x)


def _has_synchronous(task: Search) -> bool:
    return bool({task.a, task.b} & SYNCHRONOUS)
