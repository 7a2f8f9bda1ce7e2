"""The cell: one point of data path x medium x workload x destination x block size x queue depth x jobs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, Literal

from pytest_gpuio.core.sizes import format_size

Phase = Literal["pretrain", "finetune", "inference", "micro"]
Cache = Literal["direct", "cold", "hot"]
Destination = Literal["host", "gpu"]

#: Phases of an LLM's life, and ``micro`` for workloads in the terms of classic I/O benchmarks.
PHASES: Final[tuple[Phase, ...]] = ("pretrain", "finetune", "inference", "micro")
#: Classes a target's medium is sorted into; detected, never assumed.
MEDIA: Final = (
    "sata_ssd",
    "nvme_ssd",
    "nvme_optane",
    "pmem",
    "hdd",
    "network_fs",
    "nvmeof",
    "virtual",
    "ram",
    "null_blk",
    "unknown",
)
CACHES: Final[tuple[Cache, ...]] = ("direct", "cold", "hot")
DESTINATIONS: Final[tuple[Destination, ...]] = ("host", "gpu")

#: Axes in the order of ids and of the case key. Changing it orphans every stored baseline (golden test, ADR 2).
AXES: Final = (
    "datapath",
    "medium",
    "target",
    "workload",
    "destination",
    "bs",
    "qd",
    "jobs",
    "batch",
    "cache",
    "durability",
    "arrivals",
)
#: Last axis of cells whose bytes end in GPU memory; cells of host memory keep the keys they had before it (ADR 2).
GPUS: Final = "gpus"
#: The very last one, of cells on several ranks (MPI) at once.
RANKS: Final = "ranks"


@dataclass(frozen=True, slots=True)
class Cell:
    """One cell; one pytest item; one benchmark row.

    Attributes:
        suite: module and test name without folders or parameters, ``test_inference.test_kv_fetch``.
        datapath: requested data path.
        medium: detected class of the target.
        target: the target's name (``default`` when unnamed).
        workload: ``phase/name``.
        bs: bytes per request. qd: requests in flight per job. jobs: worker threads, on each GPU where there are any.
        submit_batch, reap_batch: requests per submit call, completions a reap waits for.
        cache: ``direct`` (O_DIRECT), ``cold`` or ``hot`` page cache.
        destination: ``host`` or ``gpu`` memory. gpus: number of GPUs, each with ``jobs`` workers of its own; 0 = host.
        arrivals: ``closed`` loop, or the label of an open loop's arrival process, ``poisson10000``.
        ranks: processes, on one host or several, whose windows begin at one time; 1 = this process alone.
        durability: ``none``, ``fsync`` (at the end, inside the window), ``fdatasync<N>`` or ``dsync``.
    """

    suite: str
    datapath: str
    medium: str
    target: str
    workload: str
    bs: int
    qd: int
    jobs: int
    destination: Destination = "host"
    submit_batch: int = 1
    reap_batch: int = 1
    cache: Cache = "direct"
    durability: str = "none"
    arrivals: str = "closed"
    gpus: int = 0
    ranks: int = 1

    @property
    def phase(self) -> str:
        """The part of the workload's name before the slash."""
        return self.workload.partition("/")[0]

    @property
    def workers(self) -> int:
        """Worker threads in all."""
        return self.jobs * max(self.gpus, 1)

    @property
    def batch(self) -> str:
        """Submit and reap batch as one axis value, ``1x1``."""
        return f"{self.submit_batch}x{self.reap_batch}"

    def axes(self) -> Mapping[str, str | int]:
        """Every axis by name, in the order of :data:`AXES`; :data:`GPUS`, :data:`RANKS` at the end if there are any."""
        more = (*((GPUS,) if self.gpus else ()), *((RANKS,) if self.ranks > 1 else ()))
        return {axis: getattr(self, axis) for axis in (*AXES, *more)}

    @property
    def case(self) -> str:
        """The history key: suite and every axis in fixed order; independent of folders and node ids."""
        shown = dict(self.axes()) | {"bs": format_size(self.bs)}
        parts = [f"{axis}={value}" for axis, value in shown.items()]
        return "|".join([self.suite, *parts])
