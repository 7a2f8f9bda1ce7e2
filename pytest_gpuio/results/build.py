"""Builders of records: they derive every total and rate, so that no caller can state one that disagrees."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from pytest_gpuio.core.cell import Cell
from pytest_gpuio.results import histogram
from pytest_gpuio.results.record import (
    SCHEMA,
    Buffers,
    Cache,
    CellRecord,
    Clock,
    Cpu,
    CpuThread,
    CuFile,
    Device,
    Distribution,
    Effective,
    Gate,
    Gpu,
    GpuMeter,
    Latency,
    LibraryCalls,
    Metered,
    OpenLoop,
    Placement,
    Replayed,
    Requested,
    Surroundings,
    Syncs,
    Target,
    Verify,
    Windows,
)


def distribution(
    *, count: int, overflow: int, min_ns: int, max_ns: int, sum_ns: int, bins: Mapping[int, int]
) -> Distribution:
    """Distribution of one kind of latency, as the engine's histogram gives it; all figures null when empty.

    Args:
        count: all values, overflow included.
        overflow: values in no bin.
        min_ns: smallest value; ignored when empty.
        max_ns: largest value; ignored when empty.
        sum_ns: of all values.
        bins: counts by bin index; see :mod:`pytest_gpuio.results.histogram`.

    Raises:
        ValueError: bins and overflow do not add up to the count.
    """
    if sum(bins.values()) + overflow != count:
        raise ValueError(f"histogram bins hold {sum(bins.values())} values and {overflow} overflowed, not {count}")

    def percentile(q: float) -> int | None:
        return histogram.quantile(bins, q, min_ns, max_ns, overflow=overflow) if count else None

    return {
        "count": count,
        "overflow": overflow,
        "min_ns": min_ns if count else None,
        "mean_ns": sum_ns / count if count else None,
        "p50_ns": percentile(0.5),
        "p90_ns": percentile(0.9),
        "p95_ns": percentile(0.95),
        "p99_ns": percentile(0.99),
        "p999_ns": percentile(0.999),
        "max_ns": max_ns if count else None,
        "histogram": histogram.encode(bins),
    }


def unknown_device(reason: str) -> Device:
    """The device block of a target without block-layer counters."""
    return {
        "known": False,
        "reason": reason,
        "counted": [],
        "read_bytes": None,
        "write_bytes": None,
        "read_ios": None,
        "write_ios": None,
        "in_flight": None,
        "request_bytes": None,
        "bytes_ratio": None,
    }


def cpu_cost(
    *,
    seconds: float,
    user_s: float,
    system_s: float,
    threads: Sequence[CpuThread],
    voluntary_switches: int,
    involuntary_switches: int,
    minor_faults: int,
    major_faults: int,
    wall_s: float,
    ios: int,
    bytes_moved: int,
    qd: int,
    polling_s: Sequence[float],
    metered: Metered,
) -> Cpu:
    """The CPU block; sums over all windows in, derived costs out.

    Args:
        seconds: CLOCK_PROCESS_CPUTIME_ID of the measuring child over the windows.
        user_s: of getrusage.
        system_s: of getrusage.
        threads: split by thread.
        voluntary_switches: of getrusage.
        involuntary_switches: of getrusage.
        minor_faults: of getrusage.
        major_faults: of getrusage.
        wall_s: sum of the windows, in seconds, above zero.
        ios: completed requests, above zero.
        bytes_moved: completed bytes.
        qd: requested queue depth per job, for the load point.
        polling_s: CPU seconds of each thread that polls; its core is taken, whether it works, waits or sleeps.
        metered: what goes into the record as it is; its interrupts and daemons are part of the cost.
    """
    daemons_s = math.fsum(daemon["seconds"] for daemon in metered["daemons"])
    cost = math.fsum((seconds, metered["irq_s"] or 0.0, metered["softirq_s"] or 0.0, daemons_s))
    reserved = math.fsum((cost, *(max(wall_s - polled, 0.0) for polled in polling_s)))
    return {
        **metered,
        "seconds": seconds,
        "user_s": user_s,
        "system_s": system_s,
        "cores_used": cost / wall_s,
        "cores_reserved": reserved / wall_s,
        "gb_per_s_per_core": bytes_moved / 1e9 / cost if cost > 0 else None,
        "gb_per_s_per_core_reserved": bytes_moved / 1e9 / reserved if reserved > 0 else None,
        "ns_per_io": cost * 1e9 / ios,
        "threads": list(threads),
        "voluntary_switches": voluntary_switches,
        "involuntary_switches": involuntary_switches,
        "minor_faults": minor_faults,
        "major_faults": major_faults,
        "load_point": {"qd": qd, "iops": ios / wall_s},
    }


def cell_record(
    cell: Cell,
    *,
    requested: Requested,
    effective: Effective,
    reads: int,
    writes: int,
    bytes_moved: int,
    latency: Latency,
    windows: Windows,
    cpu: Cpu,
    device: Device,
    clock: Clock,
    buffers: Buffers,
    verify: Verify,
    durability: Syncs,
    placement: Placement,
    target: Target,
    cache: Cache,
    open_loop: OpenLoop | None,
    gpu: Gpu | None,
    surroundings: Surroundings,
    gates: Sequence[Gate],
    setup_seconds: float,
    seed: int,
    profile: str,
    replay: Replayed | None = None,
    cufile: CuFile | None = None,
    library: LibraryCalls | None = None,
    gpu_meter: GpuMeter | None = None,
) -> CellRecord:
    """The record of a measured cell; totals and rates come from the windows.

    Blocks that are None by default belong to some data paths only and are left out of the record without them.

    Raises:
        ValueError: no window, or reads and writes do not add up to what the windows hold.
    """
    ios = windows["count"] * windows["ios_per_window"]
    seconds = math.fsum(windows["seconds"])
    if windows["count"] != len(windows["seconds"]) or not ios or seconds <= 0:
        raise ValueError(f"a measured cell needs windows, not {windows}")
    if reads + writes != ios:
        raise ValueError(f"{reads} reads and {writes} writes are not the {ios} I/Os of the windows")
    bytes_per_s = bytes_moved / seconds
    made: CellRecord = {
        "schema": SCHEMA,
        "case": cell.case,
        "suite": cell.suite,
        "axes": dict(cell.axes()),
        "phase": cell.phase,
        "unit": "s/io",
        "status": "measured",
        "requested": requested,
        "effective": effective,
        "ios": ios,
        "reads": reads,
        "writes": writes,
        "bytes": bytes_moved,
        "seconds": seconds,
        "iops": ios / seconds,
        "bytes_per_s": bytes_per_s,
        "gb_per_s": bytes_per_s / 1e9,
        "gib_per_s": bytes_per_s / 2**30,
        "latency": latency,
        "windows": windows,
        "cpu": cpu,
        "device": device,
        "clock": clock,
        "buffers": buffers,
        "verify": verify,
        "durability": durability,
        "placement": placement,
        "target": target,
        "cache": cache,
        "open_loop": open_loop,
        "gpu": gpu,
        "surroundings": surroundings,
        "gates": list(gates),
        "setup_seconds": setup_seconds,
        "seed": seed,
        "profile": profile,
    }
    if replay is not None:
        made["replay"] = replay
    if cufile is not None:
        made["cufile"] = cufile
    if library is not None:
        made["library"] = library
    if gpu_meter is not None:
        made["gpu_meter"] = gpu_meter
    return made
