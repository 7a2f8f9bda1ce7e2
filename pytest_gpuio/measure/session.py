"""Parent side: measures the cells of a run one after another, on its children and targets, and judges them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from types import TracebackType
from typing import Final, Self

from pytest_gpuio.core.cell import Cell
from pytest_gpuio.core.errors import CellVoid, ChildDied, EngineError
from pytest_gpuio.datapaths import DataPath
from pytest_gpuio.isolation import Children
from pytest_gpuio.machine import hypervisor, numa_nodes
from pytest_gpuio.measure import gates
from pytest_gpuio.measure.assemble import Context, cpu_seconds, evidence, record
from pytest_gpuio.measure.availability import Availability
from pytest_gpuio.measure.completion import replayed
from pytest_gpuio.measure.effort import Effort
from pytest_gpuio.measure.families import CHILD_MODULE, Progress, ask, child_family, family_env
from pytest_gpuio.measure.layouts import Layouts
from pytest_gpuio.measure.pace import Pacer
from pytest_gpuio.measure.plan import Plan
from pytest_gpuio.measure.prepare import Subject, make_plan
from pytest_gpuio.measure.records import Exchange
from pytest_gpuio.measure.totals import sum_up
from pytest_gpuio.media import Medium
from pytest_gpuio.phases import RecordModel, Workload
from pytest_gpuio.phases.arrivals import Arrivals
from pytest_gpuio.results.record import CellRecord, Replayed

#: Seconds a child may need to start, open files and rings, and pool its buffers, beyond its windows.
_SETUP_S = 60.0
#: A smoke run needs a target, not a large one.
_SMOKE_BYTES = 64 << 20
_SMOKE_GROUPS: Final = 4
#: Families of data paths that need the kernel only: there is hardly a machine that skips their cells.
_OF_KERNEL: Final = ("posix", "io_uring")


@dataclass(frozen=True, slots=True)
class Observation:
    """A measured cell that no gate voided, before its record is made; ``replayed`` is a model's."""

    context: Context
    seen: gates.Observed
    gates: tuple[gates.GateResult, ...]
    replayed: Replayed | None = None


class VoidCell(CellVoid):
    """A void with what every gate found, in sentences."""

    def __init__(self, gate: str, message: str, evidence: Sequence[str]) -> None:
        super().__init__(gate, message)
        self.evidence = tuple(evidence)


