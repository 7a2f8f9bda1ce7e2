"""GPUs: each one's share, copies, cuFile's settings and counters, and the meter."""

from __future__ import annotations

from typing import Literal, NotRequired, TypedDict

from pytest_gpuio.results.record.latency import Distribution


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
