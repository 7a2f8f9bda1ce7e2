"""Stalls of an emulated accelerator, as MLPerf Storage defines its utilisation; pure functions of a timeline."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from pytest_gpuio.core.errors import ConfigError


@dataclass(frozen=True, slots=True)
class Stall:
    """How an accelerator fared that computes one step per group.

    Attributes:
        steps: all of them.
        utilization: compute over running time without the first step, 0 .. 1; None with fewer than two steps or without
            compute. MLPerf Storage: AU = total_compute_time / total_benchmark_running_time, where the first step, which
            waits for an empty pipeline, counts in neither.
        compute_s: of all steps, as given. running_s: until the end of the last step.
        stall_s: time without the first step in which the accelerator waited for data.
        longest_stall_s: of one step, the first one left out.
        steps_per_s: all steps over ``running_s``; times the batch they are samples per second.
    """

    steps: int
    utilization: float | None
    compute_s: float
    running_s: float
    stall_s: float
    longest_stall_s: float
    steps_per_s: float


def stall(begin_ns: Sequence[int], compute_ns: Sequence[int], took_ns: Sequence[int] | None = None) -> Stall:
    """What a timeline of steps means.

    Args:
        begin_ns: when each step's compute began, nanoseconds after the start of the benchmark, ascending.
        compute_ns: how long each was to compute.
        took_ns: how long each really computed, where that can differ; None = exactly so long. Utilisation counts what
            was to be computed, so what slows steps down lowers it.

    Raises:
        ConfigError: no step, lists of different lengths, or a step that begins before the one before has ended.
    """
    took_ns = compute_ns if took_ns is None else took_ns
    if not begin_ns or not len(begin_ns) == len(compute_ns) == len(took_ns):
        raise ConfigError(f"{len(begin_ns)} beginnings and {len(compute_ns)} computes are no timeline of steps.")
    waits: list[int] = []
    free = 0
    for step, (begin, took) in enumerate(zip(begin_ns, took_ns, strict=True)):
        # Stamps are rounded to nanoseconds each.
        if begin < free - 2 or took < 0:
            raise ConfigError(f"step {step} begins at {begin:,} ns, before the one before ended at {free:,} ns.")
        waits.append(max(begin - free, 0))
        free = begin + took
    first = begin_ns[0] + took_ns[0]
    running, computed = free - first, sum(compute_ns[1:])
    return Stall(
        steps=len(begin_ns),
        utilization=min(computed / running, 1.0) if running > 0 and computed > 0 else None,
        compute_s=sum(compute_ns) / 1e9,
        running_s=free / 1e9,
        stall_s=sum(waits[1:]) / 1e9,
        longest_stall_s=max(waits[1:], default=0) / 1e9,
        steps_per_s=len(begin_ns) * 1e9 / free if free > 0 else 0.0,
    )
