"""Validity gates: is this number possible, and is it steady? Pure functions of what was observed."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final, Literal

from pytest_gpuio.core.errors import errno_text
from pytest_gpuio.datapaths import DataPath, Proof
from pytest_gpuio.measure.plan import LEAST_WINDOW_S, Plan
from pytest_gpuio.measure.totals import Totals

GateClass = Literal["impossible", "unsettled", "warning"]
State = Literal["passed", "failed", "unknown", "exempt"]

LITTLE_TOLERANCE: Final = 0.05
DEPTH_VOID: Final = 0.5
DEPTH_TOOL_BOUND: Final = 0.9
DEVICE_DEPTH: Final = 0.25
DEVICE_BYTES: Final = 0.95
#: Relative CI above which a result is true but not steady, however wide a precision the user asked for.
STABLE_CI: Final = 0.05
#: The engine's offset of an error that belongs to no request.
_SYNC_FAILED: Final = 2**64 - 1


@dataclass(frozen=True, slots=True)
class Observed:
    """What the gates look at: the plan, the data path, the child's outcome and the sums over its windows."""

    plan: Plan
    path: DataPath
    medium: str
    outcome: Mapping[str, Any]
    totals: Totals
    proof: Proof


@dataclass(frozen=True, slots=True)
class Finding:
    """A gate's answer; ``detail`` is a sentence with the figures."""

    state: State
    detail: str


@dataclass(frozen=True, slots=True)
class Gate:
    """A named check. ``impossible`` voids the cell, ``unsettled`` flags it, ``warning`` only tells."""

    name: str
    kind: GateClass
    check: Callable[[Observed], Finding]


@dataclass(frozen=True, slots=True)
class GateResult:
    """A gate with its answer."""

    gate: str
    kind: GateClass
    state: State
    detail: str


def _judge(good: bool, detail: str) -> Finding:
    return Finding("passed" if good else "failed", detail)


def _no_errors(seen: Observed) -> Finding:
    totals = seen.totals
    if not totals.errors:
        return Finding("passed", f"{totals.ios:,} requests, no error")
    if totals.first_error_offset == _SYNC_FAILED:
        detail = f"fsync or fdatasync of {seen.plan.path} failed: {errno_text(totals.first_error)}"
        return Finding("failed", detail)
    op = "write" if totals.first_error_op else "read"
    return Finding(
        "failed",
        f"{totals.errors:,} requests failed; the first was a {op} of {seen.plan.bs:,} bytes at offset "
        f"{totals.first_error_offset:,} of {seen.plan.path}: {errno_text(totals.first_error)}",
    )


def _no_short_io(seen: Observed) -> Finding:
    short = seen.totals.short_ios
    if not short:
        return Finding("passed", "every request moved all its bytes")
    return Finding(
        "failed",
        f"{short:,} requests moved fewer than {seen.plan.bs:,} bytes: {seen.plan.path} is shorter than laid out; "
        "delete it, it is laid out again",
    )


def _enough_io(seen: Observed) -> Finding:
    least = seen.plan.least_ios
    fewest, shortest = seen.totals.fewest_ios, seen.totals.shortest_s
    good = fewest >= least and shortest >= LEAST_WINDOW_S
    return _judge(
        good,
        f"smallest window {fewest:,} requests in {shortest:.3f} s; needs {least:,} requests and {LEAST_WINDOW_S} s"
        + ("" if good else ": use a larger --gpuio-size, or a lower --gpuio-qd"),
    )


def _littles_law(seen: Observed) -> Finding:
    if not seen.path.moves_data:
        return Finding("exempt", "null: latencies are of the clock's own order")
    ratio = seen.totals.little_ratio
    if ratio is None:
        return Finding("unknown", "no steady stretch between ramp and drain")
    return _judge(
        abs(ratio - 1.0) <= LITTLE_TOLERANCE,
        f"throughput x mean latency is {ratio:.3f} of the requests counted in flight (limit 1 +- {LITTLE_TOLERANCE})",
    )


def _depth_achieved(seen: Observed) -> Finding:
    plan, totals = seen.plan, seen.totals
    if not seen.path.moves_data:
        return Finding("exempt", "null: nothing is ever in flight")
    if totals.in_flight is None:
        return Finding("unknown", "no steady stretch between ramp and drain")
    share = totals.in_flight / plan.in_flight
    detail = f"{totals.in_flight:.2f} of {plan.in_flight} requests in flight"
    if share < DEPTH_VOID:
        return Finding("failed", f"{detail}: below {DEPTH_VOID:.0%} of what the cell is called")
    device = seen.totals.device
    # Flushes count as requests without bytes, so a mean request says nothing about depth when every write brings one.
    flushes = plan.dsync or plan.sync != "none"
    # One request at a time has no depth to miss, and memory that answers inside the submit call has no queue.
    if (
        plan.cache == "direct"
        and not flushes
        and plan.in_flight > 1
        and not seen.path.synchronous
        and seen.medium not in ("ram", "null_blk")
    ):
        if device is None:
            return Finding("passed", f"{detail}; device depth unknown: no counters")
        device_share = device.in_flight * device.request_bytes / (plan.in_flight * plan.bs)
        detail += (
            f"; device held {device.in_flight:.2f} requests of {device.request_bytes:,.0f} bytes "
            f"({device_share:.0%} of depth x block, limit {DEVICE_DEPTH:.0%})"
        )
        return _judge(device_share >= DEVICE_DEPTH, detail)
    return Finding("passed", detail)


