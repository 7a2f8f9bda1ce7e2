"""Gates on what the laws of queues, clocks and wires allow."""

from __future__ import annotations

from typing import Final

from pytest_gpuio.measure.gates.verdict import Finding, Observed, judge

LITTLE_TOLERANCE: Final = 0.05
#: An open loop that holds fewer requests than this on average is not judged by them.
LEAST_IN_FLIGHT: Final = 0.5
#: Largest share of arrivals that may be sent late.
LATE_SHARE: Final = 0.01
#: The clock's cost inside a latency, and its smallest step, over that latency.
CLOCK_SHARE: Final = 0.1
#: Largest disagreement of the stamps' clock with CLOCK_MONOTONIC, parts per million.
CLOCK_PPM: Final = 50.0
#: CPU that was counted twice, as a share of what the host spent.
CPU_TWICE: Final = 0.02


def littles_law(seen: Observed) -> Finding:
    """Throughput, latency and depth must agree."""
    if not seen.path.moves_data:
        return Finding("exempt", "null: latencies are of the clock's own order")
    ratio = seen.totals.little_ratio
    if ratio is None:
        return Finding("unknown", "no steady stretch between ramp and drain")
    if (seen.plan.open_loop or seen.plan.replay) and (seen.totals.in_flight or 0.0) < LEAST_IN_FLIGHT:
        # One time slice lost between two stamps is more than all that is in flight.
        return Finding(
            "unknown", f"{seen.totals.in_flight or 0.0:.2f} requests in flight: too few to weigh against the clock"
        )
    worst, detail = abs(ratio - 1.0), f"throughput x mean latency is {ratio:.3f} of the requests counted in flight"
    total = seen.totals.total_little_ratio
    if total is not None:
        worst = max(worst, abs(total - 1.0))
        detail += f" at the device, and {total:.3f} of those on their whole way to or from GPU memory"
    return judge(worst <= LITTLE_TOLERANCE, f"{detail} (limit 1 +- {LITTLE_TOLERANCE})")


def open_loop_lag(seen: Observed) -> Finding:
    """An open loop that sends late is a closed loop."""
    scheduled, late = seen.totals.scheduled, seen.totals.late
    if not scheduled:
        return Finding("exempt", "closed loop: nothing is scheduled")
    good = late <= LATE_SHARE * scheduled
    if seen.plan.replay is not None and not good:
        most = max(window["max_in_flight"] for window in seen.outcome["windows"])
        if most >= seen.plan.in_flight:
            # Groups waited for a request slot: so it looks when a storage is too slow for the trace.
            return Finding(
                "passed",
                f"{late:,} of {scheduled:,} groups ({late / scheduled:.2%}) started late, with up to {most} "
                "requests in flight, all there may be: the storage cannot keep up with the schedule, or the depth is "
                "too small for it",
            )
    return judge(
        good,
        f"{late:,} of {scheduled:,} arrivals ({late / scheduled:.2%}) were sent later than the larger of 200 us and "
        f"one mean gap (limit {LATE_SHARE:.0%})"
        + ("" if good else ": lower the rate, raise --gpuio-qd, or use --gpuio-wait=spin"),
    )


def clock_sane(seen: Observed) -> Finding:
    """Latencies must be long against the clock that took them."""
    ppm = seen.totals.clock_ppm
    if ppm > CLOCK_PPM:
        return Finding(
            "failed",
            f"the TSC ran {ppm:,.0f} ppm off CLOCK_MONOTONIC over a window (limit {CLOCK_PPM:.0f}): the time is being "
            "slewed, or the TSC does not tick evenly; wait for time synchronisation, or use GPUIO_CLOCK=monotonic",
        )
    if not seen.path.moves_data:
        return Finding("exempt", f"null: latencies are of the clock's own order; {ppm:.1f} ppm")
    latency, clock = seen.totals.latency, seen.outcome.get("clock")
    if latency is None or not clock:
        return Finding("unknown", "no latency was recorded")
    if latency.min_ns == 0:
        return Finding(
            "failed",
            "a latency of 0 ns was recorded: the clock stood still while data moved, so no latency can be believed",
        )
    cost, step = latency.stamps * clock["cost_ns"], clock["resolution_ns"]
    good = cost <= CLOCK_SHARE * latency.mean_ns and step <= CLOCK_SHARE * latency.median_ns
    return judge(
        good,
        f"{clock['source']}: {latency.stamps} stamps cost {cost:,.0f} ns of {latency.mean_ns:,.0f} ns mean latency, "
        f"smallest step {step:,} ns of {latency.median_ns:,.0f} ns median (limits {CLOCK_SHARE:.0%}); {ppm:.1f} ppm off"
        + ("" if good else ": see /sys/devices/system/clocksource; tsc is the cheap one"),
    )


def not_faster_than_link(seen: Observed) -> Finding:
    """No device is faster than its wires."""
    plan, totals = seen.plan, seen.totals
    if not seen.path.moves_data:
        return Finding("exempt", "null: no bytes moved")
    if plan.cache == "hot" or (plan.cache == "cold" and totals.writes):
        return Finding("exempt", f"page cache used on purpose ({plan.cache})")
    if seen.virtual_machine:
        return Finding("unknown", "in a virtual machine the link that sysfs shows need not be the device's")
    links = [device.link_bytes_per_s for device in seen.devices]
    if not links or None in links:
        return Finding("unknown", "no PCI Express or SATA link is known for every device under the target")
    limit = sum(link for link in links if link is not None)
    # Each direction has its own wires (SATA takes turns, which only makes this bound a loose one).
    # How the bytes of records, whose sizes differ, are split is not known: half of them bounds the larger direction.
    one_way = max(totals.reads, totals.writes) * plan.bs if plan.replay is None else totals.bytes / 2
    fastest = one_way / totals.seconds
    return judge(
        fastest <= limit,
        f"{fastest / 1e9:.3f} GB/s in one direction; the link carries {limit / 1e9:.3f} GB/s"
        + ("" if fastest <= limit else ": some of it came from a cache"),
    )


def cpu_account(seen: Observed) -> Finding:
    """Nobody spends more CPU than the host did."""
    metered = seen.outcome.get("cpu")
    if not metered:
        return Finding("unknown", "no CPU account")
    control = metered["control"]
    truth, left = control["truth_s"], control["unattributed_s"]
    if not control["trusted"] or truth is None or left is None:
        return Finding("unknown", control["reason"] or "the host does not tell what it spent")
    # Where the kernel does not keep stolen time out of task time, tasks seem to have run while it was stolen.
    allowed = max(CPU_TWICE * truth, control["uncertainty_s"]) + (metered["steal_s"] or 0.0)
    no_task = "" if control["no_task_s"] is None else f"{control['no_task_s']:.2f} in no task, "
    detail = (
        f"the host spent {truth:.2f} CPU seconds: {control['parts_s']:.2f} for the cell, {control['elsewhere_s']:.2f} "
        f"elsewhere, {no_task}{left:+.2f} ({left / truth:+.1%}) unattributed (limit -{allowed:.2f})"
    )
    if left >= -allowed:
        return Finding("passed", detail)
    return Finding(
        "failed",
        f"{detail}: something is counted twice; if --gpuio-daemon names processes, one of them is measured anyway, "
        "else report it",
    )
