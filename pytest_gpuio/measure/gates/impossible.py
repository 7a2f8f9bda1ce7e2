"""Gates on the I/O itself: did it succeed, was it whole, was it the one asked for?"""

from __future__ import annotations

from typing import Final

from pytest_gpuio.core.errors import errno_text
from pytest_gpuio.measure.gates.verdict import Finding, Observed, judge

#: A queue that calls fill one by one while each waits for its I/O, and that is then emptied, holds half on average:
#: that must not pass by a hair.
DEPTH_VOID: Final = 0.55
DEVICE_DEPTH: Final = 0.25
#: Seconds that one pass over the records of a model lasts at least.
LEAST_PASS_S: Final = 0.002
DEVICE_BYTES: Final = 0.95
#: The engine's offset of an error that belongs to no request.
_SYNC_FAILED: Final = 2**64 - 1


def no_errors(seen: Observed) -> Finding:
    """Failed requests are fast."""
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


def no_short_io(seen: Observed) -> Finding:
    """Short requests are fast."""
    short = seen.totals.short_ios
    if not short:
        return Finding("passed", "every request moved all its bytes")
    return Finding(
        "failed",
        f"{short:,} requests moved fewer than {seen.plan.bs:,} bytes: {seen.plan.path} ended before them: a "
        "device was pulled out or shrank, or a file was cut (delete it, it is laid out again)",
    )


def enough_io(seen: Observed) -> Finding:
    """At the ends of a window the queue is not full."""
    least = seen.plan.least_ios
    fewest, shortest = seen.totals.fewest_ios, seen.totals.shortest_s
    least_s = seen.plan.least_window_s
    good = fewest >= least and shortest >= least_s
    if seen.plan.replay is not None and not seen.path.moves_data:
        return Finding(
            "exempt", f"null: a pass over the records takes no time; {fewest:,} requests in {shortest:.6f} s"
        )
    if seen.plan.replay is not None:
        # Beginning and end of a pass are part of the model: only the clock and the barrier must weigh nothing.
        return judge(
            shortest >= LEAST_PASS_S,
            f"shortest pass {fewest:,} requests in {shortest:.3f} s; needs {LEAST_PASS_S} s"
            + ("" if shortest >= LEAST_PASS_S else ": use a larger --gpuio-scale"),
        )
    return judge(
        good,
        f"smallest window {fewest:,} requests in {shortest:.3f} s; needs {least:,} requests and {least_s:g} s"
        + ("" if good else ": use a larger --gpuio-size, or a lower --gpuio-qd"),
    )


def depth_achieved(seen: Observed) -> Finding:
    """A cell is named by its depth."""
    plan, totals = seen.plan, seen.totals
    if not seen.path.moves_data:
        return Finding("exempt", "null: nothing is ever in flight")
    if plan.replay is not None:
        return Finding("exempt", "given records: the depth is a ceiling, the model decides what is in flight")
    if plan.open_loop:
        return Finding("exempt", "open loop: the depth is a ceiling, arrivals decide what is in flight")
    if totals.in_flight is None:
        return Finding("unknown", "no steady stretch between ramp and drain")
    share = totals.in_flight / plan.in_flight
    detail = f"{totals.in_flight:.2f} of {plan.in_flight} requests in flight"
    # A thread that makes one request at a time has no depth to miss, and memory answers inside the submit call, so that
    # there is no queue: what is lacking is the tool's own time, which `tool_bound` tells.
    if seen.path.synchronous or seen.medium in ("ram", "null_blk") or plan.cache == "hot":
        return Finding("passed", f"{detail}; no queue to fill: one request at a time, or memory")
    if plan.sync == "every":
        # Each drain before a sync empties the queue, by order of the cell.
        return Finding("passed", f"{detail}; emptied before each sync, every {plan.sync_every} writes")
    if share < DEPTH_VOID:
        return Finding("failed", f"{detail}: below {DEPTH_VOID:.0%} of what the cell is called")
    device = seen.totals.device
    # Flushes count as requests without bytes, so a mean request says nothing about depth when every write brings one.
    flushes = plan.dsync or plan.sync != "none"
    # What is written through the page cache reaches the device when and as the kernel likes.
    cold_reads = plan.cache == "cold" and not totals.writes
    if (plan.cache == "direct" or cold_reads) and not flushes and plan.in_flight > 1:
        if device is None:
            return Finding("passed", f"{detail}; device depth unknown: no counters")
        reached = device_share(seen)
        detail += (
            f"; device held {device.in_flight:.2f} requests of {device.request_bytes:,.0f} bytes "
            f"({reached:.0%} of depth x block, limit {DEVICE_DEPTH:.0%})"
        )
        if reached < DEVICE_DEPTH and plan.cache == "direct" and (totals.device_ratio or 0.0) >= DEVICE_BYTES:
            # The bytes are the device's, so it is just faster than the submitter: true, and the tool's limit.
            return Finding("passed", f"{detail}: the rest waited for the CPU")
        return judge(reached >= DEVICE_DEPTH, detail)
    return Finding("passed", detail)


def device_share(seen: Observed) -> float:
    """Bytes in flight at the device over depth x block; 1 where it cannot be told."""
    device = seen.totals.device
    return 1.0 if device is None else device.in_flight * device.request_bytes / (seen.plan.in_flight * seen.plan.bs)


def device_bytes(seen: Observed) -> Finding:
    """Bytes that the device never saw came from a cache."""
    plan, totals = seen.plan, seen.totals
    if not seen.path.moves_data:
        return Finding("exempt", "null: no bytes moved")
    if plan.cache != "direct":
        return Finding("exempt", f"page cache used on purpose ({plan.cache})")
    if seen.path.mapped:
        return Finding("exempt", "loads and stores reach the medium past the block layer")
    growth = totals.resident_growth
    if growth is not None and growth > plan.in_flight * plan.bs:
        return Finding("failed", f"the page cache of {plan.path} grew by {growth:,} bytes: not direct I/O")
    if totals.device_ratio is None:
        return Finding("unknown", "no block-layer counters for this target")
    return judge(
        totals.device_ratio >= DEVICE_BYTES,
        f"block layer moved {totals.device_ratio:.3f} of the bytes completed (limit {DEVICE_BYTES})"
        + ("" if totals.device_ratio >= DEVICE_BYTES else ": some were served from a cache"),
    )


def data_verified(seen: Observed) -> Finding:
    """Wrong data can be read fast."""
    if not seen.path.moves_data:
        return Finding("exempt", "null: no data")
    checked, bad = seen.totals.verified, seen.totals.bad
    if bad:
        return Finding(
            "failed", f"{bad:,} of {checked:,} blocks hold wrong data; first at offset {seen.totals.first_bad:,}"
        )
    if seen.plan.foreign_zeros is not None:
        return Finding("unknown", "what the device held is read as it is: there is nothing to compare it with")
    if seen.plan.verify == "none":
        return Finding("unknown", "switched off by --gpuio-verify=none")
    return judge(
        checked > 0,
        f"{checked:,} blocks checked in {'GPU memory' if seen.plan.gpus else 'destination memory'}"
        if checked
        else "no block was checked",
    )


def path_proved(seen: Observed) -> Finding:
    """A number under the wrong name is worse than none."""
    effective = seen.proof.effective
    if effective == seen.path.name:
        return Finding("passed", "; ".join(seen.proof.sentences))
    return Finding(
        "failed", f"asked for {seen.path.name}, got {effective or 'something else'}: {'; '.join(seen.proof.sentences)}"
    )
