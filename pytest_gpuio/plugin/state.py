"""What one pytest run holds: settings, media, the measuring session, and what became of each cell."""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING, Any

import pytest

from pytest_gpuio.core.errors import ConfigError
from pytest_gpuio.measure import settings as settings_module
from pytest_gpuio.plugin import planned

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence
    from pathlib import Path

    from pytest_gpuio.isolation import HostLock
    from pytest_gpuio.measure.effort import Effort
    from pytest_gpuio.measure.session import Session
    from pytest_gpuio.media import Medium
    from pytest_gpuio.results.journal import Journal
    from pytest_gpuio.results.record import CellRecord
    from pytest_gpuio.results.run_file import Block, Failure, Skip, Void
    from pytest_gpuio.sweep.expand import PlannedCell, Sweep
    from pytest_gpuio.sweep.wire import Wire


class Run:
    """State of one pytest run, in ``config.stash[RUN]``; everything costly is made on first use."""

    def __init__(self, config: pytest.Config) -> None:
        self.config = config
        self._plan = planned.load(config)
        try:
            self.settings = settings_module.read(
                lambda name: planned.option(config, self._plan, name), config.invocation_params.dir
            )
        except ConfigError as error:
            raise pytest.UsageError(str(error)) from None
        self.records: list[CellRecord] = []
        self.voids: list[Void] = []
        self.skips: list[Skip] = []
        self.failures: list[Failure] = []
        self.notes: list[str] = []
        self.interrupted = False
        self.written = False
        self._session: Session | None = None
        self._lock: HostLock | None = None
        self._journal: Journal | None = None
        self._extended = False

    def register_extensions(self) -> None:
        """Call third parties' hooks once, then check names given in options.

        Raises:
            pytest.UsageError: a name is malformed, taken, or unknown.
        """
        from pytest_gpuio import datapaths, phases
        from pytest_gpuio.capabilities import CAPABILITIES

        if self._extended:
            return
        self._extended = True
        try:
            for paths in self.config.hook.pytest_gpuio_register_datapaths(config=self.config):
                for path in paths:
                    datapaths.register(path)
            for workloads in self.config.hook.pytest_gpuio_register_workloads(config=self.config):
                for workload in workloads:
                    phases.register(workload)
            for name in self.settings.datapath or ():
                datapaths.get(name)
            if self.settings.workload:
                phases.match(self.settings.workload)
            models = [w for w in phases.WORKLOADS.values() if isinstance(w, phases.RecordModel)]
            takes = {"scale", *(parameter.name for model in models for parameter in model.all_parameters)}
            unused = sorted(set(self.settings.parameters) - takes)
            if unused:
                raise ConfigError(f"--gpuio-workload-param: no workload has a parameter {', '.join(unused)}.")
        except ConfigError as error:
            raise pytest.UsageError(str(error)) from None
        for name in self.settings.require - {"all"}:
            if name not in CAPABILITIES and name not in datapaths.DATAPATHS:
                known = ", ".join(("all", *CAPABILITIES, *datapaths.DATAPATHS))
                raise pytest.UsageError(
                    f"--gpuio-require: {name!r} is neither a capability nor a data path; known: {known}."
                )
        _ = self.sweep  # a target that is not the plan's is told now

    @cached_property
    def media(self) -> Mapping[str, Medium]:
        """The medium each target lies on."""
        from pytest_gpuio.media import classify

        return {name: classify(path) for name, path in self.settings.targets}

    @cached_property
    def effort(self) -> Effort:
        """The profile after the user's own options."""
        from pytest_gpuio.measure.effort import effort_of

        return effort_of(self.settings) if self.sweep is None else self.sweep.effort

    @cached_property
    def sweep(self) -> Sweep | None:
        """The plan of ``--gpuio-plan`` on this machine's targets."""
        return None if self._plan is None else planned.place(self.config, self._plan, self.settings, self.media)

    @cached_property
    def planned_cells(self) -> Sequence[PlannedCell] | None:
        """The cells of the plan, in its order; None without a plan."""
        return None if self.sweep is None else planned.cells(self.sweep, self.note)

    @property
    def session(self) -> Session:
        """The measuring session; made on first use."""
        if self._session is None:
            if self.settings.mpi:
                from pytest_gpuio.sweep.ranks import RankSession

                targets, asked = dict(self.settings.targets), self.settings
                self._session = RankSession(self.wire, self.effort, targets, asked.lock_timeout)
            else:
                from pytest_gpuio.measure.session import Session

                self._session = Session(self.effort, dict(self.settings.targets), self.media)
        return self._session

    @cached_property
    def wire(self) -> Wire:
        """The other ranks of ``--gpuio-mpi``.

        Raises:
            pytest.UsageError: there is no MPI, or no other rank.
        """
        from pytest_gpuio.core.errors import ConfigError
        from pytest_gpuio.sweep.wire import open_wire

        try:
            return open_wire()
        except ConfigError as error:
            raise pytest.UsageError(str(error)) from None

    @property
    def ranks(self) -> int:
        """Processes that measure each cell."""
        return self.wire.size if self.settings.mpi else 1

    def serve(self) -> None:
        """Measure what rank 0 says, until it is done."""
        from pytest_gpuio.sweep.ranks import serve

        self.register_extensions()
        serve(self.wire)

    def take_lock(self) -> None:
        """Hold the host-wide lock until the run ends.

        Raises:
            Busy: another run holds it for longer than ``--gpuio-lock-timeout``.
        """
        if self._lock is None:
            from pytest_gpuio.isolation import HostLock

            lock = HostLock(self.settings.lock_timeout)
            lock.acquire()
            self._lock = lock

    def drop_lock(self) -> None:
        """Give the host-wide lock back."""
        if self._lock is not None:
            self._lock.release()
            self._lock = None

    def keep(self, record: CellRecord) -> None:
        """Take a finished cell: the whole of it into the journal, then into memory what tables show.

        Raises:
            GpuioError: the journal cannot be written.
        """
        from pytest_gpuio.report.digest import digest

        self._written_journal.append("cell", record)
        self.records.append(digest(record))

    def keep_void(self, void: Void) -> None:
        """Take an impossible result."""
        self._journal_fate("void", void)
        self.voids.append(void)

    def keep_failure(self, failure: Failure) -> None:
        """Take a cell that ended in an error."""
        self._journal_fate("failure", failure)
        self.failures.append(failure)

    def keep_skip(self, skip: Skip) -> None:
        """Take a cell this machine cannot run."""
        # There may be thousands, each decided in microseconds: one sync for all, before the next cell is measured.
        self._journal_fate("skip", skip, sync=False)
        self.skips.append(skip)

    def sync_journal(self) -> None:
        """Wait until all fates so far are on the medium, so that nothing of the journal is written inside a window."""
        if self._journal is not None:
            try:
                self._journal.sync()
            except OSError as error:
                self.note(f"journal {self._journal.path} cannot be synced: {error.strerror}.")

    @property
    def _written_journal(self) -> Journal:
        """The journal; made on first use, with its first line."""
        if self._journal is None:
            from pytest_gpuio.machine import describe
            from pytest_gpuio.results.journal import Journal
            from pytest_gpuio.results.run_file import start

            self._journal = Journal.create_in(self.settings.results.parent, self.settings.results.stem)
            self._journal.append("start", start(machine=describe(), settings=self._settings_values()), sync=False)
        return self._journal

    def _journal_fate(self, kind: str, body: Mapping[str, Any], *, sync: bool = True) -> None:
        from pytest_gpuio.core.errors import GpuioError

        try:
            self._written_journal.append(kind, body, sync=sync)
        except GpuioError as error:
            # The cell's own reason is what the test fails with; the results file at the end still holds it.
            self.note(str(error))

    def note(self, text: str) -> None:
        """Remember a sentence for the summary, once."""
        if text not in self.notes:
            self.notes.append(text)

    def block(self) -> Block:
        """The top-level ``gpuio`` block of pytest-benchmark's JSON."""
        from pytest_gpuio.machine import describe
        from pytest_gpuio.results.run_file import benchmark_block

        return benchmark_block(
            interrupted=self.interrupted,
            machine=describe(),
            voids=self.voids,
            skips=self.skips,
            failures=self.failures,
            settings=self._settings_values(),
        )

    def _settings_values(self) -> dict[str, Any]:
        effort, asked = self.effort, self.settings
        return {
            "profile": effort.profile,
            "size": effort.region_bytes,
            "precision": effort.precision,
            "max_time": effort.max_time,
            "window": effort.window_s,
            "seed": effort.seed,
            "cache": asked.cache or "direct",
            "verify": asked.verify,
            "targets": {name: str(path) for name, path in asked.targets},
        }

    def finish(self, *, interrupted: bool) -> None:
        """Write the results file if any cell had a fate."""
        self.interrupted = self.interrupted or interrupted
        if self._session is not None:
            # Now, and not after the summary, which has to tell how they ended.
            self._session.close()
            for end in self._session.bad_ends:
                self.note(f"{end} What it had measured and checked before stands.")
            self._tell_leftovers(self._session.modelled)
        if not (self.records or self.voids or self.skips or self.failures or (self.interrupted and self._session)):
            return
        from pytest_gpuio.results.run_file import write_cells

        lines = () if self._journal is None else self._journal.lines()
        write_cells(self.settings.results, self.block(), (line.raw for line in lines if line.kind == "cell"))
        self.written = True
        if self._journal is not None:
            # Its purpose was to survive a crash; everything in it is now in the results file, durably.
            self._journal.close()
            self._journal.path.unlink()

    def _tell_leftovers(self, targets: Collection[Path]) -> None:
        """Say what files of models take below the targets that had some, or remove them."""
        from pytest_gpuio.core.errors import TargetError
        from pytest_gpuio.report import numbers
        from pytest_gpuio.targets import leftovers

        for target in targets:
            try:
                if self.settings.clean:
                    models = target / leftovers.MODELS
                    found = [one for one in leftovers.find(target) if models in one.path.parents]
                    gone, size = leftovers.remove(found, target), sum(one.bytes for one in found)
                    self.note(f"{gone:,} files of workload models ({numbers.si(size)}B) were removed from {target}")
                    continue
            except TargetError as error:
                self.note(str(error))
                continue
            size = leftovers.model_bytes(target)
            if not size:
                continue
            self.note(
                f"files of workload models take {numbers.si(size)}B in {target / leftovers.MODELS} and stay for the "
                f"next run: --gpuio-clean, or "
                f"gpuio clean {target} --models-only, removes them"
            )

    def close(self) -> None:
        """End the children and release the lock."""
        if self._session is not None:
            self._session.close()
            self._session = None
        if "wire" in self.__dict__ and self.wire.rank == 0:
            from pytest_gpuio.sweep.ranks import dismiss

            dismiss(self.wire)
            del self.__dict__["wire"]
        self.drop_lock()


RUN = pytest.StashKey[Run]()


def run_of(config: pytest.Config) -> Run:
    """The run's state."""
    return config.stash[RUN]
