"""Which cells a test becomes: axes, ids, marks, and the pairs that are never generated."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import pytest

from pytest_gpuio.core.cell import DESTINATIONS, Cache, Cell, Destination
from pytest_gpuio.core.errors import ConfigError
from pytest_gpuio.core.sizes import format_size
from pytest_gpuio.core.spdk_address import spdk_address
from pytest_gpuio.phases.arrivals import Arrivals

if TYPE_CHECKING:
    from pytest_gpuio.datapaths import DataPath
    from pytest_gpuio.phases import AnyWorkload
    from pytest_gpuio.plugin.state import Run

#: Fixtures that carry an axis, in the order of ids.
AXIS_FIXTURES: Final = (
    "datapath",
    "medium",
    "gpuio_target",
    "phase",
    "gpuio_workload",
    "gpuio_destination",
    "gpuio_gpus",
    "gpuio_bs",
    "gpuio_qd",
    "gpuio_jobs",
    "gpuio_batch",
    "gpuio_arrivals",
)
CELL: Final = pytest.StashKey[Cell]()
_EMPTY: Final = "no_cell"


@dataclass(frozen=True, slots=True)
class Point:
    """One combination of the axes that a fixture carries."""

    datapath: DataPath
    target: str
    medium: str
    workload: AnyWorkload
    destination: Destination
    gpus: int
    bs: int
    qd: int
    jobs: int
    batch: tuple[int, int]
    arrivals: Arrivals

    def values(self) -> dict[str, str | int]:
        """Plain values by fixture name: they go into pytest-benchmark's ``params``."""
        return {
            "datapath": self.datapath.name,
            "medium": self.medium,
            "gpuio_target": self.target,
            "phase": self.workload.phase,
            "gpuio_workload": self.workload.spelling,
            "gpuio_destination": self.destination,
            "gpuio_gpus": self.gpus,
            "gpuio_bs": self.bs,
            "gpuio_qd": self.qd,
            "gpuio_jobs": self.jobs,
            "gpuio_batch": f"{self.batch[0]}x{self.batch[1]}",
            "gpuio_arrivals": str(self.arrivals),
        }


def _workload_names(definition: pytest.Item) -> list[str] | None:
    marks = list(definition.iter_markers("workload"))
    if not marks:
        return None
    names = [name for mark in marks for name in mark.args]
    if not names or not all(isinstance(name, str) for name in names):
        raise ConfigError('@pytest.mark.workload needs names: @pytest.mark.workload("inference/kv_fetch").')
    return names


def _chosen_workloads(definition: pytest.Item, run: Run, narrowed: Mapping[str, Sequence[Any]]) -> list[AnyWorkload]:
    from pytest_gpuio import phases

    names = _workload_names(definition)
    workloads = list(phases.match(names)) if names else _all_workloads(run, narrowed)
    if run.settings.workload:
        allowed = {workload.name for workload in phases.match(run.settings.workload)}
        workloads = [workload for workload in workloads if workload.name in allowed]
    if "phase" in narrowed:
        workloads = [workload for workload in workloads if workload.phase in narrowed["phase"]]
    if "gpuio_workload" in narrowed:
        wanted = phases.match([str(name) for name in narrowed["gpuio_workload"]])
        workloads = [workload for workload in wanted if workload.name in {other.name for other in workloads}]
    return [phases.with_parameters(workload, run.settings.parameters) for workload in workloads]


def _all_workloads(run: Run, narrowed: Mapping[str, Sequence[Any]]) -> list[AnyWorkload]:
    """Those of a test that names none: models, which lay out files of their own, only when somebody asks for them."""
    from pytest_gpuio import phases

    named = run.settings.workload or "gpuio_workload" in narrowed
    return [w for w in phases.WORKLOADS.values() if named or not isinstance(w, phases.RecordModel)]


def _chosen_datapaths(
    run: Run, narrowed: Mapping[str, Sequence[Any]], file_system: str | None, *, user_space: bool
) -> list[DataPath]:
    """Those that were asked for, else those that mean something for a target; ``user_space``: SPDK drives it."""
    from pytest_gpuio import datapaths

    asked = narrowed.get("datapath") or run.settings.datapath
    if asked:
        return [datapaths.get(str(name)) for name in asked]
    if user_space:
        return [path for path in datapaths.DATAPATHS.values() if not path.file]
    return [path for path in datapaths.DATAPATHS.values() if not path.by_name or file_system in path.file_systems]