class Session:
    """Everything measured cells share; closes its children at the end.

    Args:
        effort: size, precision and time of every cell.
        media: the medium of each target name.
        targets: the path of each target name.
        env: variables that measuring children are started with.
    """

    def __init__(
        self,
        effort: Effort,
        targets: Mapping[str, Path],
        media: Mapping[str, Medium],
        env: Mapping[str, str] | None = None,
    ) -> None:
        self._effort = effort
        self._targets = targets
        self._media = media
        self._children = Children(CHILD_MODULE, env=env, env_of=family_env)
        self._layouts = Layouts(self._children, targets, media)
        #: What cells lack.
        self.available = Availability(self._children, effort, targets, media)
        self._virtual = hypervisor(Path("/")) is not None
        #: NUMA nodes of the CPUs of a plan.
        self._nodes: dict[tuple[int, ...], tuple[int, ...]] = {}
        #: Makes what keeps a cell's windows in step with other ranks; None = there are none.
        self.pacer_of: Callable[[Plan], Pacer] | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """End every child; bounded."""
        self._children.close_all()

    @property
    def modelled(self) -> Sequence[Path]:
        """Targets below which files of models were laid out or found."""
        return self._layouts.modelled

    @property
    def bad_ends(self) -> Sequence[str]:
        """Sentences about children that crashed or hung when they were asked to end, after all they had measured."""
        return self._children.bad_ends

    def missing(self, cell: Cell, path: DataPath) -> str | None:
        """The first capability the cell lacks as ``needs NAME: sentence``, or None."""
        self._start_ahead(cell, path)
        return self.available.missing(cell, path)

    def _start_ahead(self, cell: Cell, path: DataPath) -> None:
        """Has the children start that a cell of the kernel's own paths needs, while its capabilities are probed."""
        if cell.destination != "host" or path.family not in _OF_KERNEL:
            return
        with suppress(ChildDied):  # whoever asks it next is told
            if path.moves_data and self._layouts.empty:
                self._children.get("layout")
            self._children.get(path.family)

    def measure(self, subject: Subject, progress: Progress) -> CellRecord:
        """Measure a cell and judge it.

        Raises:
            VoidCell: the result is impossible; it carries the record.
            ConfigError: the geometry is impossible. TargetError: the target cannot be used.
            CapabilityMissing: found only when the file was opened.
            ChildDied: the child crashed or hung. EngineError: the engine refused or broke.
            KeyboardInterrupt: the user stopped it; the child was told.
        """
        return self.record(self.observe(subject, progress))

    def record(self, found: Observation) -> CellRecord:
        """The record of a judged observation."""
        return record(found.context, found.seen, found.gates, found.replayed)

    def observe(self, subject: Subject, progress: Progress) -> Observation:
        """Measure a cell and judge it, without making its record.

        Raises:
            VoidCell: as :meth:`measure`; and so on.
        """
        medium = self._media[subject.cell.target]
        effort = self.available.effort_for(subject.cell)
        if isinstance(subject.workload, RecordModel):
            with ExitStack() as stack:
                exchange = stack.enter_context(Exchange())
                replay, prepared, plan = self._layouts.plan_model(subject, exchange, effort, progress, stack)
                seen, results = self._observe(subject, plan, progress)
                cpu_s = cpu_seconds(seen)
                alone = seen.outcome["compute_alone_ns"]
                figures = replayed(replay, exchange.results(replay.records.groups), seen.totals, cpu_s, alone)
                context = Context(subject.cell, prepared, medium, self._effort.profile)
                return Observation(context, seen, results, figures)
        prepared = self._layouts.prepare(subject, effort, progress)
        plan = make_plan(subject, prepared, medium, effort)
        seen, results = self._observe(subject, plan, progress)
        return Observation(Context(subject.cell, prepared, medium, self._effort.profile), seen, results)

    def _observe(
        self, subject: Subject, plan: Plan, progress: Progress
    ) -> tuple[gates.Observed, tuple[gates.GateResult, ...]]:
        """What the child observed, judged.

        Raises:
            VoidCell: it is impossible.
        """
        cell, path = subject.cell, subject.path
        medium = self._media[cell.target]
        window_s = plan.timeout_s + 5.0
        pacer = None if self.pacer_of is None else self.pacer_of(plan)
        plan = replace(plan, paced=pacer is not None)
        family = child_family(cell, path, self._targets[cell.target])
        if plan.gpus and plan.replay is not None and plan.replay.parts:
            # Its ranks are forks of it, and CUDA works in none of a process that has used CUDA.
            family = f"{family}-ranks"
            self._children.replace(family)
        before = self._children.given_up
        try:
            outcome = ask(
                self._children,
                family,
                "measure",
                plan.to_params(),
                deadline_s=_SETUP_S + 20 * window_s + 3 * plan.max_time,
                silence_s=_SETUP_S + window_s,
                progress=progress,
                pacer=pacer,
            )
        except (ChildDied, EngineError):
            self._layouts.stuck(cell.target, self._children.given_up - before)
            raise
        if outcome["stop_reason"] == "interrupted" or not outcome["windows"]:
            raise KeyboardInterrupt
        totals = sum_up(plan, outcome)
        proof = path.prove(evidence(plan, outcome, totals.device_ratio, totals.resident_growth))
        seen = gates.Observed(
            plan,
            path,
            medium.name,
            outcome,
            totals,
            proof,
            devices=medium.devices if path.moves_data else (),
            nodes=self._nodes_of(plan.cpus),
            virtual_machine=self._virtual,
        )
        results = gates.check(seen)
        for result in results:
            if result.kind == "impossible" and result.state == "failed":
                self._children.replace(family)
                raise VoidCell(result.gate, result.detail, [f"{r.gate} {r.state}: {r.detail}" for r in results])
        return seen, results

    def _nodes_of(self, cpus: tuple[int, ...]) -> tuple[int, ...]:
        if cpus not in self._nodes:
            self._nodes[cpus] = numa_nodes(cpus)
        return self._nodes[cpus]

    def smoke(self, subject: Subject, progress: Progress = lambda _values: None) -> int:
        """Run a few requests, untimed and unrecorded; returns how many.

        Raises:
            GpuioError: as :meth:`measure`, and when an I/O failed or brought wrong data.
        """
        effort = self.available.effort_for(subject.cell)
        effort = replace(effort, region_bytes=min(self._effort.region_bytes, _SMOKE_BYTES))
        if isinstance(subject.workload, Workload):
            subject = replace(subject, workload=replace(subject.workload, round="time"), arrivals=Arrivals())
        if isinstance(subject.workload, RecordModel):
            with ExitStack() as stack:
                exchange = stack.enter_context(Exchange())
                *_, plan = self._layouts.plan_model(
                    subject, exchange, effort, progress, stack, most_groups=_SMOKE_GROUPS
                )
                return self._smoke(subject, plan)
        prepared = self._layouts.prepare(subject, effort, progress)
        return self._smoke(subject, make_plan(subject, prepared, self._media[subject.cell.target], effort))

    def _smoke(self, subject: Subject, plan: Plan) -> int:
        answer = ask(
            self._children,
            child_family(subject.cell, subject.path, self._targets[subject.cell.target]),
            "smoke",
            plan.to_params(),
            deadline_s=_SETUP_S,
            progress=lambda _values: None,
        )
        return int(answer["ios"])
