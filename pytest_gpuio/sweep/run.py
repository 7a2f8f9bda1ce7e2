"""The runner: measures a plan's cells one after the other and journals each before the next begins."""

from __future__ import annotations

import contextlib
import gc
import os
import subprocess
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final, Literal, Protocol

from pytest_gpuio import datapaths, phases
from pytest_gpuio.core.cell import Cell
from pytest_gpuio.core.errors import CapabilityMissing, ConfigError, GpuioError, RankLost, TargetError
from pytest_gpuio.isolation import HostLock
from pytest_gpuio.measure.effort import Effort
from pytest_gpuio.measure.prepare import Subject
from pytest_gpuio.measure.session import Session, VoidCell
from pytest_gpuio.measure.surroundings import temperatures
from pytest_gpuio.media import Medium
from pytest_gpuio.phases.arrivals import Arrivals
from pytest_gpuio.results.record import CellRecord
from pytest_gpuio.sweep.expand import SUITE, PlannedCell, Sweep, expand
from pytest_gpuio.sweep.identity import changes, identity, key_of, series_of
from pytest_gpuio.sweep.journal import EndReason, SweepJournal
from pytest_gpuio.sweep.order import Step, arrange, steps
from pytest_gpuio.sweep.plan import Environment
from pytest_gpuio.sweep.ranks import RankSession
from pytest_gpuio.sweep.stop import Stop
from pytest_gpuio.sweep.wire import Wire

Fate = Literal["cell", "void", "failure", "skip"]

#: Cells of one target that fail in a row for the target's own sake, before its others are left for a later run.
_PATIENCE: Final = 3
#: Seconds an environment's command may take.
_COMMAND_S: Final = 300.0
#: A precondition is measured for its time, whatever its precision.
_NEVER: Final = 1e-12


@dataclass(slots=True)
class Tally:
    """Where a sweep stands.

    Attributes:
        cells: of the plan (or this part of it). measured: those that have a record, earlier runs' among them.
        voids, failures: cells that were tried as often as the plan allows. skipped: cells this machine cannot measure.
        left: cells to come. new: measured by this run.
    """

    cells: int = 0
    measured: int = 0
    voids: int = 0
    failures: int = 0
    skipped: int = 0
    left: int = 0
    new: int = 0


class Progress(Protocol):
    """What is told while a sweep runs; nothing of it happens inside a window."""

    def begin(self, name: str, tally: Tally) -> None:
        """The first cell is about to be measured."""

    def measuring(self, step: Step, tally: Tally) -> None:
        """A step begins."""

    def finished(self, step: Step, fate: Fate, text: str, record: CellRecord | None, tally: Tally) -> None:
        """A step has ended; ``text`` is the reason where there is no record."""

    def say(self, text: str) -> None:
        """Something worth a line."""

    def end(self, reason: EndReason, tally: Tally) -> None:
        """No more cells."""


