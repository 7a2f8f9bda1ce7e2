"""Series of a case's metric over runs, with their change points."""

from __future__ import annotations

import math
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from pytest_gpuio.analysis.metrics import Metric
from pytest_gpuio.analysis.policy import MIN_EFFECT
from pytest_gpuio.core.drift import ChangePoint, change_points
from pytest_gpuio.results.runs import RunFile


@dataclass(frozen=True, slots=True)
class Series:
    """One case on one machine.

    Attributes:
        machine: fingerprint id. case: of the cell. record: of its newest run.
        times, paths, values: of each run, oldest first; a run without the metric is left out.
        changes: steps of the level; at least twelve runs are needed to see one.
    """

    machine: str
    case: str
    record: Mapping[str, Any]
    times: tuple[datetime, ...]
    paths: tuple[str, ...]
    values: tuple[float, ...]
    changes: tuple[ChangePoint, ...]


def series(runs: Sequence[RunFile], metric: Metric) -> list[Series]:
    """Every case's series, by machine; the longest first.

    Args:
        runs: oldest first.
        metric: the figure, one per run: the median of its windows.
    """
    found: dict[tuple[str, str], list[tuple[RunFile, Mapping[str, Any], float]]] = {}
    for run in runs:
        for case, record in run.cells.items():
            logs = metric.logs(record)
            if logs:
                value = math.exp(statistics.median(logs))
                found.setdefault((run.machine_id, case), []).append((run, record, value))
    result = []
    for (machine, case), points in found.items():
        values = tuple(value for _, _, value in points)
        result.append(
            Series(
                machine,
                case,
                points[-1][1],
                tuple(run.created for run, _, _ in points),
                tuple(run.path for run, _, _ in points),
                values,
                change_points(values, least=MIN_EFFECT),
            )
        )
    return sorted(result, key=lambda one: (-len(one.values), one.case))
