"""One measured cell: what ``extra_info["gpuio"]`` holds."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, Literal, NotRequired, TypedDict

from pytest_gpuio.results.record.cpu import Cpu, Surroundings
from pytest_gpuio.results.record.gpu import CuFile, Gpu, GpuMeter
from pytest_gpuio.results.record.hosts import HostRanks
from pytest_gpuio.results.record.latency import Distribution, Latency
from pytest_gpuio.results.record.replayed import Replayed

#: Raised only when a reader of the older version would be misled.
SCHEMA: Final = 1

StopReason = Literal["precision", "max_time", "max_windows", "interrupted"]
VerifyMode = Literal["sweep", "full", "none"]
GateClass = Literal["impossible", "unsettled", "warning"]
GateState = Literal["passed", "failed", "unknown", "exempt"]


class Requested(TypedDict):
    """What was asked for; ``bs`` in bytes, ``qd`` requests in flight per job."""

    datapath: str
    direct: bool
    qd: int
    bs: int
    knobs: list[str]


class Effective(TypedDict):
    """What the evidence shows happened.

    ``direct`` is null where no file is open; ``in_flight`` is the mean number of requests in flight over all jobs;
    ``request_bytes`` is the mean size of a request as the device saw it, null where that is unknown; ``knob_reason``
    says why a requested knob is off, null when none is. ``route`` is there where cuFile had a part: which way its bytes
    went, by its own counters (see :mod:`pytest_gpuio.datapaths.cufile_route`).
    """

    datapath: str
    direct: bool | None
    in_flight: float
    request_bytes: float | None
    knobs: list[str]
    knob_reason: str | None
    evidence: list[str]
    route: NotRequired[str]


class ChangePoint(TypedDict):
    """A step of the level: first window of the new one (from 0), median seconds per I/O of both, and their ratio."""

    index: int
    before: float
    after: float
    ratio: float


class Drift(TypedDict):
    """How the time per I/O moved over the windows; null below three of them.

    ``slope_per_window_rel`` is Theil and Sen's slope over the median, ``first_to_last`` the same over the whole stretch
    (0.1 = a tenth slower at its end), ``trend_p`` the p-value of Mann and Kendall's test.
    """

    slope_per_window_rel: float | None
    first_to_last: float | None
    trend_p: float | None
    change_points: list[ChangePoint]


class Windows(TypedDict):
    """The timed stretches: one per pytest-benchmark round; ``start_ns`` is CLOCK_MONOTONIC.

    ``rel_ci`` is the half-width of the confidence interval of the mean, relative to it, autocorrelation considered;
    null with fewer than two windows.
    """

    count: int
    warmup: int
    ios_per_window: int
    seconds: list[float]
    start_ns: list[int]
    rel_ci: float | None
    precision: float
    stop_reason: StopReason
    warmup_reason: str
    drift: Drift


class Device(TypedDict):
    """What the block layer counted over the measured stretch; all null with a reason when it has no counters.

    ``counted`` names the devices (``major:minor``); ``in_flight`` and ``request_bytes`` are means; ``bytes_ratio`` is
    block-layer bytes / completed bytes.
    """

    known: bool
    reason: str | None
    counted: list[str]
    read_bytes: int | None
    write_bytes: int | None
    read_ios: int | None
    write_ios: int | None
    in_flight: float | None
    request_bytes: float | None
    bytes_ratio: float | None


class Clock(TypedDict):
    """The clock of per-I/O stamps; ``ppm`` is its worst disagreement with CLOCK_MONOTONIC over a window."""

    source: str
    cost_ns: float
    resolution_ns: int
    ppm: float


class Buffers(TypedDict):
    """Destination memory, in bytes."""

    bytes: int
    huge_bytes: int


class Verify(TypedDict):
    """Blocks whose content was checked in the destination memory, and how many were wrong."""

    mode: VerifyMode
    checked: int
    bad: int


class Syncs(TypedDict):
    """Durability mode of writes, and the sync calls made inside the windows."""

    mode: str
    syncs: int
    sync_seconds: float


class Placement(TypedDict):
    """Where workers and buffers were asked to lie and where they did; null where unknown.

    ``requested`` is ``near`` the device, ``any``, or the number of a NUMA node; -1 of ``worker_cpus`` is not pinned;
    ``irq_cpus`` serve the target's interrupts. ``distance`` is from the workers' CPUs to the farthest device
    (``same_node``, ``other_node``, ``unknown``), for the reason in ``evidence``.
    """

    requested: str
    worker_cpus: list[int]
    irq_cpus: list[int] | None
    real_time: NotRequired[bool]
    device_nodes: list[int] | None
    worker_nodes: list[int] | None
    buffer_nodes: list[int] | None
    distance: str
    evidence: str


class Target(TypedDict):
    """The file or device measured; sizes in bytes."""

    name: str
    path: str
    medium: str
    medium_evidence: list[str]
    file_system: str
    mount_options: str
    devices: list[dict[str, Any]]
    file_bytes: int
    region_bytes: int
    alignment: int | None
    alignment_source: str | None


class OpenLoop(TypedDict):
    """Arrivals on a schedule: latency ``lat`` is then the service time, ``response`` counts from the intended start.

    ``offered_rate`` is the drawn schedule's own, ``achieved_rate`` what was completed, both per second; ``late`` counts
    requests sent later than the larger of 200 us and one mean gap; ``lag`` is from intended to real start.
    """

    arrivals: str
    wait: str
    scheduled: int
    late: int
    offered_rate: float
    achieved_rate: float
    lag: Distribution
    response: Distribution


class LibraryCalls(TypedDict):
    """A path that a Python library drives: its settings, and what one request costs, in nanoseconds.

    ``python_ns_per_call`` is what the loop itself takes for a call, measured without the library; ``prepare_ns`` is
    spent ahead of the windows, ``post_ns`` in starting a request, ``transfer_ns`` is what the library says it took.
    """

    settings: dict[str, Any]
    requests_per_call: int
    calls_in_flight: int
    python_ns_per_call: float
    prepare_ns: float | None
    post_ns: float | None
    transfer_ns: float | None


class Cache(TypedDict):
    """Page-cache mode, and bytes of the region resident before and after; null where mincore cannot tell."""

    mode: str
    resident_before: int | None
    resident_after: int | None


#: The verdict of one validity gate (``class`` is a keyword, hence this form).
Gate = TypedDict("Gate", {"gate": str, "class": GateClass, "state": GateState, "detail": str})


class CellRecord(TypedDict):
    """One measured cell. Primary time is seconds per I/O, so pytest-benchmark's OPS column is ``iops``.

    ``seconds`` is the sum of the windows; ``gb_per_s`` counts 10^9 bytes, ``gib_per_s`` 2^30. ``gate_policy`` holds the
    keywords of the test's ``gpuio_gate`` mark, where it has one.
    """

    schema: int
    case: str
    suite: str
    axes: dict[str, str | int]
    phase: str
    unit: Literal["s/io"]
    status: Literal["measured"]
    requested: Requested
    effective: Effective
    ios: int
    reads: int
    writes: int
    bytes: int
    seconds: float
    iops: float
    bytes_per_s: float
    gb_per_s: float
    gib_per_s: float
    latency: Latency
    windows: Windows
    cpu: Cpu
    device: Device
    clock: Clock
    buffers: Buffers
    verify: Verify
    durability: Syncs
    placement: Placement
    target: Target
    cache: Cache
    open_loop: OpenLoop | None
    gpu: Gpu | None
    replay: NotRequired[Replayed]
    surroundings: Surroundings
    gates: list[Gate]
    setup_seconds: float
    seed: int
    profile: str
    cufile: NotRequired[CuFile]
    library: NotRequired[LibraryCalls]
    gpu_meter: NotRequired[GpuMeter]
    ranks: NotRequired[HostRanks]
    gate_policy: NotRequired[dict[str, Any]]


def failed_gates(record: Mapping[str, Any], gate_class: GateClass) -> list[Gate]:
    """The gates of a class that a record did not pass, in order."""
    return [gate for gate in record["gates"] if gate["class"] == gate_class and gate["state"] == "failed"]