def points(definition: pytest.Item, run: Run, narrowed: Mapping[str, Sequence[Any]]) -> Iterable[Point]:
    """Every possible combination; impossible ones (a depth on a synchronous path) are never generated.

    Args:
        definition: the test.
        run: settings and media.
        narrowed: values of axes that the suite parametrized by itself.

    Raises:
        ConfigError: unknown names, or a value that is not of its axis.
    """
    if run.planned_cells is not None:
        yield from _planned(definition, run, narrowed)
        return
    asked = run.settings
    from pytest_gpuio.phases import RecordModel

    workloads = _chosen_workloads(definition, run, narrowed)
    targets = [(name, path) for name, path in asked.targets if name in narrowed.get("gpuio_target", (name,))]
    batches = _batches(narrowed) or asked.batch
    all_loops = _arrivals(narrowed) or asked.arrivals
    for workload in workloads:
        # A model's records carry their own times.
        loops = (Arrivals(),) if isinstance(workload, RecordModel) else all_loops
        sizes = _numbers("gpuio_bs", narrowed) or asked.bs or (workload.bs,)
        jobs_axis = _numbers("gpuio_jobs", narrowed) or asked.jobs or (workload.jobs,)
        for target, place_of in targets:
            medium = run.media[target].name
            user_space = spdk_address(place_of) is not None
            chosen = _chosen_datapaths(run, narrowed, run.media[target].file_system, user_space=user_space)
            for path in (path for path in chosen if asked.cache in (None, *path.caches)):
                depths = _numbers("gpuio_qd", narrowed) or asked.qd or (1 if path.synchronous else workload.qd,)
                if path.synchronous and min(depths) > 1:
                    run.note(
                        f"{path.name} has one request in flight per job: none at depth {min(depths)}; use --gpuio-jobs"
                    )
                memory = tuple(_memory(path, run, narrowed))
                for (place, gpus), qd, bs, jobs, batch, loop in itertools.product(
                    memory, depths, sizes, jobs_axis, batches, loops
                ):
                    if path.takes(qd=qd, batch=batch, destination=place):
                        yield Point(path, target, medium, workload, place, gpus, bs, qd, jobs, batch, loop)


def _planned(definition: pytest.Item, run: Run, narrowed: Mapping[str, Sequence[Any]]) -> Iterable[Point]:
    """The cells of ``--gpuio-plan`` that the test is about."""
    from pytest_gpuio import datapaths, phases
    from pytest_gpuio.plugin.planned import chosen

    marked = _workload_names(definition)
    named = None if marked is None else [workload.spelling for workload in phases.match(marked)]
    for planned in chosen(run.planned_cells or (), named, narrowed):
        cell = planned.cell
        batch = (cell.submit_batch, cell.reap_batch)
        yield Point(
            datapaths.get(cell.datapath), cell.target, cell.medium, phases.get(cell.workload), cell.destination,
            cell.gpus, cell.bs, cell.qd, cell.jobs, batch, Arrivals.parse(planned.arrivals),
        )  # fmt: skip


def _memory(path: DataPath, run: Run, narrowed: Mapping[str, Sequence[Any]]) -> Iterable[tuple[Destination, int]]:
    """Destinations of a path with their numbers of GPUs; what it cannot reach is never generated."""
    asked = narrowed.get("gpuio_destination") or run.settings.destination or path.destinations[:1]
    for place in asked:
        if place not in DESTINATIONS:
            raise ConfigError(f"parametrized gpuio_destination value {place!r} is none of {', '.join(DESTINATIONS)}.")
        if place not in path.destinations:
            continue
        for gpus in (_numbers("gpuio_gpus", narrowed) or run.settings.gpus) if place == "gpu" else (0,):
            yield place, gpus


def _numbers(axis: str, narrowed: Mapping[str, Sequence[Any]]) -> tuple[int, ...] | None:
    if axis not in narrowed:
        return None
    for number in narrowed[axis]:
        if not isinstance(number, int) or number < 1:
            raise ConfigError(f"parametrized {axis} value {number!r} is not a whole number above zero.")
    return tuple(narrowed[axis])


