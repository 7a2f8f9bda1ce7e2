"""Sums over a cell's measured windows, from completion records and independent counters."""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from pytest_gpuio.core.drift import Drift, find
from pytest_gpuio.measure.binned import unpack
from pytest_gpuio.measure.plan import Plan
from pytest_gpuio.measure.stopping import relative_ci
from pytest_gpuio.results import histogram


@dataclass(frozen=True, slots=True)
class DeviceView:
    """What the block layer saw: mean requests held, and mean bytes per request."""

    in_flight: float
    request_bytes: float


@dataclass(frozen=True, slots=True)
class LatencyView:
    """What the clock is held against: total latencies in nanoseconds, and how many stamps lie inside one."""

    min_ns: int
    mean_ns: float
    median_ns: float
    stamps: int


@dataclass(frozen=True, slots=True)
class Totals:
    """Sums and ratios over the measured windows; None where something could not be observed.

    Attributes:
        seconds: sum of the windows' durations. costs: seconds per I/O of each window.
        in_flight: time-weighted mean of requests in flight, from the counter at submit and reap.
        little_ratio: throughput x mean latency over ``in_flight``.
        total_in_flight, total_little_ratio: the same from before submission until bytes are in GPU memory, where it is
            reached by copies; ``in_flight`` is then the device's part. None elsewhere.
        device_ratio: block-layer bytes over completed bytes less what may straddle the ends.
        relative_ci: half-width of the mean cost's 95 % confidence interval over the mean, autocorrelation considered.
        half_change: relative change of cost from the first to the second half of the windows.
        drift: trend and steps of the cost over the windows.
        scheduled, late: arrivals of an open loop, and those sent late; 0 in a closed one.
        clock_ppm: worst disagreement of the stamps' clock with CLOCK_MONOTONIC over a window.
    """

    ios: int
    reads: int
    writes: int
    bytes: int
    seconds: float
    costs: tuple[float, ...]
    errors: int
    short_ios: int
    first_error: int
    first_error_op: int
    first_error_offset: int
    fewest_ios: int
    shortest_s: float
    in_flight: float | None
    little_ratio: float | None
    total_in_flight: float | None
    total_little_ratio: float | None
    device: DeviceView | None
    device_ratio: float | None
    resident_growth: int | None
    verified: int
    bad: int
    first_bad: int
    relative_ci: float | None
    half_change: float | None
    drift: Drift
    scheduled: int
    late: int
    clock_ppm: float
    latency: LatencyView | None


def _sum(windows: Sequence[Mapping[str, Any]], name: str) -> Any:
    return sum(window[name] for window in windows)


def _steady(windows: Sequence[Mapping[str, Any]], part: str, mean: str) -> tuple[float | None, float | None]:
    """Mean in flight, and Little's ratio against it, weighted by each window's steady time."""
    time = sum(w.get(f"{part}_ns", 0) for w in windows)
    if not time:
        return None, None
    in_flight = sum(w[mean] * w[f"{part}_ns"] for w in windows) / time
    predicted = sum(
        w[f"{part}_rate"] * (w[f"{part}_lat_ns"] / w[f"{part}_ios"]) / 1e9 * w[f"{part}_ns"]
        for w in windows
        if w[f"{part}_ios"]
    )
    return in_flight, (predicted / time / in_flight if in_flight > 0 else None)


def _half_change(costs: Sequence[float]) -> float | None:
    if len(costs) < 6:
        return None
    middle = len(costs) // 2
    first, second = statistics.median(costs[:middle]), statistics.median(costs[middle:])
    return second / first - 1.0 if first > 0 else None


def _latency(outcome: Mapping[str, Any]) -> LatencyView | None:
    latency = outcome.get("latency")
    if not latency or not latency["lat"]["count"]:
        return None
    lat = latency["lat"]
    median = histogram.quantile(unpack(lat["bins"]), 0.5, lat["min_ns"], lat["max_ns"], overflow=lat["overflow"])
    # Before submit and reaped, each with the counter's own stamp beside it; after submit where that is observed.
    stamps = 3 if latency["slat"]["count"] else 2
    return LatencyView(lat["min_ns"], lat["sum_ns"] / lat["count"], median or 0, stamps)


def _device(
    plan: Plan, counters: Mapping[str, Any] | None, reads: int, writes: int, completed: int, wall: float
) -> tuple[DeviceView | None, float | None]:
    """What the block layer saw of the operations that the cell made, and its bytes over those completed.

    Other operations are strangers': what they write must not stand in for reads that came from a cache, and their
    discards, which take long, must not stand in for depth.
    """
    if counters is None:
        return None, None
    ops = [op for op, count in (("read", reads), ("write", writes)) if count]
    requests = sum(counters[f"{op}_ios"] for op in ops)
    moved = sum(counters[f"{op}_bytes"] for op in ops)
    busy_ms = sum(counters[f"{op}_ticks"] for op in ops)
    view = DeviceView(busy_ms / 1e3 / wall, moved / requests) if requests and wall > 0 else None
    expected = completed - plan.in_flight * plan.bs
    return view, moved / expected if expected > 0 else None


def sum_up(plan: Plan, outcome: Mapping[str, Any]) -> Totals:
    """Totals of a child's outcome.

    Raises:
        ValueError: the outcome holds no window.
    """
    windows: Sequence[Mapping[str, Any]] = outcome["windows"]
    if not windows:
        raise ValueError("no window was measured")
    durations = [(w["end_ns"] - w["start_ns"]) / 1e9 for w in windows]
    costs = tuple(seconds / max(w["ios"], 1) for seconds, w in zip(durations, windows, strict=True))
    failed = next((w for w in windows if w["errors"]), windows[0])
    in_flight, little = _steady(windows, "steady", "mean_in_flight")
    total_in_flight, total_little = _steady(windows, "total", "total_in_flight")
    device, ratio = _device(
        plan,
        outcome["counters"],
        _sum(windows, "reads"),
        _sum(windows, "writes"),
        _sum(windows, "bytes"),
        sum(durations),
    )
    before, after = outcome["resident_before"], outcome["resident_after"]
    sweep = outcome["sweep"] or {"checked": 0, "bad": 0, "first_bad": 0}
    bad_window = next((w for w in windows if w["bad"]), None)
    return Totals(
        ios=_sum(windows, "ios"),
        reads=_sum(windows, "reads"),
        writes=_sum(windows, "writes"),
        bytes=_sum(windows, "bytes"),
        seconds=sum(durations),
        costs=costs,
        errors=_sum(windows, "errors"),
        short_ios=_sum(windows, "short_ios"),
        first_error=failed["first_error"],
        first_error_op=failed["first_error_op"],
        first_error_offset=failed["first_error_offset"],
        fewest_ios=min(w["ios"] for w in windows),
        shortest_s=min(durations),
        in_flight=in_flight,
        little_ratio=little,
        total_in_flight=total_in_flight,
        total_little_ratio=total_little,
        device=device,
        device_ratio=ratio,
        resident_growth=None if before is None or after is None else after - before,
        verified=_sum(windows, "verified") + sweep["checked"],
        bad=_sum(windows, "bad") + sweep["bad"],
        first_bad=bad_window["first_bad_offset"] if bad_window else sweep["first_bad"],
        relative_ci=relative_ci(costs),
        half_change=_half_change(costs),
        drift=find(costs),
        scheduled=_sum(windows, "scheduled"),
        late=_sum(windows, "late"),
        clock_ppm=max(w["clock_ppm"] for w in windows),
        latency=_latency(outcome),
    )
