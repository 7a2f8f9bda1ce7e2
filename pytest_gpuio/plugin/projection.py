"""What replays of traces will be, told after collection and before anything is run."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING

from pytest_gpuio.core.errors import GpuioError
from pytest_gpuio.plugin.selection import CELL

if TYPE_CHECKING:
    from collections.abc import Sequence

    import pytest

    from pytest_gpuio.phases import RecordModel
    from pytest_gpuio.plugin.state import Run


def lines(items: Sequence[pytest.Item], run: Run) -> list[str]:
    """One line for each trace that is replayed; what is wrong with a trace is said by its own test."""
    cells = (item.stash.get(CELL, None) for item in items if not any(item.iter_markers("skip")))
    spellings = dict.fromkeys(cell.workload for cell in cells if cell is not None)
    if not spellings:
        return []
    from pytest_gpuio import phases

    found = []
    for spelling in spellings:
        workload = phases.get(spelling)
        if isinstance(workload, phases.RecordModel) and workload.by_name:
            found += _line(workload, run)
    return found


def _line(model: RecordModel, run: Run) -> list[str]:
    from pytest_gpuio.measure.records import project
    from pytest_gpuio.report.trace import projection_text

    try:
        return [projection_text(model.spelling, asdict(project(model, run.effort.max_time)))]
    except GpuioError:
        return []