def _batches(narrowed: Mapping[str, Sequence[Any]]) -> tuple[tuple[int, int], ...] | None:
    if "gpuio_batch" not in narrowed:
        return None
    pairs = []
    for text in narrowed["gpuio_batch"]:
        submit, _, reap = str(text).partition("x")
        if not (submit.isdigit() and reap.isdigit()):
            raise ConfigError(f"parametrized gpuio_batch value {text!r} is not of the form 1x1.")
        pairs.append((int(submit), int(reap)))
    return tuple(pairs)


def _arrivals(narrowed: Mapping[str, Sequence[Any]]) -> tuple[Arrivals, ...] | None:
    if "gpuio_arrivals" not in narrowed:
        return None
    return tuple(Arrivals.parse(str(text)) for text in narrowed["gpuio_arrivals"])


def cache_of(path: DataPath, run: Run) -> Cache:
    """The page-cache mode of a path's cells: what was asked for, else the first that means something for it."""
    return run.settings.cache or path.caches[0]


def _narrowed(definition: pytest.Item) -> dict[str, list[Any]]:
    """Axis values of the suite's own parametrize marks."""
    found: dict[str, list[Any]] = {}
    for mark in definition.iter_markers("parametrize"):
        names = mark.args[0] if mark.args else mark.kwargs.get("argnames", ())
        names = [name.strip() for name in names.split(",")] if isinstance(names, str) else list(names)
        rows = mark.args[1] if len(mark.args) > 1 else mark.kwargs.get("argvalues", ())
        for position, name in enumerate(names):
            if name in AXIS_FIXTURES:
                values = []
                for row in rows:
                    row_values = getattr(row, "values", None)
                    cells = row_values if isinstance(row_values, tuple) else row if len(names) > 1 else (row,)
                    values.append(cells[position])
                found[name] = values
    return found


def identify(point: Point, axes: Sequence[str], shared: frozenset[str], run: Run) -> str:
    """The id of a point: axes in fixed order, joined by '-', no '-' inside a value."""
    parts: list[str] = []
    for axis in axes:
        match axis:
            case "datapath":
                parts.append(point.datapath.name)
            case "medium":
                parts.append(point.medium)
            case "gpuio_target":
                if point.medium in shared:
                    parts.append(point.target)
            case "phase":
                parts.append(point.workload.phase)
            case "gpuio_workload":
                parts.append(point.workload.spelling.partition("/")[2].replace("-", "_"))
                if point.workload.durability != "none":
                    parts.append(point.workload.durability)
            case "gpuio_destination":
                if point.destination != "host":
                    parts.append(point.destination if point.gpus == 1 else f"{point.destination}{point.gpus}")
            case "gpuio_bs":
                parts.append(format_size(point.bs))
            case "gpuio_qd":
                parts.append(f"qd{point.qd}")
            case "gpuio_jobs":
                parts.append(f"j{point.jobs}")
            case "gpuio_batch":
                if point.batch != (1, 1):
                    parts.append(f"b{point.batch[0]}x{point.batch[1]}")
            case "gpuio_arrivals":
                if point.arrivals.kind != "closed":
                    parts.append(point.arrivals.label)
    # Of a suite's own list of data paths each has a mode of its own, which one id cannot tell.
    if "datapath" in axes and cache_of(point.datapath, run) != "direct":
        parts.append(cache_of(point.datapath, run))
    return "-".join(parts)


def generate(metafunc: pytest.Metafunc, run: Run) -> None:
    """One ``parametrize`` call over all axes the suite left to us.

    Raises:
        pytest.Collector.CollectError: a mark or a parametrized value is wrong.
    """
    definition = metafunc.definition
    narrowed = _narrowed(definition)
    axes = [axis for axis in AXIS_FIXTURES if axis not in narrowed]
    media = [medium.name for medium in run.media.values()]
    shared = frozenset(name for name in media if media.count(name) > 1)
    rows: dict[tuple[str | int, ...], str] = {}
    try:
        for point in points(definition, run, narrowed):
            values = point.values()
            rows.setdefault(tuple(values[axis] for axis in axes), identify(point, axes, shared, run))
    except ConfigError as error:
        raise pytest.Collector.CollectError(str(error)) from None
    if not axes:
        return
    if not rows:
        # An empty set would become a skipped item; nothing was asked for, so the item is dropped after collection.
        metafunc.parametrize(axes, [tuple(_EMPTY for _ in axes)], indirect=True, ids=[_EMPTY])
        return
    metafunc.parametrize(axes, list(rows), indirect=True, ids=list(rows.values()))


