"""The control of a cell's CPU account: what the host spent must be ours, elsewhere's, or told as unattributed."""

from __future__ import annotations

import os
import time
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Final

from pytest_gpuio.measure import host, processes
from pytest_gpuio.measure.task_time import TaskTime, read_task_time

#: A look that takes longer was interrupted: it is taken again, a few times at most.
_QUICK_NS: Final = 5_000_000
_TRIES: Final = 4
#: CPU seconds that the steps of ``/proc/stat`` may hide: 10 ms for idle and for iowait, at both ends.
_STEPS_S: Final = 0.04
#: The kernel's sum of its tasks' time is brought up to date at ticks, the clocks of processes whenever they are read.
_LAG_S: Final = 0.01


@dataclass(frozen=True, slots=True)
class Snapshot:
    """Every CPU clock of the host at one moment (CLOCK_MONOTONIC), and our own, nanoseconds; taken in ``took_ns``.

    ``tasks`` is the kernel's own sum over all tasks.
    """

    at_ns: int
    took_ns: int
    times: host.HostTimes | None
    own_ns: int
    census: processes.Census
    tasks: TaskTime | None = None


@dataclass(frozen=True, slots=True)
class Control:
    """The host's CPU over the measured stretch, first window to last, gaps included; None where unknown.

    Attributes:
        trusted: the figures are good for a verdict; ``reason`` says why not, None when they are.
        seconds: length of the stretch.
        truth_s: CPU seconds the host spent. parts_s: those of the account. elsewhere_s: those of all other processes,
            ``elsewhere`` by name. no_task_s: spent while no task ran, by interrupts that met an idle CPU and by its
            waking up, those of the account left out; None where the kernel has no sum of its tasks' time that tells it.
            unattributed_s: the rest, below zero when something was counted twice; unattributed_share: as a fraction of
            ``truth_s``.
        uncertainty_s: CPU seconds by which the figures may miss each other, since clocks are read one after another and
            ``/proc/stat`` counts in steps.
        idle_cores: cores the host used while we did nothing.
    """

    trusted: bool
    reason: str | None
    seconds: float
    truth_s: float | None
    parts_s: float
    elsewhere_s: float
    elsewhere: Mapping[str, float]
    no_task_s: float | None
    unattributed_s: float | None
    unattributed_share: float | None
    uncertainty_s: float
    idle_cores: float | None


def look(*, first: bool, ended: bool) -> Snapshot:
    """Every clock of the host.

    The long scan lies outside the stretch at both ends, the host's and our own clock lie next to it.

    Args:
        first: the stretch begins now, else it ended now.
        ended: see :func:`pytest_gpuio.measure.processes.count`.
    """
    best: Snapshot | None = None
    for _ in range(_TRIES if ended else 1):
        now = _look(first=first, ended=ended)
        if best is not None and now.took_ns > 0.7 * best.took_ns:
            break  # it takes so long: there are many processes
        best = now
        if now.took_ns <= _QUICK_NS:
            break
    return best or now


def _look(*, first: bool, ended: bool) -> Snapshot:
    begun_ns = time.monotonic_ns()
    if first:
        census = processes.count(ended=ended)
    tasks, times, own_ns, at_ns = read_task_time(), host.read_times(), time.process_time_ns(), time.monotonic_ns()
    if not first:
        census = processes.count(ended=ended)
    return Snapshot(at_ns, time.monotonic_ns() - begun_ns, times, own_ns, census, tasks)


def weigh(
    before: Snapshot,
    after: Snapshot,
    *,
    outside_s: float,
    daemons: Collection[int],
    idle_cores: float | None,
) -> Control:
    """Set the account against the host.

    Args:
        before: at the stretch's begin.
        after: at its end.
        outside_s: interrupt time that the kernel keeps out of task time, CPU seconds.
        daemons: ids of outside processes that are part of the account.
        idle_cores: of :func:`pytest_gpuio.measure.host.idle_cores`.
    """
    ours = frozenset((os.getpid(), *daemons))
    named = processes.elsewhere(before.census, after.census, ours)
    elsewhere_s = sum(named.values())
    seconds = (after.at_ns - before.at_ns) / 1e9
    clocks = before.census.clocks, after.census.clocks
    daemons_ns = sum(clocks[1].get(pid, 0) - clocks[0].get(pid, 0) for pid in daemons)
    parts_s = (after.own_ns - before.own_ns + max(daemons_ns, 0)) / 1e9 + outside_s
    truth_s = unattributed = share = no_task = None
    reasons = []
    cpus = 1 if after.times is None else len(after.times.interrupts)
    if before.times is None or after.times is None:
        reasons.append("/proc/stat cannot be read")
    else:
        truth_s = host.truth(before.times, after.times)
        no_task = _no_task(before, after, truth_s, outside_s, parts_s + elsewhere_s)
        unattributed = truth_s - parts_s - elsewhere_s - (no_task or 0.0)
        share = unattributed / truth_s if truth_s > 0 else None
        if before.times.interrupts.keys() != after.times.interrupts.keys():
            reasons.append("CPUs went on or off line meanwhile")
        if truth_s <= 0:
            reasons.append("the host's idle time says that nothing ran")
    if seconds < host.LEAST_CONTROL_S:
        reasons.append(
            f"the measured stretch lasted {seconds:.1f} s: /proc/stat counts in steps of 10 ms, "
            f"{host.LEAST_CONTROL_S:g} s are needed"
        )
    if not host.every_task_is_visible():
        reasons.append("/proc does not show every task of the host (a container, or hidepid)")
    return Control(
        trusted=not reasons,
        reason="; ".join(reasons) or None,
        seconds=seconds,
        truth_s=truth_s,
        parts_s=parts_s,
        elsewhere_s=elsewhere_s,
        elsewhere=named,
        no_task_s=no_task,
        unattributed_s=unattributed,
        unattributed_share=share,
        uncertainty_s=_STEPS_S + cpus * (_looking_s(before, after) + (0.0 if no_task is None else _LAG_S)),
        idle_cores=idle_cores,
    )


def _looking_s(before: Snapshot, after: Snapshot) -> float:
    return (before.took_ns + after.took_ns) / 1e9


def _no_task(before: Snapshot, after: Snapshot, truth_s: float, outside_s: float, named_s: float) -> float | None:
    """CPU seconds in no task; None where the kernel's sum is not known, or lags behind the clocks it is the sum of."""
    if before.tasks is None or after.tasks is None or before.times is None or after.times is None:
        return None
    tasks_s = (after.tasks.ns - before.tasks.ns) / 1e9
    if after.tasks.stolen_too:
        tasks_s -= host.stolen(before.times, after.times)
    if tasks_s < named_s - outside_s - len(after.times.interrupts) * (_looking_s(before, after) + _LAG_S):
        return None
    return max(truth_s - outside_s - tasks_s, 0.0)
