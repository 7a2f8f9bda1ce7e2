"""From a target's name and a cell to the plan the child gets: which file, which region, which geometry."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Literal

from pytest_gpuio.core.cell import Cell
from pytest_gpuio.core.errors import CapabilityMissing, ConfigError
from pytest_gpuio.core.spdk_address import spdk_address
from pytest_gpuio.datapaths import DataPath
from pytest_gpuio.machine import affinity
from pytest_gpuio.measure.daemons import find_daemons
from pytest_gpuio.measure.effort import Effort
from pytest_gpuio.measure.libraries import LIBRARIES
from pytest_gpuio.measure.placement import buffer_node, ordered_cpus, wanted_nodes
from pytest_gpuio.measure.plan import LEAST_DEPTHS, Plan, ReplayPlan
from pytest_gpuio.measure.records import check_model, model_gpus
from pytest_gpuio.media import Medium
from pytest_gpuio.phases import AnyWorkload, Durability, Order, RecordModel, Round
from pytest_gpuio.phases.arrivals import CLOSED, Arrivals
from pytest_gpuio.targets import (
    HEADER_BYTES,
    check_geometry,
    check_huge_pages,
    direct_alignment,
    memory_mib,
    target_file,
)


@dataclass(frozen=True, slots=True)
class PreparedTarget:
    """A laid-out file of ours and what direct I/O on it needs.

    Attributes:
        path: the file. data_offset, data_bytes: its data region. pattern_seed: of its content.
        foreign_zeros: the content is not ours: share of sampled places that hold only zeros; None = it is ours.
        alignment, memory_alignment: bytes, None = unknown. alignment_source: who said so.
    """

    path: str
    data_offset: int
    data_bytes: int
    pattern_seed: int
    alignment: int | None
    memory_alignment: int | None
    alignment_source: str | None
    foreign_zeros: float | None = None


_SYNC: Final[dict[str, Literal["end", "every"]]] = {"fsync": "end", "fdatasync": "every"}
#: Stands for the file of paths that move no data.
NO_TARGET: Final = PreparedTarget("", 0, 0, 0, None, None, None)


@dataclass(frozen=True, slots=True)
class Subject:
    """What is measured: a cell with its data path, its workload, and how requests arrive.

    ``windows`` of it are measured instead of the effort's; None = as the effort says.
    """

    cell: Cell
    path: DataPath
    workload: AnyWorkload
    arrivals: Arrivals = CLOSED
    windows: int | None = None


def choose_poller_cpus(path: DataPath, workers: tuple[int, ...], available: tuple[int, ...]) -> tuple[int, ...]:
    """A CPU of its own for each job's submission poller; empty for paths without one.

    Raises:
        CapabilityMissing: there are not enough: a poller that shares its CPU starves its own submitter.
    """
    if not path.submission_poller:
        return ()
    free = [cpu for cpu in reversed(available) if cpu not in workers]
    if len(free) < len(workers) or -1 in workers:
        raise CapabilityMissing(
            f"{path.name} needs a CPU for each job and one for its kernel poller, {2 * len(workers)} in all, and "
            f"this process may use {len(available)}. Use fewer --gpuio-jobs, or a larger CPU set."
        )
    return tuple(free[: len(workers)])


def choose_cpus(jobs: int, available: tuple[int, ...]) -> tuple[int, ...]:
    """A CPU per worker, the last ones of those available; all -1 when workers outnumber CPUs.

    Args:
        jobs: workers.
        available: the most wanted last, see :func:`~pytest_gpuio.measure.placement.ordered_cpus`.
    """
    if jobs > len(available):
        return (-1,) * jobs
    return tuple(reversed(available))[:jobs]


def choose_gpus(cell: Cell, allowed: tuple[int, ...]) -> tuple[int, ...]:
    """The GPU of each worker: a group of ``jobs`` workers for each; empty for host memory.

    Raises:
        ConfigError: fewer GPUs are allowed than the cell has.
    """
    ordinals = allowed or tuple(range(cell.gpus))
    if len(ordinals) < cell.gpus:
        raise ConfigError(
            f"the cell uses {cell.gpus} GPUs and --gpuio-gpu names {len(ordinals)}: name more, or lower --gpuio-gpus."
        )
    return tuple(gpu for gpu in ordinals[: cell.gpus] for _ in range(cell.jobs))


def file_for(target: Path, workload: AnyWorkload) -> Path:
    """The file of a target that a workload runs on: reads and writes use different files of a directory."""
    return target_file(target, writes=workload.needs_write_file)


def check_before_layout(subject: Subject, file: Path, effort: Effort) -> None:
    """Refuse impossible geometry while no byte has been written yet.

    Raises:
        ConfigError: with the numbers and the remedy.
        CapabilityMissing: too few CPUs for a path that polls.
    """
    cell, path, workload = subject.cell, subject.path, subject.workload
    wanted_nodes(effort.numa, ())
    choose_poller_cpus(path, choose_cpus(cell.workers, affinity()), affinity())
    if subject.arrivals.kind != "closed" and (isinstance(workload, RecordModel) or workload.round == "region"):
        why = "has times of its own" if isinstance(workload, RecordModel) else "is one pass over the target per round"
        raise ConfigError(f"{workload.name} {why} and has no arrivals: use --gpuio-arrivals=closed.")
    if path.synchronous and cell.qd > 1:
        raise ConfigError(
            f"{path.name} has one request in flight per job: use --gpuio-jobs={cell.qd} instead of qd {cell.qd}."
        )
    if "nvme_passthrough" in path.needs and cell.durability != "none":
        raise CapabilityMissing(
            f"{path.name} sends reads and writes only, no flush, so durability {cell.durability} cannot be had: use "
            f"another data path on the namespace's block device, or another workload."
        )
    if not path.file:
        check_namespace(cell, file)
    if not 1 <= cell.submit_batch <= cell.qd or not 1 <= cell.reap_batch <= cell.qd:
        raise ConfigError(f"batch {cell.batch} must lie between 1 and the queue depth {cell.qd}.")
    if isinstance(workload, RecordModel):
        check_model(workload, cell, path, file)
        return
    if path.framework:
        raise CapabilityMissing(
            f"{path.name} saves and loads whole files of an application, not streams of requests: it has no part in "
            f"{cell.workload}; try pretrain/checkpoint_ranks, pretrain/checkpoint_restore or inference/cold_start."
        )
    if path.engine in LIBRARIES:
        check_library(subject, effort)
    if workload.round == "region" and path.moves_data:
        least = LEAST_DEPTHS * cell.qd * cell.workers * cell.bs
        if effort.region_bytes < least:
            raise ConfigError(
                f"{workload.name} passes once over the target per round, which must hold {LEAST_DEPTHS} x queue depth "
                f"{cell.qd} x {cell.workers} jobs requests of {cell.bs:,} bytes = {least:,} bytes, but the target has "
                f"{effort.region_bytes:,}: use --gpuio-size={-(-least >> 20)}M or more."
            )
    check_geometry(
        file,
        block=cell.bs,
        depth=cell.qd,
        jobs=cell.workers,
        region_offset=HEADER_BYTES if path.moves_data else 0,
        region_bytes=effort.region_bytes,
        direct=path.moves_data and cell.cache == "direct" and not path.mapped,
        alignment=direct_alignment(nearest_existing(file)) if path.moves_data and path.file else None,
        aio=path.engine == "libaio",
    )


#: Requests that one of SPDK's queue pairs holds.
SPDK_DEPTH: Final = 255


def check_namespace(cell: Cell, target: Path) -> None:
    """Refuse what SPDK cannot do on a target, or this machine not now.

    Raises:
        ConfigError: the queue depth is above what a queue pair holds.
        CapabilityMissing: too few CPUs for workers that poll, or a durability that is not to be had.
        TargetError: too few huge pages are free.
    """
    if cell.qd > SPDK_DEPTH:
        raise ConfigError(f"queue depth {cell.qd}: a queue pair of SPDK holds {SPDK_DEPTH}, use more --gpuio-jobs.")
    if cell.workers > len(affinity()):
        raise CapabilityMissing(
            f"spdk polls, so that each job needs a CPU of its own: {cell.workers} jobs, and this process may use "
            f"{len(affinity())} CPUs. Use fewer --gpuio-jobs."
        )
    if cell.durability == "dsync":
        raise CapabilityMissing("spdk opens no file, so that there is no O_DSYNC: use durability fsync or fdatasync.")
    address = spdk_address(target)
    if address is not None:
        check_huge_pages(address, memory_mib(cell.workers, cell.qd, cell.bs))


def spdk_memory(cell: Cell, target: Path) -> int:
    """MiB of memory without huge pages that SPDK is started with; 0 = a local device, with huge pages."""
    address = spdk_address(target)
    local = address is not None and address.transport == "pci"
    return 0 if local else memory_mib(cell.workers, cell.qd, cell.bs)


def check_library(subject: Subject, effort: Effort) -> None:
    """Refuse what a library's calls cannot do.

    Raises:
        ConfigError: with the remedy.
    """
    cell, workload = subject.cell, subject.workload
    assert not isinstance(workload, RecordModel), "check_model comes first"
    refused = {
        f"both reads and writes ({workload.name})": 0 < workload.read_percent < 100,
        f"arrivals on a schedule ({subject.arrivals})": subject.arrivals.kind != "closed",
        f"durability {cell.durability}": cell.durability not in ("none", "fsync"),
        f"batches of {cell.batch}": (cell.submit_batch, cell.reap_batch) != (1, 1),
        f"{cell.gpus} GPUs": cell.gpus > 1,
        "--gpuio-verify=full": effort.verify == "full",
        f"blocks of {cell.bs:,} bytes": cell.bs % 512 != 0,
    }
    found = [what for what, is_so in refused.items() if is_so]
    if found:
        raise ConfigError(
            f"{subject.path.name} is driven by calls of a library, which do not do {', '.join(found)} here: use "
            "another data path for it, or leave it out."
        )


def nearest_existing(path: Path) -> Path:
    """The file, or the folder it will be made in: until it is there, its device's word is the best there is."""
    while not path.exists():
        path = path.parent
    return path


