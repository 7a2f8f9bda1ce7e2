"""One cell inside pytest: what is missing, measuring it, and what becomes of it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import pytest

from pytest_gpuio.core.errors import Busy, CapabilityMissing, ConfigError, GpuioError
from pytest_gpuio.plugin import recording
from pytest_gpuio.plugin.live import LiveLine
from pytest_gpuio.plugin.selection import CELL

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pytest_gpuio.core.cell import Cell
    from pytest_gpuio.plugin.state import Run
    from pytest_gpuio.results.record import CellRecord

_FATE: Final = pytest.StashKey[bool]()


def set_up(item: pytest.Item, run: Run) -> None:
    """Skip the item (fail under ``--gpuio-require``) when the machine lacks something; attach the window clock."""
    from pytest_gpuio import datapaths

    cell = item.stash.get(CELL, None)
    if cell is None or item.get_closest_marker("skip") is not None:
        return
    path = datapaths.get(cell.datapath)
    _check_gate_mark(item)
    try:
        reason = run.session.missing(cell, path)
    except GpuioError as error:
        raise pytest.fail.Exception(str(error), pytrace=False) from None
    if reason is not None:
        required = run.settings.require & {"all", cell.datapath, reason.removeprefix("needs ").partition(":")[0]}
        if required:
            pytest.fail(f"--gpuio-require={','.join(sorted(required))}: {reason}", pytrace=False)
        # A mark, not pytest.skip(): -rs then shows the test's own file and folds equal reasons.
        item.add_marker(pytest.mark.skip(reason=reason))
        return
    recording.attach_clock(item, group=recording.group_label(cell.axes()))


def _check_gate_mark(item: pytest.Item) -> None:
    """Fail an item whose mark no gate could read, before anything is measured."""
    own = item.get_closest_marker("gpuio_gate")
    if own is None:
        return
    from pytest_gpuio.analysis.policy import from_mark

    try:
        if own.args:
            raise ConfigError("gpuio_gate takes keywords only: metric=, min_effect=, ignore=.")
        from_mark(own.kwargs)
    except ConfigError as error:
        raise pytest.fail.Exception(str(error), pytrace=False) from None


def note_report(item: pytest.Item, call: pytest.CallInfo[None], report: pytest.TestReport, run: Run) -> None:
    """Remember skips and failures that did not come from :meth:`CellHandle.run`."""
    if call.when == "call":
        recording.hush(item)
    cell = item.stash.get(CELL, None)
    if cell is None or item.stash.get(_FATE, False):
        return
    if report.skipped:
        reason = report.longrepr[2] if isinstance(report.longrepr, tuple) else str(report.longrepr)
        run.keep_skip({"nodeid": item.nodeid, "case": cell.case, "reason": reason.removeprefix("Skipped: ")})
        item.stash[_FATE] = True
    elif report.failed:
        reason = str(call.excinfo.value) if call.excinfo else report.longreprtext
        run.keep_failure({"nodeid": item.nodeid, "case": cell.case, "reason": reason})
        item.stash[_FATE] = True


class CellHandle:
    """What the ``gpuio`` fixture gives to a test."""

    def __init__(self, run: Run, item: pytest.Item, cell: Cell, arrivals: str, benchmark: Any) -> None:
        self._run = run
        self._item = item
        self._benchmark = recording.check_fixture(benchmark)
        self._arrivals = arrivals
        self._used = False
        #: The cell of this test.
        self.cell = cell

    def run(self) -> CellRecord | None:
        """Measure the cell, judge it, record it.

        Returns:
            The record (schema version 1), or None for a smoke run (``--benchmark-disable``, xdist).

        Fails the test when the result is impossible (the gate is named), when the geometry is, or when the child died;
        skips it when the file system turns out to lack something.
        """
        if self._used:
            pytest.fail("gpuio.run() measures one cell: call it once per test.", pytrace=False)
        self._used = True
        try:
            if self._benchmark.disabled:
                self._smoke()
                return None
            return self._measure()
        except CapabilityMissing as error:
            recording.nothing_to_record(self._item)
            pytest.skip(str(error))
        except GpuioError as error:
            recording.nothing_to_record(self._item)
            # From None: else the report shows the sentence twice, the second time as "another exception".
            raise pytest.fail.Exception(str(error), pytrace=False) from None
        except KeyboardInterrupt:
            recording.nothing_to_record(self._item)
            self._run.interrupted = True
            raise

    def _smoke(self) -> None:
        from pytest_gpuio import datapaths, phases
        from pytest_gpuio.measure.prepare import Subject

        # xdist runs several processes, and they share the target's files.
        self._run.take_lock()
        try:
            subject = Subject(self.cell, datapaths.get(self.cell.datapath), phases.get(self.cell.workload))
            ios = self._run.session.smoke(subject, self._note_overwriting)
        finally:
            self._run.drop_lock()
        recording.smoke(self._benchmark, ios)

    def _note_overwriting(self, values: Mapping[str, Any]) -> None:
        """What was on a device that a target took over stands in the summary, whoever watched."""
        if values["stage"] == "overwrite":
            self._run.note(values["text"])

    def _measure(self) -> CellRecord:
        from pytest_gpuio import datapaths, phases
        from pytest_gpuio.measure.prepare import Subject
        from pytest_gpuio.measure.session import VoidCell
        from pytest_gpuio.phases.arrivals import Arrivals
        from pytest_gpuio.report.tables import cell_line
        from pytest_gpuio.results.record import failed_gates

        run, cell = self._run, self.cell
        try:
            run.take_lock()
        except Busy as error:
            pytest.exit(str(error), returncode=pytest.ExitCode.USAGE_ERROR)
        with LiveLine(self._item.config) as live:

            def show(values: Mapping[str, Any]) -> None:
                self._note_overwriting(values)
                live.show(values)

            try:
                subject = Subject(
                    cell, datapaths.get(cell.datapath), phases.get(cell.workload), Arrivals.parse(self._arrivals)
                )
                run.sync_journal()
                record = run.session.measure(subject, show)
                own = self._item.get_closest_marker("gpuio_gate")
                if own is not None:
                    record["gate_policy"] = dict(own.kwargs)
            except VoidCell as error:
                run.keep_void(
                    {
                        "case": cell.case,
                        "axes": dict(cell.axes()),
                        "gate": error.gate,
                        "reason": str(error),
                        "evidence": list(error.evidence),
                    }
                )
                self._item.stash[_FATE] = True
                raise
        run.keep(record)
        recording.replay(self._benchmark, self._item.stash[recording.CLOCK], record)
        recording.drop_rows(self._item.config, len(run.records))
        self._item.user_properties.append(("gpuio", cell_line(record)))
        if run.settings.strict:
            shaky = failed_gates(record, "unsettled")
            if shaky:
                pytest.fail(
                    "--gpuio-strict: " + "; ".join(f"{gate['gate']}: {gate['detail']}" for gate in shaky), pytrace=False
                )
        return record
