"""The record of one measured cell, schema version 1: what ``extra_info["gpuio"]`` holds."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, Literal, NotRequired, TypedDict

#: Raised only when a reader of the older version would be misled.
SCHEMA: Final = 1

StopReason = Literal["precision", "max_time", "max_windows", "interrupted"]
ThreadRole = Literal["submitter", "kernel_helper", "library", "other"]
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


class Distribution(TypedDict):
    """A latency distribution in nanoseconds; figures are null when ``count`` is 0.

    ``overflow`` values at or above 2^42 ns are in ``count``, ``mean_ns`` and ``max_ns``, not in the histogram.
    """

    count: int
    overflow: int
    min_ns: int | None
    mean_ns: float | None
    p50_ns: int | None
    p90_ns: int | None
    p95_ns: int | None
    p99_ns: int | None
    p999_ns: int | None
    max_ns: int | None
    histogram: str


class Latency(TypedDict):
    """Total latency, completion latency (after submit .. reaped), and submission latency with its reason if null.

    The total ends when the bytes are in the destination memory; the others are the storage device's part.
    """

    lat: Distribution
    clat: Distribution
    slat: Distribution | None
    slat_reason: str | None


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


class CpuThread(TypedDict):
    """CPU seconds of one thread of the measuring child; ``tid`` is null for the rest, which is no single thread."""

    name: str
    role: ThreadRole
    seconds: float
    tid: int | None


class Daemon(TypedDict):
    """CPU seconds of a process outside that worked for the cell."""

    pid: int
    name: str
    seconds: float


class Control(TypedDict):
    """The host's CPU over the measured stretch, gaps between windows included, set against the account.

    ``truth_s`` is online CPUs x wall less idle, iowait and steal; ``parts_s`` the child's CPU, interrupts outside of
    tasks and daemons; ``elsewhere_s`` that of all other processes, ``elsewhere`` by name; ``no_task_s`` what was spent
    while no task ran (interrupts that met an idle CPU), null where the kernel does not tell; ``unattributed_s`` =
    truth - parts - elsewhere - no task, ``unattributed_share`` relative to the truth. ``reason`` says why it is not
    trusted.
    ``uncertainty_s`` is by how much the figures may miss each other; ``idle_cores`` is what the host used while nothing
    was measured, null where that was not watched.
    """

    trusted: bool
    reason: str | None
    seconds: float
    truth_s: float | None
    parts_s: float
    elsewhere_s: float
    elsewhere: dict[str, float]
    no_task_s: float | None
    unattributed_s: float | None
    unattributed_share: float | None
    uncertainty_s: float
    idle_cores: float | None


class LoadPoint(TypedDict):
    """The load a CPU cost belongs to: rank orders at depth 1 and at saturation are opposite."""

    qd: int
    iops: float


class Metered(TypedDict):
    """What the meter saw beside the child's own clocks; null where unknown, with the reason.

    ``irq_s`` and ``softirq_s`` are interrupt time that no task's clock holds; ``irq_reason`` says whose, or why null.
    ``sq_useful_share`` is work over CPU time of the submission pollers. ``runqueue_wait_s`` is what the child's living
    threads waited for a CPU, ``steal_s`` what the hypervisor took from all CPUs, both over the measured stretch.
    ``cycles_per_io`` and ``instructions_per_io`` are those of the last warm-up window.
    """

    irq_s: float | None
    softirq_s: float | None
    irq_reason: str | None
    daemons: list[Daemon]
    sq_useful_share: float | None
    sq_reason: str | None
    cycles_per_io: float | None
    instructions_per_io: float | None
    perf_reason: str | None
    runqueue_wait_s: float | None
    steal_s: float | None
    control: Control


class Cpu(Metered):
    """CPU of the windows: the measuring child's ``seconds``, plus interrupts outside of tasks and daemons.

    ``cores_used`` is all of it over the windows' time; ``cores_reserved`` counts a whole core for each thread that
    polls. The figures per core are null when that was too little to see.
    """

    seconds: float
    user_s: float
    system_s: float
    cores_used: float
    cores_reserved: float
    gb_per_s_per_core: float | None
    gb_per_s_per_core_reserved: float | None
    ns_per_io: float
    threads: list[CpuThread]
    voluntary_switches: int
    involuntary_switches: int
    minor_faults: int
    major_faults: int
    load_point: LoadPoint


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


class GpuShare(TypedDict):
    """One GPU and what its group of workers did: ``seconds`` from its first worker's start to its last one's end.

    ``distance`` is from it to the farthest of the target's devices (``same_switch``, ``same_root_complex``,
    ``same_node``, ``other_node``, ``unknown``), for the reason in ``evidence``; absent without devices.
    """

    ordinal: int
    name: str
    uuid: str
    bus_id: str
    workers: int
    ios: int
    bytes: int
    seconds: float
    gb_per_s: float
    cpu_seconds: float
    distance: NotRequired[str]
    evidence: NotRequired[str]


class Copies(TypedDict):
    """How bytes went between page-locked host memory and GPU memory, beside the I/O.

    ``wait``, ``streams`` (of each worker) and ``ahead`` (staging slots beyond the depth) were asked for or chosen;
    ``calls`` counts copies, fewer than requests where neighbours went together, and ``bytes`` what they moved, gaps
    included. ``staging_bytes`` of host memory were mapped in ``map_seconds`` and page-locked in ``pin_seconds``, once
    for many cells and outside every window. ``device`` is the latency at the storage device, ``latency`` that of the
    copies (as seen by the worker, which looks when it has nothing to send), ``in_flight`` the mean number of requests
    on their whole way.
    """

    wait: str
    streams: int
    ahead: int
    calls: int
    bytes: int
    staging_bytes: int
    staging_huge_bytes: int
    map_seconds: float
    pin_seconds: float
    device: Distribution
    latency: Distribution
    in_flight: float | None


class Gpu(TypedDict):
    """The GPUs at the end of the way, and how data was checked there.

    ``cores`` are the CPUs that the run may use. ``copies`` is null where the data path reaches GPU memory by itself;
    ``driver_version`` is the CUDA version that the driver knows.
    """

    driver_version: str
    cores: int
    check: str
    shares: list[GpuShare]
    copies: Copies | None


class Completion(TypedDict):
    """Groups of a model from when they might start to their last record's end; ``over_ms``: shares above limits.

    They are those that a first token waits for, where a model has such, else all. ``ttft_share`` is what part of the
    time to first token they are (fetch over fetch and prefill), of all together and at the median. ``stages`` tells
    kinds of groups apart where there are several.
    """

    groups: int
    mean_ns: float
    p50_ns: int
    p95_ns: int
    p99_ns: int
    max_ns: int
    over_ms: dict[str, float]
    requests: NotRequired[int]
    ttft_share: NotRequired[float | None]
    ttft_share_p50: NotRequired[float | None]
    stages: NotRequired[dict[str, dict[str, int]]]


class Background(TypedDict):
    """Saves in the background of steps: the copy to the host, what a save costs the steps, and when it is durable.

    ``snapshot_s`` is computed (bytes over the speed of the copy), and part of both others.
    """

    snapshot_s: float
    stall_s: float
    durable_s: float


class Lag(TypedDict):
    """How late groups with an intended start began; ``within_1ms`` is the share of them that were not later."""

    groups: int
    p50_ns: int
    p99_ns: int
    max_ns: int
    within_1ms: float


class KernelSteps(TypedDict):
    """Steps that kernels on the GPU computed, timed by the GPU.

    A usual step of ``step_ns`` took ``alone_ns`` while no I/O went on, ``alone_drift`` is that after the measurement
    over that before; all steps together were to take ``given_s`` and took ``took_s``. ``stretch`` is how much longer
    they took than alone: above 1 is what the I/O took from them.
    """

    step_ns: int
    alone_ns: float
    alone_drift: float
    given_s: float
    took_s: float
    stretch: float


class StallRecord(TypedDict):
    """The emulated accelerator of the chain that fared worst.

    ``utilization`` is as MLPerf Storage defines it: compute over running time without the first step; with ``kernel``
    compute is what the steps take alone, without it computing was time that passed.
    """

    utilization: float | None
    compute_s: float
    stall_s: float
    longest_stall_s: float
    steps_per_s: float
    kernel: NotRequired[KernelSteps]


class Ranks(TypedDict):
    """Ranks between two barriers: the slowest one's seconds and the lowest one's GB/s; medians over the windows.

    ``processes`` says in how many they ran.
    """

    count: int
    processes: int
    max_rank_s: float
    min_rank_gb_per_s: float


class Deciding(TypedDict):
    """The figure that decides between data paths for this workload."""

    metric: Literal["utilization", "durable", "resident", "completion_p99", "stall", "throughput"]
    value: float
    unit: Literal["share", "s", "B/s"]
    better: Literal["higher", "lower"]


class Replayed(TypedDict):
    """A model whose records were issued; counts and bytes are of one window.

    ``groups`` of ``groups_in_model`` fit the time; ``wanted_bytes`` is what the application asks for, ``moved_bytes``
    what was read and written, since direct I/O is rounded (``amplification`` is their ratio); ``largest_request`` is
    the application's, sent in pieces of the cell's block size.
    """

    model: str
    parameters: dict[str, str]
    note: str
    records: int
    groups: int
    groups_in_model: int
    chains: int
    concurrency: int
    files: int
    file_bytes: int
    wanted_bytes: int
    moved_bytes: int
    amplification: float
    largest_request: int
    timed: bool
    completion: Completion
    stall: StallRecord | None
    ranks: Ranks
    cpu_s_per_gb: float | None
    deciding: Deciding
    background: NotRequired[Background]
    lag: NotRequired[Lag]


class LongestWait(TypedDict):
    """The thread of the measuring child that was ready to run without a CPU for longest, and for how many seconds."""

    thread: str
    seconds: float


class Temperature(TypedDict):
    """Degrees Celsius of a drive before and after the measured stretch."""

    device: str
    before: float | None
    after: float


class Surroundings(TypedDict):
    """What else went on over the measured stretch; null where the machine does not tell.

    ``steal_share`` of the workers' CPUs' time the hypervisor took (``steal_ticks`` of it), ``cpu_throttles`` counts
    slow-downs for heat, ``quota_stops`` stops because a CPU quota was used up, ``hot`` names drives at their own
    warning limit, ``io_limits`` the control group's limits.
    """

    steal_share: float | None
    steal_ticks: int
    cpu_throttles: int | None
    quota_stops: int | None
    longest_wait: LongestWait | None
    temperatures: list[Temperature]
    hot: list[str]
    io_limits: list[str]


class CuFile(TypedDict):
    """cuFile in the measuring child: settings in effect, and what grew over the measured stretch.

    ``libraries`` are the files that were mapped; ``settings_sha256`` of the cufile.json in effect, which began with
    ``settings_source`` (null = the library's defaults); ``properties`` as the driver told them, sizes in bytes.
    ``counters`` is null where there are none that can be believed; ``nvidia_fs_ops`` is the kernel module's own count.
    """

    mode: Literal["strict", "compat"]
    libraries: list[str]
    release: str
    settings_sha256: str
    settings_source: str | None
    may_fall_back: bool | None
    properties: dict[str, int]
    counters: dict[str, int] | None
    nvidia_fs_loaded: bool
    nvidia_fs_version: str | None
    nvidia_fs_ops: int | None


class MeteredGpu(TypedDict):
    """A GPU over the measured stretch, gaps between windows included, as NVML tells it; null where it does not.

    PCI Express rates count protocol bytes, too; ``pcie_source`` says whose they are. ``sm_active``, ``graphics_active``
    and ``memory_active`` are shares of 1. Clocks, ``temperature`` (degrees Celsius) and ``contexts`` are those at the
    end; ``slowed`` lists reasons for lower clocks seen at either end.
    """

    ordinal: int
    seconds: float
    pcie_rx_bytes_per_s: float | None
    pcie_tx_bytes_per_s: float | None
    pcie_source: Literal["gpm", "counters"] | None
    sm_active: float | None
    graphics_active: float | None
    memory_active: float | None
    sm_clock_hz: int | None
    memory_clock_hz: int | None
    temperature: int | None
    contexts: int | None
    memory_used_before: int | None
    memory_used_after: int | None
    slowed: list[str] | None


class GpuMeter(TypedDict):
    """What NVIDIA's management library said of the cell's GPUs, or why it said nothing."""

    reason: str | None
    gpus: list[MeteredGpu]


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


class HostRank(TypedDict):
    """What one rank of a cell on several ranks did over its measured windows.

    ``cpu_seconds`` are its measuring child's, ``cores_used`` those over ``seconds``; ``gpus`` are ordinals on its host.
    ``clock_offset_s`` is its host's CLOCK_MONOTONIC less rank 0's, half the fastest round trip being the uncertainty;
    ``clock_drift_s`` is how much the offset had changed at the cell's end.
    """

    rank: int
    host: str
    target: str
    ios: int
    bytes: int
    seconds: float
    gb_per_s: float
    cpu_seconds: float
    cores_used: float
    gpus: list[int]
    clock_offset_s: float
    clock_uncertainty_s: float
    clock_drift_s: float


class Straggler(TypedDict):
    """A rank well below the median rank's rate."""

    rank: int
    host: str
    share_of_median_rate: float


class HostRanks(TypedDict):
    """Ranks, on one host or several, whose windows began at one time.

    ``max_rank_s`` is the slowest rank's window (median over windows), ``min_rank_gb_per_s`` the slowest rank's rate,
    ``start_spread_s`` the worst distance between the first and the last rank's start of a window.
    """

    count: int
    hosts: int
    max_rank_s: float
    min_rank_gb_per_s: float
    start_spread_s: float
    clock_uncertainty_s: float
    stragglers: list[Straggler]
    each: list[HostRank]


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