def make_plan(
    subject: Subject,
    prepared: PreparedTarget,
    medium: Medium,
    effort: Effort,
    replay: ReplayPlan | None = None,
) -> Plan:
    """The plan of a cell on its prepared target; for a model with what one window issues.

    Raises:
        CapabilityMissing: too few CPUs for a path that polls.
    """
    cell, path, workload = subject.cell, subject.path, subject.workload
    nodes = wanted_nodes(effort.numa, medium.devices if path.moves_data else ())
    available = ordered_cpus(affinity(), nodes)
    processes = len(replay.parts) or 1 if replay is not None else 1
    # Each rank has the cell's jobs, and one of its GPUs.
    workers = cell.workers if replay is None else cell.jobs * processes
    cpus = choose_cpus(workers, available)
    durability = Durability.parse(cell.durability)
    slowest = 5e6  # bytes/s; what is slower than a tired SD card counts as stuck
    if isinstance(workload, RecordModel):
        # A pass over the records, in no order that the engine would know; fsyncs are among them.
        drawn = _Drawn("random", 50 if workload.writes else 100, 0.0, "region")
        window_bytes = replay.bytes if replay is not None else 0
    else:
        # Without bytes a pass over the region takes no time: the tool's cost needs a window that lasts.
        shape = workload.round if path.moves_data else "time"
        drawn = _Drawn(workload.order, workload.read_percent, workload.zipf_theta or 0.0, shape)
        whole = workload.round == "region"
        window_bytes = effort.region_bytes if whole else 40 * cell.qd * cell.workers * cell.bs
    return Plan(
        engine=path.engine,
        library=None,
        path=prepared.path if path.moves_data else None,
        region_offset=prepared.data_offset,
        region_bytes=_region_bytes(path, prepared, effort, replay),
        pattern_seed=prepared.pattern_seed,
        order=drawn.order,
        read_percent=drawn.read_percent,
        zipf_theta=drawn.zipf_theta,
        bs=cell.bs,
        qd=cell.qd,
        jobs=workers,
        submit_batch=cell.submit_batch,
        reap_batch=cell.reap_batch,
        knobs=tuple(sorted(_asked_knobs(path, effort.knobs))),
        cache=cell.cache,
        sync=_SYNC.get(durability.mode, "none") if path.moves_data and replay is None else "none",
        sync_every=durability.every,
        dsync=durability.mode == "dsync",
        round=drawn.round,
        window_s=effort.window_s,
        precision=effort.precision,
        max_time=effort.max_time,
        timeout_s=effort.timeout_s or max(60.0, window_bytes / slowest) + (replay.least_s if replay else 0.0),
        verify=effort.verify if prepared.foreign_zeros is None else "none",
        foreign_zeros=prepared.foreign_zeros,
        counted=medium.counted if path.moves_data else (),
        interrupt_names=interrupt_names(medium),
        cpus=cpus,
        seed=effort.seed,
        sq_cpus=choose_poller_cpus(path, cpus, available),
        numa=effort.numa,
        node=buffer_node(nodes),
        sq_idle_ms=effort.sq_idle_ms,
        arrivals=str(subject.arrivals),
        arrival_wait=effort.arrival_wait,
        daemons=_daemons(path, medium, effort),
        devices=tuple(device.name for device in medium.devices) if path.moves_data else (),
        mapped=path.mapped,
        limited=tuple({*medium.counted, *(device.dev for device in medium.devices)}) if path.moves_data else (),
        gpus=choose_gpus(cell, effort.gpus) if replay is None else model_gpus(cell, effort.gpus, processes),
        cufile=path.cufile,
        copies=effort.copies,
        replay=replay,
        spdk_mib=None if path.file else spdk_memory(cell, Path(prepared.path)),
        windows=subject.windows or effort.windows,
        warm_up_s=effort.warm_up_s,
        least_window_s=effort.least_window_s,
    )


