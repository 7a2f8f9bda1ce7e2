"""A workload that is a model: completion, stalls, lag, and what decides."""

from __future__ import annotations

from typing import Literal, NotRequired, TypedDict


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
