"""The section at the end of a run: a row per cell, what was void, what was skipped and why."""

from __future__ import annotations

import shutil
from typing import TYPE_CHECKING

from pytest_gpuio.plugin.recording import MANY_ROWS

if TYPE_CHECKING:
    import pytest
    from _pytest.terminal import TerminalReporter

    from pytest_gpuio.plugin.state import Run

_WIDTH = 120


def quieten(config: pytest.Config, run: Run) -> None:
    """Leave pytest-benchmark's table out above :data:`MANY_ROWS` rows; its regression check still runs."""
    benchmarks = getattr(config, "_benchmarksession", None)
    if benchmarks is not None and len(run.records) > MANY_ROWS and not benchmarks.verbose:
        benchmarks.quiet = True


def show(reporter: TerminalReporter, run: Run) -> None:
    """Write the section, if any cell had a fate."""
    if not (run.records or run.voids or run.failures or run.notes):
        return
    from pytest_gpuio.report.deciding import decisions
    from pytest_gpuio.report.scaling import scaling_table
    from pytest_gpuio.report.tables import best_worst, results_table, voids_table

    width = max(shutil.get_terminal_size((_WIDTH, 24)).columns, _WIDTH)
    reporter.section("gpuio", sep="-")
    if run.records:
        told = decisions(run.records, width)
        if told:
            reporter.write_line(told)
        many = len(run.records) > MANY_ROWS
        reporter.write_line(best_worst(run.records, 5, width) if many else results_table(run.records, width))
    scaling = scaling_table(run.records, width)
    if scaling:
        reporter.write_line(scaling)
    if run.voids:
        reporter.write_line(voids_table(run.voids, width))
    for note in run.notes:
        reporter.write_line(f"note: {note}")
    if run.interrupted:
        reporter.write_line("interrupted: cells finished before are kept, the one being measured is not")
    if run.written:
        reporter.write_line(f"results: {run.settings.results}")
