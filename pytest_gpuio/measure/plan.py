"""The plan of one cell: everything the measuring child needs, as plain JSON-able values."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any, Final, Literal

from pytest_gpuio.core.cell import Cache

if TYPE_CHECKING:
    from pytest_gpuio.datapaths.base import CuFileMode
    from pytest_gpuio.phases import Order, Round

#: Seconds a window must last at least, so that its ends and the clock weigh nothing (gate ``enough_io``).
LEAST_WINDOW_S: Final = 0.1
#: Windows need this many times the requests in flight, so that ramp and drain cost below 3 % (tried: 20x -> 0.975).
LEAST_DEPTHS: Final = 20

VerifyMode = Literal["none", "sweep", "full"]


@dataclass(frozen=True, slots=True)
class Copies:
    """How bytes get from host to GPU memory.

    Attributes:
        wait: ``spin`` or ``sleep``, when only the end of a copy can change anything.
        streams: CUDA streams of each worker. ahead: staging slots of each worker beyond its depth; 0 = chosen.
        check: data is checked by a ``kernel`` on the GPU, or after a ``copy`` back.
    """

    wait: Literal["sleep", "spin"] = "spin"
    streams: int = 1
    ahead: int = 0
    check: Literal["kernel", "copy"] = "kernel"


@dataclass(frozen=True, slots=True)
class ReplayFile:
    """One file of a model, laid out: where its data begins, how many bytes it has, and the seed of its pattern."""

    path: str
    data_offset: int
    data_bytes: int
    pattern_seed: int


@dataclass(frozen=True, slots=True)
class RankPart:
    """What one rank issues in a process of its own; ``numbers``: a file with its groups' numbers among all (uint32)."""

    records: str
    groups: str
    numbers: str
    chains: int


@dataclass(frozen=True, slots=True)
class ReplayPlan:
    """Records that one window issues.

    Attributes:
        records, groups: files with the engine's own arrays. results: file that takes each measured window's results.
        files: what the records are about; one without a path for a data path that moves no data.
        chains, groups_count: numbers. concurrency: chains at work at the same time; 0 = all.
        ios, bytes: of one window, fsyncs not counted.
        timed: some group has an intended start. least_s: seconds that starts and computes take by themselves.
        parts: of each rank, when each has a process; empty = one process does it all.
        kernel_ns: a usual compute, when kernels on the GPU do them; 0 = computing is time that passes.
        objects: file that says what a framework saves or loads instead; empty = no framework has a part in it.
    """

    records: str
    groups: str
    results: str
    files: tuple[ReplayFile, ...]
    chains: int
    groups_count: int
    concurrency: int
    ios: int
    bytes: int
    timed: bool
    least_s: float
    parts: tuple[RankPart, ...] = ()
    kernel_ns: int = 0
    objects: str = ""

    @classmethod
    def from_params(cls, params: Mapping[str, Any]) -> ReplayPlan:
        """Inverse of ``asdict`` and JSON."""
        files = tuple(ReplayFile(**file) for file in params["files"])
        return cls(**{**params, "files": files, "parts": tuple(RankPart(**part) for part in params["parts"])})


