"""From a plan to its cells: axes multiplied out, impossible pairs, exclusions, constraints and limits left out."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from pytest_gpuio import datapaths, phases
from pytest_gpuio.core.cell import Cache, Cell, Destination
from pytest_gpuio.core.errors import ConfigError
from pytest_gpuio.measure.effort import Effort, effort_of, least_window
from pytest_gpuio.measure.settings import Settings, parse_batches
from pytest_gpuio.phases.arrivals import Arrivals
from pytest_gpuio.sweep.plan import PLAIN, Baseline, Plan, Rule

if TYPE_CHECKING:
    from pytest_gpuio.datapaths import DataPath
    from pytest_gpuio.phases import AnyWorkload

#: Suite of a sweep's cells in their history keys; the name of an environment follows behind a dot.
SUITE: Final = "sweep"


@dataclass(frozen=True, slots=True)
class PlannedCell:
    """A cell of a plan, with how requests arrive as options spell it and the environment of its measuring child."""

    cell: Cell
    arrivals: str = "closed"
    environment: str = PLAIN


@dataclass(frozen=True, slots=True)
class Sweep:
    """A plan on a machine: what the command line changed, and where its targets lie.

    Attributes:
        plan: as written. settings: options after the plan's own. effort: of each cell.
        targets: paths of those that were given, by name. media: class of each target the plan has, by name.
        axes: values by axis, the command line's before the plan's.
    """

    plan: Plan
    settings: Settings
    effort: Effort
    targets: Mapping[str, Path]
    media: Mapping[str, str]
    axes: Mapping[str, tuple[Any, ...]]


def place(plan: Plan, settings: Settings, given: Mapping[str, Path], media: Mapping[str, str]) -> Sweep:
    """A plan with the options and targets of one command.

    Args:
        plan: as written.
        settings: options, those of the plan among them.
        given: paths of the named targets; of a plan that names no target, all there are.
        media: class of the medium that each given target lies on.

    Raises:
        ConfigError: a target that the plan has not, or one on another medium than the plan says.
    """
    names = plan.axes.get("target") or tuple(given)
    for name in given:
        if name not in names:
            raise ConfigError(
                f"plan {plan.name} has no target {name!r}: its targets are {', '.join(names)}; give them as "
                f"--gpuio-target {names[0]}=PATH."
            )
        wanted = plan.media.get(name)
        if wanted is not None and media[name] != wanted:
            raise ConfigError(
                f"target {name} of plan {plan.name} must lie on {wanted}, but {given[name]} lies on {media[name]}: "
                f"name another path, or copy the plan and change its [targets]."
            )
    classes = {name: media.get(name) or plan.media.get(name, "unknown") for name in names}
    asked = {
        "datapath": settings.datapath, "workload": settings.workload, "destination": settings.destination,
        "bs": settings.bs, "qd": settings.qd, "jobs": settings.jobs,
        "gpus": settings.gpus if settings.gpus != (1,) else None,
        "cache": (settings.cache,) if settings.cache else None,
        "batch": tuple(f"{s}x{r}" for s, r in settings.batch) if settings.batch != ((1, 1),) else None,
        "arrivals": tuple(map(str, settings.arrivals)) if settings.arrivals != (Arrivals(),) else None,
    }  # fmt: skip
    axes = {**plan.axes, "target": names, **{axis: tuple(v) for axis, v in asked.items() if v}}
    return Sweep(plan, settings, sweep_effort(plan, settings), given, classes, axes)


def sweep_effort(plan: Plan, settings: Settings) -> Effort:
    """The effort of each cell: the options', with the plan's windows where it has any."""
    effort = effort_of(settings)
    if plan.windows is None:
        return effort
    length = settings.window or plan.windows.length_s
    return replace(
        effort,
        window_s=length,
        windows=plan.windows.count,
        warm_up_s=plan.windows.warm_up_s,
        least_window_s=least_window(length),
    )


def expand(sweep: Sweep) -> Iterator[PlannedCell]:
    """The cells, one after the other, in the order of the axes.

    Raises:
        ConfigError: a name that is not known.
    """
    plan = sweep.plan
    wanted = sweep.settings.cases
    for planned in _product(sweep):
        cell = planned.cell
        in_flight = cell.qd * cell.workers
        if plan.in_flight is not None and in_flight > plan.in_flight:
            continue
        if plan.in_flight_bytes is not None and in_flight * cell.bs > plan.in_flight_bytes:
            continue
        if plan.rules and not _allowed(planned, plan.rules):
            continue
        if wanted is None or cell.case in wanted:
            yield planned


def _product(sweep: Sweep) -> Iterator[PlannedCell]:
    axes = sweep.axes
    workloads = _workloads(sweep)
    batches = tuple(pair for text in axes.get("batch", ("1x1",)) for pair in parse_batches(text))
    spelled = [Arrivals.parse(text) for text in axes.get("arrivals", ("closed",))]
    for environment, target, workload in itertools.product(
        axes.get("environment", (PLAIN,)), axes["target"], workloads
    ):
        # A model's records carry their own times.
        loops = [Arrivals()] if isinstance(workload, phases.RecordModel) else spelled
        for path in _paths(axes):
            depths = axes.get("qd") or (1 if path.synchronous else workload.qd,)
            for memory, cache, bs, qd, jobs, batch, loop in itertools.product(
                tuple(_memory(path, axes)), _caches(path, axes), axes.get("bs") or (workload.bs,), depths,
                axes.get("jobs") or (workload.jobs,), batches, loops,
            ):  # fmt: skip
                destination, gpus = memory
                if not path.takes(qd=qd, batch=batch, destination=destination):
                    continue
                cell = Cell(
                    SUITE if environment == PLAIN else f"{SUITE}.{environment}",
                    path.name, sweep.media[target], target, workload.spelling, bs, qd, jobs, destination, *batch,
                    cache, workload.durability, loop.label, gpus,
                )  # fmt: skip
                yield PlannedCell(cell, str(loop), environment)


def _workloads(sweep: Sweep) -> list[AnyWorkload]:
    names = sweep.axes.get("workload")
    found = phases.match(names) if names else [w for w in phases.WORKLOADS.values() if isinstance(w, phases.Workload)]
    return [phases.with_parameters(workload, sweep.settings.parameters) for workload in found]


def _paths(axes: Mapping[str, tuple[Any, ...]]) -> list[DataPath]:
    names = axes.get("datapath")
    if names:
        return [datapaths.get(name) for name in names]
    return [path for path in datapaths.DATAPATHS.values() if not path.by_name]


def _memory(path: DataPath, axes: Mapping[str, tuple[Any, ...]]) -> Iterable[tuple[Destination, int]]:
    for destination in axes.get("destination") or path.destinations[:1]:
        for gpus in axes.get("gpus", (1,)) if destination == "gpu" else (0,):
            yield destination, gpus


def _caches(path: DataPath, axes: Mapping[str, tuple[Any, ...]]) -> tuple[Cache, ...]:
    asked = axes.get("cache")
    if not asked:
        return path.caches[:1]
    return tuple(cache for cache in path.caches if cache in asked)


def _allowed(planned: PlannedCell, rules: Iterable[Rule]) -> bool:
    cell = planned.cell
    facts = {
        "environment": planned.environment, "target": cell.target, "workload": cell.workload,
        "datapath": cell.datapath, "destination": cell.destination, "gpus": cell.gpus, "cache": cell.cache,
        "bs": cell.bs, "qd": cell.qd, "jobs": cell.jobs, "batch": cell.batch, "arrivals": planned.arrivals,
        "medium": cell.medium, "phase": cell.phase,
    }  # fmt: skip
    for rule in rules:
        if all(test(facts[axis]) for axis, test in rule.when.items()) and (
            rule.then is None or not all(test(facts[axis]) for axis, test in rule.then.items())
        ):
            return False
    return True


def writes(cell: Cell) -> bool:
    """Whether any of the cell's requests is a write."""
    return phases.get(cell.workload).writes


def baseline_cell(baseline: Baseline, target: str, medium: str) -> PlannedCell:
    """The cell that watches a target's drift."""
    path = datapaths.get(baseline.datapath)
    cell = Cell(
        f"{SUITE}.baseline", path.name, medium, target, baseline.workload, baseline.bs, baseline.qd, baseline.jobs,
        path.destinations[0], cache=path.caches[0], durability=phases.get(baseline.workload).durability,
        gpus=int(path.destinations[0] == "gpu"),
    )  # fmt: skip
    return PlannedCell(cell)