class Runner:
    """One run of a sweep.

    Args:
        sweep: the plan on this machine.
        media: of each target that has a path.
        journal: open.
        progress: is told everything.
        stop: says when somebody wants it to end.
        cells: a part of the plan's; None = all.
        part: what the journal shall say of such a part, see :meth:`~pytest_gpuio.sweep.shards.Shard.describe`.
        wire: to other ranks, on all of which each cell is measured; None = here alone.
    """

    def __init__(
        self,
        sweep: Sweep,
        media: Mapping[str, Medium],
        journal: SweepJournal,
        progress: Progress,
        stop: Stop,
        cells: Sequence[PlannedCell] | None = None,
        part: Mapping[str, Any] | None = None,
        wire: Wire | None = None,
    ) -> None:
        self._sweep, self._media, self._journal = sweep, media, journal
        self._progress, self._stop = progress, stop
        self._cells = list(expand(sweep)) if cells is None else list(cells)
        self._part, self._wire = part, wire
        self._identity = identity(sweep, media) | ({} if wire is None else {"ranks": wire.size})
        self.series = series_of(self._identity)
        self._sessions: dict[str, Session] = {}
        self._prepared: str | None = None
        self._broken: dict[str, int] = {}
        #: Windows of the next cell; None = as the effort says.
        self._windows: int | None = None
        self.tally = Tally(cells=len(self._cells))

    def run(self) -> EndReason:
        """Measures what is left.

        Raises:
            ConfigError: the plan has no cell here.
            Busy: another run holds the host's lock.
            GpuioError: the journal cannot be written: what was measured before is in it.
            KeyboardInterrupt: stopped at once.
        """
        if not self._cells:
            raise ConfigError(f"plan {self._sweep.plan.name} has no cell here: see `gpuio sweep plan`.")
        pending = self._pending()
        reason: EndReason = "error"
        with HostLock(self._sweep.settings.lock_timeout), contextlib.ExitStack() as stack:
            stack.callback(self._close)
            # What is there now stays: looking at it for garbage would cost each cell milliseconds.
            gc.freeze()
            stack.callback(gc.unfreeze)
            self._begin()
            self._progress.begin(self._sweep.plan.name, self.tally)
            try:
                reason = self._all(pending)
                self._journal.end(reason)
            except KeyboardInterrupt:
                reason = "interrupted"
                with contextlib.suppress(GpuioError):
                    self._journal.end(reason)
                raise
            finally:
                self._progress.end(reason, self.tally)
        return reason

    def _pending(self) -> list[PlannedCell]:
        """The cells without a fate, in their order; counts those that have one."""
        plan, state, tally = self._sweep.plan, self._journal.state, self.tally
        found = []
        for planned in arrange(self._cells, seed=plan.seed, block=plan.block):
            key = self._key(planned)
            if key in state.finished:
                tally.measured += 1
            elif (kind := self._given_up(key)) is not None:
                self._count(kind)
            else:
                found.append(planned)
        tally.left = len(found)
        return found

    def _begin(self) -> None:
        state, plan, tally = self._journal.state, self._sweep.plan, self.tally
        if self._journal.repaired:
            self._progress.say("the journal's last line was cut off and taken away: its cell is measured again")
        if state.series is not None and state.series != self.series:
            self._progress.say("new series, all cells are measured again: " + "; ".join(
                changes(state.identity, self._identity)))  # fmt: skip
        started = {
            "name": plan.name,
            "text": plan.text,
            "cells": tally.cells,
            "left": tally.left,
            "measured": tally.measured,
            **({} if self._part is None else {"shard": dict(self._part)}),
            "targets": {name: str(path) for name, path in self._sweep.targets.items()},
        }
        self._journal.start(self.series, self._identity, started)

    def _all(self, pending: Sequence[PlannedCell]) -> EndReason:
        wanted: Sequence[PlannedCell] = pending
        while wanted:
            for step in steps(wanted, self._sweep.plan):
                if self._stop.asked:
                    return "stopped"
                self._step(step)
            # What was void or failed is tried again at the end, when whatever disturbed it may have passed.
            wanted = [planned for planned in wanted if self._again(planned)]
            self.tally.left = len(wanted)
        return "complete"

    def _again(self, planned: PlannedCell) -> bool:
        key = self._key(planned)
        if key not in self._journal.state.attempts or self._broken.get(planned.cell.target, 0) >= _PATIENCE:
            return False
        return self._given_up(key) is None

    def _given_up(self, key: str) -> Literal["void", "failure"] | None:
        """The kind of fate that is final, since it was met more often than the plan tries again."""
        tried = self._journal.state.attempts.get(key, {})
        for kind in ("void", "failure"):
            if tried.get(kind, 0) > self._sweep.plan.retries[kind]:
                return "void" if kind == "void" else "failure"
        return None

    def _key(self, planned: PlannedCell) -> str:
        return key_of(self.series, planned, self._environment(planned))

    def _environment(self, planned: PlannedCell) -> Environment:
        return self._sweep.plan.environments[planned.environment]

    def _count(self, kind: Fate) -> None:
        match kind:
            case "void":
                self.tally.voids += 1
            case "failure":
                self.tally.failures += 1
            case "skip":
                self.tally.skipped += 1
            case "cell":
                self.tally.measured += 1
                self.tally.new += 1

    def _step(self, step: Step) -> None:
        if step.kind == "precondition":
            self._precondition(step)
            return
        cell = step.planned.cell
        key = self._key(step.planned)
        is_cell = step.kind == "cell"
        if cell.target not in self._sweep.targets:
            if is_cell:
                text = f"target {cell.target} has no path: give --gpuio-target {cell.target}=PATH"
                self._skipped(step, key, text)
            return
        if self._broken.get(cell.target, 0) >= _PATIENCE:
            return
        session = self._session(step.planned)
        try:
            reason = session.missing(cell, datapaths.get(cell.datapath))
        except GpuioError as error:
            self._not_measured(step, key, "failure", str(error), error)
            return
        if reason is not None:
            if is_cell:
                self._skipped(step, key, reason)
            return
        self._cool_down(cell.target)
        self._journal.sync()
        self._progress.measuring(step, self.tally)
        try:
            record = self._measure(step.planned)
        except VoidCell as error:
            self._not_measured(step, key, "void", str(error), error)
        except (CapabilityMissing, ConfigError) as error:
            if is_cell:
                self._skipped(step, key, str(error))
        except RankLost:
            raise
        except GpuioError as error:
            self._not_measured(step, key, "failure", str(error), error)
        else:
            self._broken.pop(cell.target, None)
            if is_cell:
                self._kept(step, key, record)
            else:
                self._journal.between("baseline", record)
            self._progress.finished(step, "cell", "", record, self.tally)

    def _kept(self, step: Step, key: str, record: CellRecord) -> None:  # noqa: ARG002 - for runners that look at it
        """A cell was measured."""
        self._journal.cell(key, record)
        self._count("cell")
        self.tally.left -= 1

    def _not_measured(
        self, step: Step, key: str, kind: Literal["void", "failure"], text: str, error: GpuioError
    ) -> None:
        cell = step.planned.cell
        if step.kind == "cell":
            if isinstance(error, VoidCell):
                axes, evidence = dict(cell.axes()), list(error.evidence)
                self._journal.void(
                    key, {"case": cell.case, "axes": axes, "gate": error.gate, "reason": text, "evidence": evidence}
                )
            else:
                self._journal.failure(key, {"nodeid": cell.case, "case": cell.case, "reason": text})
            if self._given_up(key) is not None:
                self._count(kind)
            self.tally.left -= 1
        if isinstance(error, TargetError):
            self._broken[cell.target] = self._broken.get(cell.target, 0) + 1
            if self._broken[cell.target] == _PATIENCE:
                self._progress.say(f"target {cell.target} is left alone for the rest of this run: {text}")
        self._progress.finished(step, kind, text, None, self.tally)

    def _skipped(self, step: Step, key: str, reason: str) -> None:
        cell = step.planned.cell
        self._journal.skip(key, {"nodeid": cell.case, "case": cell.case, "reason": reason})
        self._count("skip")
        self.tally.left -= 1
        self._progress.finished(step, "skip", reason, None, self.tally)

    def _measure(self, planned: PlannedCell) -> CellRecord:
        cell = planned.cell
        subject = Subject(
            cell, datapaths.get(cell.datapath), phases.get(cell.workload), Arrivals.parse(planned.arrivals),
            self._windows,
        )  # fmt: skip
        return self._session(planned).measure(subject, self._note)

    def _note(self, values: Mapping[str, Any]) -> None:
        if values.get("stage") == "overwrite":
            self._progress.say(str(values["text"]))

    def _session(self, planned: PlannedCell) -> Session:
        environment = self._environment(planned)
        if environment.before is not None and self._prepared != environment.name:
            _run_command(environment)
        self._prepared = environment.name
        if environment.name not in self._sessions:
            self._sessions[environment.name] = self._new_session(self._sweep.effort, environment)
        return self._sessions[environment.name]

    def _new_session(self, effort: Effort, environment: Environment) -> Session:
        if self._wire is not None:
            patience = self._sweep.settings.lock_timeout
            return RankSession(self._wire, effort, self._sweep.targets, patience, environment.variables)
        return Session(effort, self._sweep.targets, self._media, environment.variables)

    def _precondition(self, step: Step) -> None:
        """Brings a target into the state in which writes are measured, and records how."""
        wanted, target = self._sweep.plan.precondition, step.planned.cell.target
        if wanted is None or target not in self._sweep.targets:
            return
        effort = replace(
            self._sweep.effort, max_time=wanted.seconds, windows=None, warm_up_s=None, precision=_NEVER, window_s=0.5
        )
        workload = phases.get(wanted.workload)
        self._progress.say(f"target {target}: {wanted.workload} for {wanted.seconds:g} s before its first write")
        with self._new_session(effort, self._environment(step.planned)) as session:
            lacks = session.missing(_state_cell(step, "libaio", workload), datapaths.get("libaio"))
            name = "libaio" if lacks is None else "psync"
            cell = _state_cell(step, name, workload)
            try:
                self._journal.between(
                    "precondition", session.measure(Subject(cell, datapaths.get(name), workload), self._note)
                )
            except (VoidCell, CapabilityMissing, TargetError) as error:
                self._progress.say(f"target {target} was not brought into a state: {error}")

    def _cool_down(self, target: str) -> None:
        wanted, medium = self._sweep.plan.cool_down, self._media.get(target)
        if wanted is None or medium is None:
            return
        names = [device.name for device in medium.devices]
        degrees = max(temperatures(names)[0].values(), default=0.0)
        if degrees <= wanted.above:
            return
        began, first = time.monotonic(), degrees
        self._progress.say(f"target {target} is at {degrees:.0f} degrees C and rests until it is at {wanted.below:g}")
        while degrees > wanted.below and not self._stop.asked and time.monotonic() - began < wanted.longest_s:
            time.sleep(1.0)
            degrees = max(temperatures(names)[0].values(), default=0.0)
        self._journal.rest(target, before=first, after=degrees, seconds=time.monotonic() - began)

    def _close(self) -> None:
        with contextlib.ExitStack() as stack:
            for session in self._sessions.values():
                stack.callback(session.close)
        for session in self._sessions.values():
            for end in session.bad_ends:
                self._progress.say(end)


def _state_cell(step: Step, datapath: str, workload: phases.AnyWorkload) -> Cell:
    cell, path = step.planned.cell, datapaths.get(datapath)
    return Cell(
        f"{SUITE}.precondition", datapath, cell.medium, cell.target, workload.name, workload.bs,
        1 if path.synchronous else workload.qd, 1, durability=getattr(workload, "durability", "none"),
    )  # fmt: skip


def _run_command(environment: Environment) -> None:
    try:
        done = subprocess.run(
            ["/bin/sh", "-c", environment.before or ""], capture_output=True, text=True, check=False,
            timeout=_COMMAND_S, env={**os.environ, **environment.variables}, stdin=subprocess.DEVNULL,
        )  # fmt: skip
    except subprocess.TimeoutExpired:
        raise ConfigError(f"environment {environment.name}: its command took longer than {_COMMAND_S:g} s.") from None
    if done.returncode:
        raise ConfigError(
            f"environment {environment.name}: {environment.before!r} ended with status {done.returncode}: "
            f"{done.stderr.strip()}"
        )
