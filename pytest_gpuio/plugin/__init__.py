"""The pytest entry point: every hook of the plugin, each delegating to the module that knows."""

from __future__ import annotations

import gc
from collections.abc import Generator
from typing import TYPE_CHECKING, Any

import pytest

from pytest_gpuio import __version__
from pytest_gpuio.plugin import options
from pytest_gpuio.plugin.fixtures import (
    datapath,
    gpuio,
    gpuio_arrivals,
    gpuio_batch,
    gpuio_bs,
    gpuio_destination,
    gpuio_gpus,
    gpuio_jobs,
    gpuio_qd,
    gpuio_target,
    gpuio_workload,
    medium,
    phase,
)
from pytest_gpuio.plugin.state import RUN, run_of

if TYPE_CHECKING:
    from _pytest.terminal import TerminalReporter

__all__ = [
    "datapath",
    "gpuio",
    "gpuio_arrivals",
    "gpuio_batch",
    "gpuio_bs",
    "gpuio_destination",
    "gpuio_gpus",
    "gpuio_jobs",
    "gpuio_qd",
    "gpuio_target",
    "gpuio_workload",
    "medium",
    "phase",
]


def pytest_addhooks(pluginmanager: pytest.PytestPluginManager) -> None:
    """Offer our hooks to third parties."""
    from pytest_gpuio.plugin import hookspecs

    pluginmanager.add_hookspecs(hookspecs)


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add ``--gpuio-*`` and their ini twins."""
    options.add_options(parser)


@pytest.hookimpl(tryfirst=True)
def pytest_configure(config: pytest.Config) -> None:
    """Read the settings and register the marks; first, since pytest-benchmark reads its options when it configures."""
    from pytest_gpuio.plugin.state import Run

    config.addinivalue_line(
        "markers", "workload(*names): workloads a test runs, as phase/name; patterns like micro/* work."
    )
    config.addinivalue_line(
        "markers", "gpuio(**axes): set on every cell, for exact selection: -m \"gpuio(datapath='psync')\"."
    )
    config.addinivalue_line(
        "markers",
        "gpuio_gate(metric=None, min_effect=None, ignore=False): what a regression gate asks of this test, like "
        'metric="p99", min_effect="10%".',
    )
    config.addinivalue_line("markers", "gpu: needs a GPU; set on every cell whose bytes end in GPU memory.")
    config.stash[RUN] = Run(config)
    from pytest_gpuio.plugin.recording import narrow_table

    narrow_table(config)


@pytest.hookimpl(tryfirst=True)
def pytest_cmdline_main(config: pytest.Config) -> int | None:
    """With ``--gpuio-mpi`` all ranks but the first do what that one says, and collect nothing themselves."""
    from pytest_gpuio.plugin.state import Run

    if not options.value(config, "mpi"):
        return None
    run = Run(config)
    if run.wire.rank == 0:
        return None
    run.serve()
    return 0


def pytest_report_header(config: pytest.Config) -> str:
    """One line, in the manner of other plugins."""
    return f"gpuio: {__version__} ({run_of(config).settings.describe()})"


def pytest_sessionstart(session: pytest.Session) -> None:
    """Let third parties register data paths and workloads, then check the names in the options."""
    run = run_of(session.config)
    run.register_extensions()
    if run.settings.gate:
        from pytest_gpuio.plugin import gating

        gating.prepare(session.config)


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    """No garbage collection while items are made: all live on, and looking at each again and again costs a third."""
    paused = gc.isenabled()
    gc.disable()
    try:
        return (yield)
    finally:
        if paused:
            gc.enable()


@pytest.hookimpl(tryfirst=True)
def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Turn a test that asks for ``gpuio`` into one item per cell."""
    if "gpuio" in metafunc.fixturenames:
        from pytest_gpuio.plugin import selection

        selection.generate(metafunc, run_of(metafunc.config))


def pytest_itemcollected(item: pytest.Item) -> None:
    """Put the one mark with all axes on the item."""
    if "gpuio" in getattr(item, "fixturenames", ()):
        from pytest_gpuio.plugin import selection

        selection.mark(item, run_of(item.config))


