"""Where the better of two data paths changes along an axis, from measured points only."""

from __future__ import annotations

import math
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any, Final, Literal

from pytest_gpuio.analysis.metrics import Metric
from pytest_gpuio.analysis.statistics import MOST_PAIRS, pseudomedian, sign_flip_p
from pytest_gpuio.core.errors import ConfigError
from pytest_gpuio.core.sizes import format_size
from pytest_gpuio.results.runs import RunFile

Better = Literal["a", "b", "undecided"]
Axis = Literal["bs", "qd", "jobs", "gpus"]

#: Axes a crossover is looked for along: those with an order.
CROSSOVER_AXES: Final[tuple[Axis, ...]] = ("bs", "qd", "jobs", "gpus")
#: Paths with one request in flight per job, which have no depth to compare at.
SYNCHRONOUS: Final = frozenset({"psync", "mmap", "dax", "gds", "gds_compat", "torch_save", "torch_dcp", "safetensors"})
#: A point is decided by the sign-flip test over processes at this level: six of six, or nearly all of more.
POINT_P: Final = 0.02


@dataclass(frozen=True, slots=True)
class Point:
    """Both paths at one place of the axis.

    Attributes:
        x: block size in bytes, depth, or count.
        differences: one per process: logarithm of the metric of A over that of B, turned so that positive = A better.
    """

    x: int
    differences: tuple[float, ...]

    @property
    def better(self) -> Better:
        """The better path, as far as the processes decide it."""
        if not self.differences:
            return "undecided"
        differences = self.differences[-MOST_PAIRS:]
        if sign_flip_p(differences) < POINT_P:
            return "a"
        return "b" if sign_flip_p([-value for value in differences]) < POINT_P else "undecided"

    @property
    def gain(self) -> float:
        """By how much A is better, relative; negative where B is."""
        return math.expm1(pseudomedian(self.differences)) if self.differences else 0.0


@dataclass(frozen=True, slots=True)
class Crossing:
    """One change of the better path: surely the first one up to ``low``, surely the other from ``high`` on."""

    low: int
    high: int
    below: Literal["a", "b"]


@dataclass(frozen=True, slots=True)
class Crossover:
    """What the points say.

    Attributes:
        a, b: data paths. axis: they are compared along. metric: name of what decides.
        situation: the other axes.
        points: in order of x.
        crossings: changes of the better path, in order.
        sentence: the answer in words.
    """

    a: str
    b: str
    axis: Axis
    metric: str
    points: tuple[Point, ...]
    crossings: tuple[Crossing, ...]
    sentence: str
    situation: Mapping[str, Any] = field(default_factory=dict)


def find(
    a: str, b: str, axis: Axis, metric: str, points: Sequence[Point], situation: Mapping[str, Any] | None = None
) -> Crossover:
    """The crossings between decided points; a place nobody measured is never named as one.

    Args:
        a: one data path.
        b: the other.
        axis: of the points.
        metric: name of what decides.
        points: in any order.
        situation: axes all points share.
    """
    ordered = tuple(sorted(points, key=lambda point: point.x))
    decided = [point for point in ordered if point.better != "undecided"]
    crossings = tuple(
        Crossing(low.x, high.x, low.better)  # type: ignore[arg-type]
        for low, high in pairwise(decided)
        if low.better != high.better
    )
    sentence = _sentence(a, b, axis, ordered, decided, crossings)
    return Crossover(a, b, axis, metric, ordered, crossings, sentence, situation or {})


def _sentence(
    a: str, b: str, axis: Axis, points: Sequence[Point], decided: Sequence[Point], crossings: Sequence[Crossing]
) -> str:
    names = {"a": a, "b": b}
    if not points:
        return f"nothing was measured with both {a} and {b}"
    span = f"{shown(axis, points[0].x)} to {shown(axis, points[-1].x)}"
    if not decided:
        return f"{a} and {b} cannot be told apart anywhere from {span}"
    if not crossings:
        winner = names[decided[0].better]
        part = "everywhere" if len(decided) == len(points) else f"at {len(decided)} of {len(points)} places"
        return f"{winner} is better {part} from {span}; the better one does not change where it was measured"
    told = []
    for crossing in crossings:
        first, second = names[crossing.below], names["b" if crossing.below == "a" else "a"]
        low, high = shown(axis, crossing.low), shown(axis, crossing.high)
        told.append(f"{first} is better up to {low}, {second} from {high} on")
    return "; ".join(told) + f" (measured from {span})"


def shown(axis: Axis, x: int) -> str:
    """``64k``, ``qd32``, ``jobs4``, ``gpus2``."""
    return format_size(x) if axis == "bs" else f"{axis}{x}"


def from_runs(runs: Sequence[RunFile], a: str, b: str, axis: Axis, metric: Metric) -> list[Crossover]:
    """Crossovers in existing results: one per situation that both paths were measured in.

    A synchronous path has one request in flight; it is compared with the other one's cells of every depth.

    Args:
        runs: each is one process, and gives one difference per place.
        a: one data path (effective).
        b: the other.
        axis: to look along.
        metric: that decides.

    Raises:
        ConfigError: no run measured both.
    """
    found: dict[_Situation, dict[int, list[float]]] = {}
    for run in runs:
        for situation, levels in _levels(run, (a, b), axis, metric).items():
            both = [levels.get(path, {}) for path in (a, b)]
            for place in sorted(both[0].keys() | both[1].keys()):
                at = [_at(path, own, place, axis) for path, own in zip((a, b), both, strict=True)]
                if at[0] is not None and at[1] is not None:
                    x, qd = place
                    key = situation if axis == "qd" else (*situation, ("qd", qd))
                    found.setdefault(key, {}).setdefault(x, []).append(at[0] - at[1])
    if not found:
        raise ConfigError(f"no run measured both {a} and {b} with equal {', '.join(_others(axis))}.")
    return [
        find(a, b, axis, metric.name, [Point(x, tuple(values)) for x, values in by_x.items()], dict(key))
        for key, by_x in found.items()
    ]


_Situation = tuple[tuple[str, Any], ...]
#: A value of the axis, and a depth.
_Place = tuple[int, int]


def _levels(
    run: RunFile, paths: tuple[str, str], axis: Axis, metric: Metric
) -> dict[_Situation, dict[str, dict[_Place, float]]]:
    """The metric's level (larger is better) by situation, path and place."""
    sign = 1.0 if metric.better == "higher" else -1.0
    levels: dict[_Situation, dict[str, dict[_Place, float]]] = {}
    for record in run.cells.values():
        path, axes = record["effective"]["datapath"], record["axes"]
        logs = metric.logs(record)
        if path in paths and logs and axis in axes:
            rest = {name: value for name, value in axes.items() if name not in ("datapath", "qd", axis)}
            place = int(axes[axis]), int(axes["qd"])
            situation = (("suite", record["suite"]), *rest.items())
            levels.setdefault(situation, {}).setdefault(path, {})[place] = sign * statistics.median(logs)
    return levels


def _at(path: str, levels: Mapping[_Place, float], place: _Place, axis: Axis) -> float | None:
    """A path's level at a place; that of a synchronous one where it has a single request in flight."""
    if path in SYNCHRONOUS and place not in levels:
        return levels.get((1 if axis == "qd" else place[0], 1))
    return levels.get(place)


def _others(axis: str) -> list[str]:
    return [name for name in ("workload", "medium", "bs", "qd", "jobs") if name != axis]
