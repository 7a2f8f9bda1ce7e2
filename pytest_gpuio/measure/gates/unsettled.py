"""Gates on what makes a true number a passing one: drift, and what else the machine was doing."""

from __future__ import annotations

from typing import Final

from pytest_gpuio.measure.gates.verdict import Finding, Observed, judge
from pytest_gpuio.measure.gpu_meter import slowed_gpus

#: Relative CI above which a result is true but not steady, however wide a precision the user asked for.
STABLE_CI: Final = 0.05
#: Chance of a trend in windows without one, above which drift is taken for scatter.
TREND_P: Final = 0.05
#: Largest share of the stretch that a thread may have been ready to run without a CPU.
WAIT_SHARE: Final = 0.05
#: Largest share of the CPUs' time that the hypervisor may have taken.
STEAL_SHARE: Final = 0.01


def stable(seen: Observed) -> Finding:
    """Spread, drift and steps of the level."""
    ci, halves, drift = seen.totals.relative_ci, seen.totals.half_change, seen.totals.drift
    if ci is None:
        return Finding("failed", "fewer than two windows: no spread can be told")
    limit = max(STABLE_CI, seen.plan.precision)
    told = [f"mean known to +-{ci:.1%}"]
    good = ci <= limit
    if halves is not None:
        told.append(f"second half {halves:+.1%} against the first")
        good = good and abs(halves) <= 2 * limit
    if drift.first_to_last is not None and drift.trend_p is not None and drift.trend_p < TREND_P:
        told.append(f"a trend of {drift.first_to_last:+.1%} from first to last")
        good = good and abs(drift.first_to_last) <= 2 * limit
    for change in drift.change_points:
        told.append(change.sentence())
        good = good and abs(change.ratio - 1.0) <= limit
    return judge(good, f"{', '.join(told)} (limits {limit:.0%}; {2 * limit:.0%} for halves and trend)")


def cores_available(seen: Observed) -> Finding:
    """Who polls needs a CPU of its own, and who is ready must run."""
    plan = seen.plan
    pollers = [cpu for cpu in plan.sq_cpus if cpu >= 0]
    if len(set(pollers)) < len(pollers) or set(pollers) & set(plan.cpus):
        return Finding(
            "failed",
            f"submission pollers on CPUs {', '.join(map(str, pollers))} share them with each other or with the workers "
            f"on {', '.join(map(str, plan.cpus))}: use fewer --gpuio-jobs",
        )
    longest = seen.surroundings.get("longest_wait")
    if longest is None:
        return Finding("unknown", "the kernel does not tell how long threads wait for a CPU (no schedstat)")
    share = longest["seconds"] / seen.totals.seconds
    good = share <= WAIT_SHARE
    return judge(
        good,
        f"the thread {longest['thread']} waited {longest['seconds']:.3f} s for a CPU, {share:.1%} of the stretch "
        f"(limit {WAIT_SHARE:.0%})"
        + ("" if good else ": something else runs on its CPU; see cpu.elsewhere, and quieten the machine"),
    )


def no_throttle(seen: Observed) -> Finding:
    """Heat slows CPUs, drives and GPUs down."""
    around = seen.surroundings
    throttles, hot = around.get("cpu_throttles"), around.get("hot") or []
    degrees = around.get("temperatures") or []
    slowed = slowed_gpus(seen.outcome.get("gpu_meter"))
    if throttles is None and not degrees and slowed is None:
        return Finding("unknown", "neither CPU throttle counts nor temperatures of drives or GPUs can be read here")
    told = [f"CPUs were throttled {throttles:,} times"] if throttles is not None else []
    told += [f"{drive['device']} at {drive['after']:.0f} degrees C" for drive in degrees]
    if hot:
        told.append(
            f"{', '.join(hot)} at or above the drive's own warning limit: cool it, or let it rest between cells"
        )
    told += [f"GPU {ordinal} was slowed down: {', '.join(reasons)}" for ordinal, reasons in slowed or ()]
    if slowed is not None and not slowed:
        told.append("no GPU was slowed down")
    return judge(not throttles and not hot and not slowed, "; ".join(told))


def no_steal(seen: Observed) -> Finding:
    """What the hypervisor gave to others was not there to be measured."""
    share, ticks = seen.surroundings.get("steal_share"), seen.surroundings.get("steal_ticks", 0)
    if share is None:
        return Finding("unknown", "the CPUs' time cannot be read, or the stretch was shorter than a tick")
    # One tick may be owed from before the stretch.
    good = share <= STEAL_SHARE or ticks < 2
    return judge(
        good,
        f"the hypervisor took {share:.2%} of the CPUs' time (limit {STEAL_SHARE:.0%})"
        + ("" if good else ": use a machine of your own, or dedicated cores"),
    )


def no_quota(seen: Observed) -> Finding:
    """A container's limits are not the machine's."""
    around = seen.surroundings
    stops, limits = around.get("quota_stops"), around.get("io_limits") or []
    if stops is None and not limits:
        return Finding("unknown", "the control group's counters cannot be read")
    told = [f"stopped {stops:,} times for its CPU quota"] if stops is not None else []
    told += [f"I/O is limited by {limit}" for limit in limits]
    good = not stops and not limits
    return judge(good, "; ".join(told) + ("" if good else ": lift the limits of this control group"))