def _daemons(path: DataPath, medium: Medium, effort: Effort) -> tuple[int, ...]:
    """Those the user named, and those that serve the target's file system, whatever the data path."""
    found = find_daemons(medium.file_system) if path.moves_data else ()
    return (*effort.daemons, *(pid for pid in found if pid not in effort.daemons))


@dataclass(frozen=True, slots=True)
class _Drawn:
    """What the engine draws of a stream, and stands for it where records are given."""

    order: Order
    read_percent: int
    zipf_theta: float
    round: Round


def _region_bytes(path: DataPath, prepared: PreparedTarget, effort: Effort, replay: ReplayPlan | None) -> int:
    if replay is not None:
        return sum(file.data_bytes for file in replay.files)
    return min(effort.region_bytes, prepared.data_bytes) if path.moves_data else effort.region_bytes


def _asked_knobs(path: DataPath, switched: Mapping[str, bool]) -> frozenset[str]:
    """The path's knobs after the user's switches; a switch for what the path does not have means nothing to it."""
    if not path.knobs:
        return path.knobs
    on = frozenset(name for name, value in switched.items() if value)
    return (path.knobs | on) - frozenset(name for name, value in switched.items() if not value)


def interrupt_names(medium: Medium) -> tuple[str, ...]:
    """Prefixes of the target's lines in ``/proc/interrupts``: ``nvme0q`` for nvme0n1, ``virtio2-`` for virtio2."""
    names = []
    for device in medium.devices:
        if device.name.startswith("nvme"):
            names.append(_nvme_queue(device.name))
        else:
            link = os.path.realpath(f"/sys/block/{device.name}/device")
            if Path(link).name.startswith("virtio"):
                names.append(Path(link).name + "-")
    return tuple(names)


def _nvme_queue(name: str) -> str:
    number = name.removeprefix("nvme").split("n")[0].split("c")[0]
    return f"nvme{number}q"
