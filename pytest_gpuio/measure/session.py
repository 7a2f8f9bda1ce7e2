"""Parent side: one run's children, targets and capabilities; measures cells one after another."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from types import TracebackType
from typing import Any, Final, Self

from pytest_gpuio.capabilities import CAPABILITIES, Resolver
from pytest_gpuio.core.cell import Cell
from pytest_gpuio.core.errors import CapabilityMissing, CellVoid, ChildDied, EngineError, TargetError
from pytest_gpuio.datapaths import DataPath
from pytest_gpuio.datapaths.base import CuFileMode
from pytest_gpuio.datapaths.spdk import SPDK
from pytest_gpuio.isolation import Children
from pytest_gpuio.machine import hypervisor, numa_nodes
from pytest_gpuio.measure import gates
from pytest_gpuio.measure.assemble import Context, cpu_seconds, evidence, record
from pytest_gpuio.measure.completion import replayed
from pytest_gpuio.measure.effort import Effort
from pytest_gpuio.measure.gpu_placement import ordered_gpus
from pytest_gpuio.measure.pace import Pacer
from pytest_gpuio.measure.plan import Plan
from pytest_gpuio.measure.prepare import (
    NO_TARGET,
    PreparedTarget,
    Subject,
    check_before_layout,
    choose_gpus,
    file_for,
    make_plan,
    nearest_existing,
    spdk_memory,
)
from pytest_gpuio.measure.records import Exchange, ReplaySet, folder_of, laid_files, make_set, no_files
from pytest_gpuio.measure.totals import sum_up
from pytest_gpuio.media import Medium
from pytest_gpuio.phases import RecordModel, Workload
from pytest_gpuio.phases.arrivals import Arrivals
from pytest_gpuio.results.record import CellRecord, Replayed
from pytest_gpuio.targets import Identity, check_unchanged, direct_alignment, identify, leftovers

CHILD_MODULE = "pytest_gpuio.measure.child"
#: (what is going on, values): for a live line; called in the parent, between the child's windows.
Progress = Callable[[Mapping[str, Any]], None]

#: The first one waits for imports too, which take 20 s on a slow machine with cold files (tried under emulation).
_PROBE_DEADLINE_S = 60.0
#: Seconds a child may need to start, open files and rings, and pool its buffers, beyond its windows.
_SETUP_S = 60.0
#: What a page-cache mode needs of the target.
_NEEDS_OF_CACHE: Final[Mapping[str, tuple[str, ...]]] = {"direct": ("o_direct",), "cold": ("cold_cache",)}
#: A layout that makes no progress for so long is stuck.
_LAYOUT_SILENCE_S = 120.0
#: A smoke run needs a target, not a large one.
_SMOKE_BYTES = 64 << 20
_SMOKE_GROUPS = 4
#: Families of data paths that need the kernel only: there is hardly a machine that skips their cells.
_OF_KERNEL: Final = ("posix", "io_uring")


def child_family(cell: Cell, path: DataPath, target: Path) -> str:
    """Cells with the same one share a measuring child.

    A CUDA context brings threads that host cells need not have; SPDK starts once per process, for one namespace, with
    as much memory as it was given then.
    """
    if not path.file:
        return f"{path.family}-{cell.target}-{spdk_memory(cell, target)}"
    return path.family if cell.destination == path.destinations[0] else f"{path.family}-{cell.destination}"


def family_env(family: str) -> Mapping[str, str]:
    """Variables that a family's child is started with: SPDK's libraries find one another through the loader's path."""
    folder = os.environ.get("GPUIO_SPDK_LIBDIR")
    if not folder or family.partition("-")[0] != SPDK.family:
        return {}
    rest = os.environ.get("LD_LIBRARY_PATH")
    return {"LD_LIBRARY_PATH": folder if not rest else f"{folder}:{rest}"}


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
        self._prepared: dict[Path, PreparedTarget] = {}
        #: Files of models by folder, names and sizes.
        self._laid: dict[object, Any] = {}
        self._modelled: list[Path] = []
        self._identities = {name: _identity(path) for name, path in targets.items()}
        #: Children that wait in the kernel for a target's device, and cannot be killed.
        self._waiting: dict[str, frozenset[int]] = {}
        self._capabilities = Resolver(self._probe)
        self._gpus: tuple[Mapping[str, Any], ...] | None = None
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
        return tuple(dict.fromkeys(self._modelled))

    @property
    def bad_ends(self) -> Sequence[str]:
        """Sentences about children that crashed or hung when they were asked to end, after all they had measured."""
        return self._children.bad_ends

    def _probe(self, name: str, target: str | None) -> str | None:
        params, family = {"name": name, "target": target}, CAPABILITIES[name].family
        try:
            answer = self._children.get(family).request("probe", params, deadline_s=CAPABILITIES[name].deadline_s)
        except ChildDied as error:
            self._children.replace(family)
            return f"the probe of {name} did not survive: {error}"
        return None if answer is None else str(answer)

    def missing(self, cell: Cell, path: DataPath) -> str | None:
        """The first capability the cell lacks as ``needs NAME: sentence``, or None."""
        self._start_ahead(cell, path)
        for name in self.needs(cell, path):
            reason = self._capabilities.reason(name, str(self._targets[cell.target]))
            if reason is not None:
                return f"needs {name}: {reason}"
        return self._too_few_gpus(cell)

    def _start_ahead(self, cell: Cell, path: DataPath) -> None:
        """Has the children start that a cell of the kernel's own paths needs, while its capabilities are probed."""
        if cell.destination != "host" or path.family not in _OF_KERNEL:
            return
        with suppress(ChildDied):  # whoever asks it next is told
            if path.moves_data and not self._prepared:
                self._children.get("layout")
            self._children.get(path.family)

    def gpus(self) -> Sequence[Mapping[str, Any]]:
        """The GPUs there are, as a child sees them, in the order of their ordinals; empty when there is none."""
        if self._gpus is None:
            self._gpus = ()
            if self.capability("cuda") is None:
                self._gpus = tuple(self._children.get("probe").request("gpus", {}, deadline_s=_PROBE_DEADLINE_S))
        return self._gpus

    def cufile(self, mode: CuFileMode, target: str | None) -> Mapping[str, Any]:
        """CuFile's driver as it opens in the child of that mode, and whether it takes the target; see there.

        Args:
            mode: ``strict`` or ``compat``.
            target: name of a target; None = the driver alone.
        """
        family = "gds" if mode == "strict" else "gds_compat"
        nothing: dict[str, Any] = {"facts": None, "takes_target": None, "target_reason": None}
        reason = self.capability("cuda")
        if reason is not None:
            return nothing | {"reason": reason}
        params = {"mode": mode, "target": str(self._targets[target]) if target else None}
        try:
            found = self._children.get(family).request("cufile", params, deadline_s=_PROBE_DEADLINE_S)
        except ChildDied as error:
            self._children.replace(family)
            return nothing | {"reason": f"opening cuFile did not survive: {error}"}
        return dict(found)

    def _effort_for(self, cell: Cell) -> Effort:
        """The effort with the GPUs that the cell's target is near to or far from, where that was asked for.

        Raises:
            CapabilityMissing: distances are not known.
        """
        effort = self._effort
        if not effort.gpu_order or not cell.gpus:
            return effort
        bus_ids = [str(gpu["bus_id"]) for gpu in self.gpus()]
        return replace(effort, gpus=ordered_gpus(effort.gpu_order, bus_ids, self._media[cell.target].devices))

    def _too_few_gpus(self, cell: Cell) -> str | None:
        if not cell.gpus:
            return None
        try:
            allowed = self._effort_for(cell).gpus
        except CapabilityMissing as error:
            return str(error)
        if self._effort.gpu_order and len(allowed) < cell.gpus:
            return (
                f"--gpuio-gpu={self._effort.gpu_order}: {len(allowed)} of the GPUs are, and the cell has {cell.gpus}."
            )
        there, last = len(self.gpus()), max(choose_gpus(cell, allowed))
        if last < there:
            return None
        return (
            f"needs cuda: GPU {last} is wanted (numbered from 0) and the CUDA driver shows {there}: lower "
            "--gpuio-gpus, or see --gpuio-gpu and CUDA_VISIBLE_DEVICES"
        )

    def capability(self, name: str, target: str | None = None) -> str | None:
        """None when the machine has it, else why not."""
        return self._capabilities.reason(name, str(self._targets[target]) if target else None)

    @staticmethod
    def needs(cell: Cell, path: DataPath) -> tuple[str, ...]:
        """Names of the capabilities a cell needs, in the order they are checked."""
        needs = path.needs if cell.destination == "host" or "cuda" in path.needs else ("engine", "cuda", *path.needs)
        if not path.file:
            return needs
        if path.moves_data and not path.mapped and "nvme_passthrough" not in needs:
            needs += ("file_io",)
        # A mapping that needs no page cache opens nothing with O_DIRECT.
        if not path.moves_data or (path.mapped and cell.cache == "direct"):
            return needs
        return (*needs, *_NEEDS_OF_CACHE.get(cell.cache, ()))

    def _check_target(self, name: str) -> None:
        """Refuses a target whose device does not answer, or that is not what it was when the run began.

        Raises:
            TargetError: the text says which.
        """
        path = self._targets[name]
        waiting = self._waiting.get(name, frozenset()) & self._children.given_up
        if waiting:
            raise TargetError(
                f"{path} does not answer: measuring child {', '.join(map(str, sorted(waiting)))} still waits for it in "
                "the kernel and cannot be killed (see dmesg). Its other cells are not tried."
            )
        check_unchanged(path, self._identities.get(name))

    def _prepare(self, subject: Subject, effort: Effort, progress: Progress) -> PreparedTarget:
        if subject.path.moves_data:
            self._check_target(subject.cell.target)
        file = file_for(self._targets[subject.cell.target], subject.workload)
        check_before_layout(subject, file, effort)
        if not subject.path.moves_data:
            return NO_TARGET
        prepared = self._prepared.get(file)
        writes = subject.workload.needs_write_file
        unfit = prepared is not None and writes and prepared.foreign_zeros is not None
        if prepared is None or unfit or prepared.data_bytes < effort.region_bytes:
            spdk_mib = None if subject.path.file else spdk_memory(subject.cell, file)
            laid = self._ask(
                "layout" if spdk_mib is None else child_family(subject.cell, subject.path, file),
                "lay_out",
                {
                    "spdk_mib": spdk_mib,
                    "path": str(file),
                    "data_bytes": effort.region_bytes,
                    "allow_destroy": effort.allow_destroy,
                    "force": effort.force,
                    "writes": writes,
                },
                deadline_s=effort.region_bytes / 5e6 + _LAYOUT_SILENCE_S,
                silence_s=_LAYOUT_SILENCE_S,
                progress=progress,
            )
            prepared = self._prepared[file] = PreparedTarget(**laid)
            # Now that the file is there, its own alignment is known, which may be stricter than its directory's.
            check_before_layout(subject, file, effort)
        return prepared

    def _ask(
        self,
        family: str,
        op: str,
        params: Mapping[str, Any],
        *,
        deadline_s: float,
        silence_s: float | None = None,
        progress: Progress,
        pacer: Pacer | None = None,
    ) -> Any:
        """One request to a family's child, which is replaced when it did not survive or cannot be trusted any more."""
        child = self._children.get(family)

        def forward(event: str, values: Mapping[str, Any]) -> None:
            if event == "progress":
                progress(values)
            elif event == "pace" and pacer is not None:
                child.answer(*pacer(values["values"]).encode(values["number"]))

        try:
            return child.request(op, dict(params), deadline_s=deadline_s, silence_s=silence_s, on_event=forward)
        except (ChildDied, EngineError):
            self._children.replace(family)
            raise

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
        effort = self._effort_for(subject.cell)
        if isinstance(subject.workload, RecordModel):
            with ExitStack() as stack:
                exchange = stack.enter_context(Exchange())
                replay, prepared, plan = self._plan_model(subject, exchange, effort, progress, stack)
                seen, results = self._observe(subject, plan, progress)
                cpu_s = cpu_seconds(seen)
                alone = seen.outcome["compute_alone_ns"]
                figures = replayed(replay, exchange.results(replay.records.groups), seen.totals, cpu_s, alone)
                context = Context(subject.cell, prepared, medium, self._effort.profile)
                return Observation(context, seen, results, figures)
        prepared = self._prepare(subject, effort, progress)
        plan = make_plan(subject, prepared, medium, effort)
        seen, results = self._observe(subject, plan, progress)
        return Observation(Context(subject.cell, prepared, medium, self._effort.profile), seen, results)

    def _plan_model(
        self,
        subject: Subject,
        exchange: Exchange,
        effort: Effort,
        progress: Progress,
        stack: ExitStack,
        *,
        most_groups: int | None = None,
    ) -> tuple[ReplaySet, PreparedTarget, Plan]:
        """A model's records, its files laid out, and the plan of one pass over all groups or the first ones.

        A framework makes its own files, in a folder that is removed when the stack is closed.
        """
        cell, path, model = subject.cell, subject.path, subject.workload
        assert isinstance(model, RecordModel)
        folder = folder_of(self._targets[cell.target], model)
        check_before_layout(subject, folder, effort)
        alignment = None
        if path.moves_data and (cell.cache == "direct" or path.framework):
            known = direct_alignment(nearest_existing(folder))
            alignment = None if known is None else known.offset
        replay = make_set(model, cell, alignment, effort.max_time)
        if path.framework:
            own = stack.enter_context(leftovers.own_folder(folder, path.name))
            self._modelled.append(self._targets[cell.target])
            prepared = replace(NO_TARGET, path=str(own), data_bytes=replay.records.files.bytes)
            ours = exchange.plan(replay, no_files(replay.records), own)
            return replay, prepared, make_plan(subject, prepared, self._media[cell.target], effort, ours)
        if most_groups is not None:
            # The first groups of one rank: in one process.
            first = replay.records.of_rank(0)
            replay = replace(replay, records=first.only_groups(slice(0, most_groups)).untimed())
        prepared, files = NO_TARGET, no_files(replay.records)
        if path.moves_data:
            names, sizes = replay.records.files.names, [int(size) for size in replay.records.files.sizes]
            key = (folder, names, tuple(sizes))
            self._modelled.append(self._targets[cell.target])
            if key not in self._laid:
                self._laid[key] = self._ask(
                    "layout",
                    "lay_out_files",
                    {"folder": str(folder), "files": list(zip(names, sizes, strict=True))},
                    deadline_s=sum(sizes) / 5e6 + len(sizes) + _LAYOUT_SILENCE_S,
                    silence_s=_LAYOUT_SILENCE_S,
                    progress=progress,
                )
            laid = self._laid[key]
            files = laid_files(laid)
            known_of_files = {name: laid[name] for name in ("alignment", "memory_alignment", "alignment_source")}
            data_bytes = sum(file.data_bytes for file in files)
            prepared = PreparedTarget(
                str(folder), files[0].data_offset, data_bytes, files[0].pattern_seed, **known_of_files
            )
        medium = self._media[cell.target]
        return (
            replay,
            prepared,
            make_plan(subject, prepared, medium, effort, exchange.plan(replay, files, gpus=cell.gpus)),
        )

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
            outcome = self._ask(
                family,
                "measure",
                plan.to_params(),
                deadline_s=_SETUP_S + 20 * window_s + 3 * plan.max_time,
                silence_s=_SETUP_S + window_s,
                progress=progress,
                pacer=pacer,
            )
        except (ChildDied, EngineError):
            self._waiting[cell.target] = self._waiting.get(cell.target, frozenset()) | (
                self._children.given_up - before
            )
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
        effort = self._effort_for(subject.cell)
        effort = replace(effort, region_bytes=min(self._effort.region_bytes, _SMOKE_BYTES))
        if isinstance(subject.workload, Workload):
            subject = replace(subject, workload=replace(subject.workload, round="time"), arrivals=Arrivals())
        if isinstance(subject.workload, RecordModel):
            with ExitStack() as stack:
                exchange = stack.enter_context(Exchange())
                *_, plan = self._plan_model(subject, exchange, effort, progress, stack, most_groups=_SMOKE_GROUPS)
                return self._smoke(subject, plan)
        prepared = self._prepare(subject, effort, progress)
        return self._smoke(subject, make_plan(subject, prepared, self._media[subject.cell.target], effort))

    def _smoke(self, subject: Subject, plan: Plan) -> int:
        answer = self._ask(
            child_family(subject.cell, subject.path, self._targets[subject.cell.target]),
            "smoke",
            plan.to_params(),
            deadline_s=_SETUP_S,
            progress=lambda _values: None,
        )
        return int(answer["ios"])


def _identity(path: Path) -> Identity | None:
    """What a target stands for now; None when that cannot be told, as for one whose folder is yet to be made."""
    try:
        return identify(path)
    except OSError:
        return None
