"""What a sweep will take, told before anything runs: hours, and bytes written to each target."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Final

from pytest_gpuio import datapaths, phases
from pytest_gpuio.core.cell import Cell
from pytest_gpuio.measure.effort import Effort
from pytest_gpuio.measure.plan import LEAST_DEPTHS
from pytest_gpuio.sweep.expand import PlannedCell, Sweep

#: Bytes/s and seconds of one small request that are assumed of a medium nothing was measured on yet: ordinary devices.
ASSUMED: Final[Mapping[str, tuple[float, float]]] = {
    "ram": (8e9, 3e-6),
    "null_blk": (8e9, 5e-6),
    "pmem": (6e9, 3e-6),
    "nvme_optane": (2.5e9, 12e-6),
    "nvme_ssd": (3e9, 80e-6),
    "nvmeof": (2e9, 150e-6),
    "sata_ssd": (5e8, 120e-6),
    "network_fs": (1e9, 500e-6),
    "virtual": (1e9, 150e-6),
    "unknown": (1e9, 150e-6),
    "hdd": (1.5e8, 8e-3),
}
#: Seconds between the windows of two cells: files and rings opened, data checked, the journal synced.
OVERHEAD_S: Final = 0.03
#: Windows of a cell that stops when its mean is known well enough, as a rule.
_USUAL_WINDOWS: Final = 6


@dataclass(slots=True)
class Estimate:
    """A forecast.

    Attributes:
        cells: number. seconds: of all of it.
        written: bytes that cells write, by target. laid_out: bytes of files laid out before, by target.
        by_path: cells by data path. by_target: cells by target.
    """

    cells: int = 0
    seconds: float = 0.0
    written: dict[str, float] = field(default_factory=dict)
    laid_out: dict[str, float] = field(default_factory=dict)
    by_path: dict[str, int] = field(default_factory=dict)
    by_target: dict[str, int] = field(default_factory=dict)


def estimate(sweep: Sweep, cells: Iterable[PlannedCell]) -> Estimate:
    """Time and bytes of cells, from the class of each medium; see :data:`ASSUMED`."""
    found, effort, plan = Estimate(), sweep.effort, sweep.plan
    files: set[tuple[str, bool]] = set()
    for planned in cells:
        cell = planned.cell
        found.cells += 1
        found.by_path[cell.datapath] = found.by_path.get(cell.datapath, 0) + 1
        found.by_target[cell.target] = found.by_target.get(cell.target, 0) + 1
        seconds, written = cell_cost(cell, effort)
        found.seconds += seconds + OVERHEAD_S
        found.written[cell.target] = found.written.get(cell.target, 0.0) + written
        if datapaths.get(cell.datapath).moves_data:
            files.add((cell.target, written > 0))
    for target, _ in files:
        found.laid_out[target] = found.laid_out.get(target, 0.0) + effort.region_bytes
        found.seconds += effort.region_bytes / ASSUMED[sweep.media[target]][0]
    if plan.baseline is not None and found.cells:
        repeats = found.cells // plan.baseline.every + 2 * len(found.by_target)
        found.seconds += repeats * (measured_seconds(effort) + OVERHEAD_S)
    if plan.precondition is not None:
        writing = [target for target, is_write in files if is_write]
        found.seconds += plan.precondition.seconds * len(writing)
        for target in writing:
            found.written[target] += plan.precondition.seconds * ASSUMED[sweep.media[target]][0]
    return found


def measured_seconds(effort: Effort) -> float:
    """Seconds of warm-up and windows of a cell whose windows are as long as asked."""
    if effort.windows is not None:
        return effort.windows * effort.window_s + (effort.warm_up_s or effort.window_s)
    return min(effort.max_time, _USUAL_WINDOWS * effort.window_s) + 3 * effort.window_s


def cell_cost(cell: Cell, effort: Effort) -> tuple[float, float]:
    """Seconds of warm-up and windows, and bytes written meanwhile."""
    path, workload = datapaths.get(cell.datapath), phases.get(cell.workload)
    seconds = measured_seconds(effort)
    if not path.moves_data:
        return seconds, 0.0
    most, latency = ASSUMED[cell.medium]
    in_flight = cell.qd * cell.workers
    rate = min(most, in_flight * cell.bs / latency)
    if not isinstance(workload, phases.Workload):
        # A model's bytes are known only when its records are made; it may take all the time it is given.
        seconds = max(seconds, effort.max_time)
        return seconds, seconds * rate / 2 if workload.writes else 0.0
    window = max(LEAST_DEPTHS * in_flight * cell.bs, effort.region_bytes if workload.round == "region" else 0) / rate
    seconds *= max(window / effort.window_s, 1.0)
    return seconds, seconds * rate * (100 - workload.read_percent) / 100