@dataclass(frozen=True, slots=True)
class Plan:
    """How one cell is to be measured.

    Attributes:
        engine: engine table. library: its run-time library, None = search.
        path: target file; None for paths that move no data.
        region_offset, region_bytes: the part of the file the cell works on, bytes.
        order, read_percent, zipf_theta: the workload's access pattern.
        bs, qd, jobs, submit_batch, reap_batch: geometry; bytes and counts; jobs are the workers of all GPUs.
        knobs: engine knobs asked for.
        cache: ``direct``, ``cold`` or ``hot``.
        sync, sync_every, dsync: durability of writes.
        round: ``time`` = a window of a fixed number of I/Os of about ``window_s``; ``region`` = one pass over it.
        window_s: seconds a window should last at least.
        precision: wanted relative half-width of the mean's 95 % confidence interval.
        max_time: seconds of measured windows, at most.
        timeout_s: seconds after which a window is stuck.
        verify: ``sweep`` checks what the last window left in memory, ``full`` every read, ``none`` nothing.
        counted: block devices ("M:m") whose counters are read.
        interrupt_names: prefixes of the device's lines in ``/proc/interrupts``.
        cpus: CPU of each worker, -1 = not pinned.
        sq_cpus: CPU of each worker's submission poller; empty = the path has none. sq_idle_ms: before it sleeps.
        arrivals: arrival process as options spell it; ``closed`` loop. arrival_wait: ``sleep`` or ``spin``.
        gpus: ordinal of the GPU that each worker's bytes end in; empty = host memory. copies: how they get there.
        cufile: how cuFile's driver is opened in the child, None = not at all.
        daemons: process ids outside whose CPU is added.
        replay: records to issue instead of drawn offsets; a window is one pass over them.
        numa: where workers and buffers were asked to lie. node: of the buffers, None = wherever the process runs.
        foreign_zeros: the target's content is not ours and only read: share of sampled places that hold only zeros.
        paced: windows begin and end with those of other ranks.
        spdk_mib: MiB of memory without huge pages for a namespace that SPDK drives, 0 = huge pages; None = no SPDK.
        mapped: loads and stores reach the medium itself: no O_DIRECT, no page cache.
        windows: this many are measured, whatever their spread; None = until precision or time is reached.
        warm_up_s: seconds of warm-up, at most; None = until windows are flat.
        least_window_s: seconds below which a window is not believed (gate ``enough_io``).
        devices: kernel names of the physical devices. limited: numbers ("M:m") that an I/O limit may name.
    """

    engine: str
    library: str | None
    path: str | None
    region_offset: int
    region_bytes: int
    pattern_seed: int
    order: Order
    read_percent: int
    zipf_theta: float
    bs: int
    qd: int
    jobs: int
    submit_batch: int
    reap_batch: int
    knobs: tuple[str, ...]
    cache: Cache
    sync: Literal["none", "end", "every"]
    sync_every: int
    dsync: bool
    round: Round
    window_s: float
    precision: float
    max_time: float
    timeout_s: float
    verify: VerifyMode
    counted: tuple[str, ...]
    interrupt_names: tuple[str, ...]
    cpus: tuple[int, ...]
    seed: int
    sq_cpus: tuple[int, ...] = ()
    sq_idle_ms: int = 50
    arrivals: str = "closed"
    arrival_wait: Literal["sleep", "spin"] = "sleep"
    daemons: tuple[int, ...] = ()
    devices: tuple[str, ...] = ()
    limited: tuple[str, ...] = ()
    gpus: tuple[int, ...] = ()
    cufile: CuFileMode | None = None
    copies: Copies = field(default_factory=Copies)
    mapped: bool = False
    replay: ReplayPlan | None = None
    numa: str = "near"
    node: int | None = None
    foreign_zeros: float | None = None
    spdk_mib: int | None = None
    paced: bool = False
    windows: int | None = None
    warm_up_s: float | None = None
    least_window_s: float = LEAST_WINDOW_S

    @property
    def blocks(self) -> int:
        """Whole blocks in the region."""
        return self.region_bytes // self.bs

    @property
    def in_flight(self) -> int:
        """Requests in flight when every job is at its depth."""
        return self.qd * self.jobs

    @property
    def least_ios(self) -> int:
        """Completions a window needs at least, so that ramp and drain weigh little (gate ``enough_io``)."""
        # In an open loop the depth is a ceiling, not what keeps the window full.
        if self.replay is not None:
            return 1  # its beginning and end are part of what the model is about
        return LEAST_DEPTHS * (1 if self.open_loop else self.in_flight)

    @property
    def open_loop(self) -> bool:
        """Requests arrive on a schedule."""
        return self.arrivals != "closed"

    def to_params(self) -> dict[str, Any]:
        """The plan as a message for the child."""
        return asdict(self)

    @classmethod
    def from_params(cls, params: Mapping[str, Any]) -> Plan:
        """Inverse of :meth:`to_params`, after JSON turned tuples into lists."""
        values: dict[str, Any] = {name: tuple(v) if isinstance(v, list) else v for name, v in params.items()}
        replay = values["replay"] and ReplayPlan.from_params(values["replay"])
        return cls(**values | {"copies": Copies(**values["copies"]), "replay": replay})
