"""What is asked of a window beside its figures, and its figures as they are sent."""

from __future__ import annotations

import os
from typing import Any

from pytest_gpuio.engine import Window
from pytest_gpuio.measure.plan import Plan

#: A kernel alone is timed for so long, but at least and at most so many times.
_ALONE_NS, _LEAST_ALONE, _MOST_ALONE = 100_000_000, 3, 200


def compute_alone(plan: Plan, run: object, *, tune: bool = False) -> float | None:
    """Nanoseconds that a usual step's kernel takes while no I/O goes on; None where no kernel computes."""
    if plan.replay is None or not plan.replay.kernel_ns or not hasattr(run, "compute_alone"):
        return None
    step = plan.replay.kernel_ns
    return float(run.compute_alone(step, min(max(_ALONE_NS // step, _LEAST_ALONE), _MOST_ALONE), tune=tune))


def real_time(window: Window) -> bool:
    """Whether the workers run ahead of all usual tasks of their CPUs; asked while they live."""
    try:
        policies = [os.sched_getscheduler(result.tid) for result in window.workers if result.tid > 0]
    except OSError:
        return False  # those of other ranks are in processes of their own, and may have ended
    return bool(policies) and all(policy & ~os.SCHED_RESET_ON_FORK == os.SCHED_FIFO for policy in policies)


_WINDOW_FIELDS = (
    "start_ns", "end_ns", "ios", "reads", "writes", "bytes", "errors", "short_ios", "first_error", "first_error_op",
    "first_error_offset", "syncs", "sync_ns", "cpu_ns", "user_ns", "system_ns", "minor_faults", "major_faults",
    "voluntary_switches", "involuntary_switches", "mean_in_flight", "steady_ns", "steady_ios", "steady_lat_ns",
    "steady_rate", "max_in_flight", "verified", "bad", "first_bad_offset", "clock_ppm", "scheduled", "late",
    "total_in_flight", "total_ns", "total_ios", "total_lat_ns", "total_rate", "max_total", "copies", "copied_bytes",
)  # fmt: skip


def window_values(window: Window) -> dict[str, Any]:
    """The window's fields as JSON-able values."""
    return {name: getattr(window, name, 0) for name in _WINDOW_FIELDS}