def _device_bytes(seen: Observed) -> Finding:
    plan, totals = seen.plan, seen.totals
    if not seen.path.moves_data:
        return Finding("exempt", "null: no bytes moved")
    if plan.cache != "direct":
        return Finding("exempt", f"page cache used on purpose ({plan.cache})")
    growth = totals.resident_growth
    if growth is not None and growth > plan.in_flight * plan.bs:
        return Finding("failed", f"the page cache of {plan.path} grew by {growth:,} bytes: not direct I/O")
    if totals.device_ratio is None:
        return Finding("unknown", "no block-layer counters for this target")
    return _judge(
        totals.device_ratio >= DEVICE_BYTES,
        f"block layer moved {totals.device_ratio:.3f} of the bytes completed (limit {DEVICE_BYTES})"
        + ("" if totals.device_ratio >= DEVICE_BYTES else ": some were served from a cache"),
    )


def _data_verified(seen: Observed) -> Finding:
    if not seen.path.moves_data:
        return Finding("exempt", "null: no data")
    checked, bad = seen.totals.verified, seen.totals.bad
    if bad:
        return Finding(
            "failed", f"{bad:,} of {checked:,} blocks hold wrong data; first at offset {seen.totals.first_bad:,}"
        )
    if seen.plan.verify == "none":
        return Finding("unknown", "switched off by --gpuio-verify=none")
    return _judge(
        checked > 0, f"{checked:,} blocks checked in destination memory" if checked else "no block was checked"
    )


def _path_proved(seen: Observed) -> Finding:
    effective = seen.proof.effective
    if effective == seen.path.name:
        return Finding("passed", "; ".join(seen.proof.sentences))
    return Finding(
        "failed", f"asked for {seen.path.name}, got {effective or 'something else'}: {'; '.join(seen.proof.sentences)}"
    )


def _stable(seen: Observed) -> Finding:
    ci = seen.totals.relative_ci
    if ci is None:
        return Finding("failed", "fewer than two windows: no spread can be told")
    limit = max(STABLE_CI, seen.plan.precision)
    halves = seen.totals.half_change
    drift = f", second half {halves:+.1%} against the first" if halves is not None else ""
    good = ci <= limit and (halves is None or abs(halves) <= 2 * limit)
    return _judge(good, f"mean known to +-{ci:.1%}{drift} (limits {limit:.0%} and {2 * limit:.0%})")


def _tool_bound(seen: Observed) -> Finding:
    if not seen.path.moves_data or seen.totals.in_flight is None:
        return Finding("exempt", "no depth to compare")
    share = seen.totals.in_flight / seen.plan.in_flight
    return _judge(share >= DEPTH_TOOL_BOUND, f"{share:.0%} of the asked depth was in flight")


def _requests_whole(seen: Observed) -> Finding:
    device = seen.totals.device
    if device is None or seen.plan.cache != "direct":
        return Finding("unknown", "no block-layer counters, or buffered")
    good = device.request_bytes >= 0.9 * seen.plan.bs
    return _judge(good, f"the device saw requests of {device.request_bytes:,.0f} bytes, block {seen.plan.bs:,}")


def _physical_device(seen: Observed) -> Finding:
    if not seen.path.moves_data:
        return Finding("exempt", "null: no device")
    good = seen.medium not in ("virtual", "unknown")
    return _judge(good, "" if good else f"medium {seen.medium}: a cache of the host may answer")


#: Order of reporting: the first failed impossible gate names the void.
GATES: Final = (
    Gate("no_errors", "impossible", _no_errors),
    Gate("no_short_io", "impossible", _no_short_io),
    Gate("enough_io", "impossible", _enough_io),
    Gate("path_proved", "impossible", _path_proved),
    Gate("device_bytes", "impossible", _device_bytes),
    Gate("data_verified", "impossible", _data_verified),
    Gate("depth_achieved", "impossible", _depth_achieved),
    Gate("littles_law", "impossible", _littles_law),
    Gate("stable", "unsettled", _stable),
    Gate("tool_bound", "warning", _tool_bound),
    Gate("requests_whole", "warning", _requests_whole),
    Gate("physical_device", "warning", _physical_device),
)


def check(seen: Observed) -> tuple[GateResult, ...]:
    """Every gate's answer, in the order of :data:`GATES`."""
    results = []
    for gate in GATES:
        finding = gate.check(seen)
        results.append(GateResult(gate.name, gate.kind, finding.state, finding.detail))
    return tuple(results)