def cell_of(item: pytest.Item, run: Run) -> Cell | None:
    """The cell of a collected item; None when its combination is impossible or nothing was asked for."""
    from pytest_gpuio import datapaths, phases

    params: Mapping[str, Any] = item.callspec.params  # type: ignore[attr-defined]
    if _EMPTY in map(params.get, AXIS_FIXTURES):
        return None
    workload = phases.get(params["gpuio_workload"])
    if params["phase"] != workload.phase:
        return None
    submit, _, reap = params["gpuio_batch"].partition("x")
    suite = [part for part in (item.cls.__name__ if getattr(item, "cls", None) else "", item.originalname) if part]  # type: ignore[attr-defined]
    return Cell(
        suite=".".join([item.module.__name__.rpartition(".")[2], *suite]),  # type: ignore[attr-defined]
        datapath=params["datapath"],
        medium=params["medium"],
        target=params["gpuio_target"],
        workload=workload.spelling,
        destination=params["gpuio_destination"],
        gpus=params["gpuio_gpus"] if params["gpuio_destination"] == "gpu" else 0,
        bs=params["gpuio_bs"],
        qd=params["gpuio_qd"],
        jobs=params["gpuio_jobs"],
        submit_batch=int(submit),
        reap_batch=int(reap),
        cache=cache_of(datapaths.get(params["datapath"]), run),
        arrivals=Arrivals.parse(params["gpuio_arrivals"]).label,
        durability=workload.durability,
        ranks=run.ranks,
    )


def mark(item: pytest.Item, run: Run) -> None:
    """Give an item its cell and the one ``gpuio(**axes)`` mark."""
    if not hasattr(item, "callspec"):
        return
    cell = cell_of(item, run)
    if cell is not None:
        item.stash[CELL] = cell
        item.add_marker(pytest.mark.gpuio(**cell.axes(), phase=cell.phase))
        if cell.destination == "gpu":
            item.add_marker(pytest.mark.gpu)


def _possible(cell: Cell, run: Run) -> bool:
    from pytest_gpuio import datapaths

    path = datapaths.get(cell.datapath)
    batch = (cell.submit_batch, cell.reap_batch)
    possible = path.takes(qd=cell.qd, batch=batch, destination=cell.destination)
    return possible and cell.medium == run.media[cell.target].name


def filter_items(config: pytest.Config, items: list[pytest.Item], run: Run) -> None:
    """Drop items without a possible cell.

    Raises:
        pytest.UsageError: pytest-benchmark is not there to record into.
    """
    if getattr(config, "_benchmarksession", None) is None or config.getoption("codspeed", False):
        raise pytest.UsageError(
            "pytest-gpuio records through pytest-benchmark, which is switched off here: drop '-p no:benchmark' "
            "(or --codspeed, which replaces it), or deselect the gpuio tests."
        )
    present = {medium.name for medium in run.media.values()}
    kept: list[pytest.Item] = []
    dropped: list[pytest.Item] = []
    absent: set[tuple[str, str]] = set()
    for item in items:
        if "gpuio" not in getattr(item, "fixturenames", ()):
            kept.append(item)
            continue
        cell = item.stash.get(CELL, None)
        wanted = run.settings.cases
        if cell is None or (wanted is not None and cell.case not in wanted):
            dropped.append(item)
        elif _possible(cell, run):
            kept.append(item)
        elif cell.medium not in present and (cell.case, cell.medium) not in absent:
            # The suite asks for a medium by name: that is a fact about this machine, so it is told, once.
            absent.add((cell.case, cell.medium))
            names = ", ".join(f"{name} is {medium.name}" for name, medium in run.media.items())
            item.add_marker(pytest.mark.skip(reason=f"no --gpuio-target lies on {cell.medium} ({names})"))
            kept.append(item)
        else:
            dropped.append(item)
    if dropped:
        config.hook.pytest_deselected(items=dropped)
    items[:] = kept