def _has_cells(items: list[pytest.Item]) -> bool:
    return any("gpuio" in getattr(item, "fixturenames", ()) for item in items)


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Drop impossible pairs that a suite's own parametrize made, and refuse to run without pytest-benchmark."""
    if _has_cells(items):
        from pytest_gpuio.plugin import selection

        selection.filter_items(config, items, run_of(config))


@pytest.hookimpl(wrapper=True)
def pytest_runtestloop(session: pytest.Session) -> Generator[None, object, object]:
    """Garbage collection leaves out what was there before the first cell, items above all: it runs between cells."""
    frozen = _has_cells(session.items)
    if frozen:
        gc.freeze()
    try:
        return (yield)
    finally:
        if frozen:
            gc.unfreeze()


def pytest_report_collectionfinish(config: pytest.Config, items: list[pytest.Item]) -> list[str]:
    """Say what replays of traces will be, before they run."""
    if not _has_cells(items):
        return []
    from pytest_gpuio.plugin import projection

    return projection.lines(items, run_of(config))


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> None:
    """Skip (or fail) what this machine lacks, and attach the window clock, before any fixture is made."""
    if "gpuio" in getattr(item, "fixturenames", ()):
        from pytest_gpuio.plugin import cells

        cells.set_up(item, run_of(item.config))


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[None]
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Remember skips and failures of cells for our own results file."""
    report = yield
    if "gpuio" in getattr(item, "fixturenames", ()):
        from pytest_gpuio.plugin import cells

        cells.note_report(item, call, report, run_of(item.config))
    return report


@pytest.hookimpl(tryfirst=True)
def pytest_report_teststatus(report: Any, config: pytest.Config) -> tuple[str, str, tuple[str, dict[str, bool]]] | None:
    """With ``-v``, a passed cell's line ends in its figures."""
    if report.when == "call" and report.passed and config.get_verbosity() > 0:
        line = dict(report.user_properties).get("gpuio")
        if line:
            return "passed", ".", (f"PASSED {line}", {"green": True})
    return None


@pytest.hookimpl(tryfirst=True)
def pytest_sessionfinish(session: pytest.Session, exitstatus: int) -> None:
    """Write our results file, also when nothing passed or the run was broken off; then judge it, if asked to."""
    run = run_of(session.config)
    run.finish(interrupted=exitstatus == pytest.ExitCode.INTERRUPTED)
    if run.settings.gate:
        from pytest_gpuio.plugin import gating

        gating.judge_session(session, run)


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_terminal_summary(terminalreporter: TerminalReporter, config: pytest.Config) -> Generator[None]:
    """Quieten a table that nobody could read, then add our section after pytest-benchmark's."""
    from pytest_gpuio.plugin import summary

    run = run_of(config)
    summary.quieten(config, run)
    try:
        yield
    finally:
        summary.show(terminalreporter, run)
        if run.settings.gate:
            from pytest_gpuio.plugin import gating

            gating.show(terminalreporter, config)


def pytest_unconfigure(config: pytest.Config) -> None:
    """End the measuring children and give the host's lock back."""
    run = config.stash.get(RUN, None)
    if run is not None:
        run.close()


@pytest.hookimpl(optionalhook=True, tryfirst=True)
def pytest_benchmark_group_stats(
    config: pytest.Config, benchmarks: list[dict[str, Any]], group_by: str
) -> list[tuple[str | None, list[dict[str, Any]]]] | None:
    """Group our rows, and shorten names that repeat their group; None (the default) for tables without such rows."""
    from pytest_gpuio.plugin import recording

    return recording.group_rows(config, benchmarks, group_by)


@pytest.hookimpl(optionalhook=True)
def pytest_benchmark_update_machine_info(config: pytest.Config, machine_info: dict[str, Any]) -> None:
    """Describe what decides storage numbers, and remove what changes from run to run by itself."""
    from pytest_gpuio.plugin import recording

    recording.update_machine_info(machine_info, run_of(config))


@pytest.hookimpl(optionalhook=True)
def pytest_benchmark_update_json(config: pytest.Config, output_json: dict[str, Any]) -> None:
    """Add the top-level ``gpuio`` block: voids, skips, failures, interruption."""
    output_json["gpuio"] = run_of(config).block()
