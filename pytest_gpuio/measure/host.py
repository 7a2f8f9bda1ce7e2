"""How much CPU the whole host spent, from the idle time of ``/proc/stat``."""

from __future__ import annotations

import os
import time
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from pytest_gpuio.machine.reading import slurp

#: Seconds below which the host's figure is not trusted: /proc/stat counts in steps of 10 ms.
LEAST_CONTROL_S: Final = 4.0
#: Seconds the idle host is watched.
BASELINE_S: Final = 1.0


@dataclass(frozen=True, slots=True)
class HostTimes:
    """One look at ``/proc/stat``.

    Attributes:
        at_ns: CLOCK_MONOTONIC.
        idle_s: idle and iowait, seconds since boot, summed over CPUs; counted by the clock, not sampled by ticks.
        steal_s: what the hypervisor gave to others, seconds, summed over CPUs.
        interrupts: hard and soft interrupt seconds of each online CPU.
        ticks: clock ticks of each online CPU, all of them and those the hypervisor took.
    """

    at_ns: int
    idle_s: float
    steal_s: float
    interrupts: Mapping[int, tuple[float, float]]
    ticks: Mapping[int, tuple[int, int]] = field(default_factory=dict)


def read_times(root: str = "/") -> HostTimes | None:
    """Look at ``/proc/stat``; None where it cannot be read."""
    text = slurp(f"{root.rstrip('/')}/proc/stat")
    if text is None:
        return None
    at_ns, tick = time.monotonic_ns(), 1.0 / os.sysconf("SC_CLK_TCK")
    idle = steal = None
    interrupts: dict[int, tuple[float, float]] = {}
    ticks: dict[int, tuple[int, int]] = {}
    for line in text.splitlines():
        if not line.startswith("cpu"):
            break
        name, *columns = line.split()
        try:
            # Guest time, the last two columns, is in user time already.
            numbers = [int(column) for column in columns[:8]]
            if name == "cpu":
                idle, steal = (numbers[3] + numbers[4]) * tick, numbers[7] * tick
            else:
                interrupts[int(name[3:])] = numbers[5] * tick, numbers[6] * tick
                ticks[int(name[3:])] = sum(numbers), numbers[7]
        except (ValueError, IndexError):
            return None
    if idle is None or steal is None or not interrupts:
        return None
    return HostTimes(at_ns, idle, steal, interrupts, ticks)


def truth(before: HostTimes, after: HostTimes) -> float:
    """CPU seconds the host spent: online CPUs x wall, less idle, iowait and steal.

    The busy columns of ``/proc/stat`` are sampled at ticks and miss what begins and sleeps between them; the idle
    columns are not.
    """
    wall = (after.at_ns - before.at_ns) / 1e9
    return len(after.interrupts) * wall - (after.idle_s - before.idle_s) - stolen(before, after)


def stolen(before: HostTimes, after: HostTimes) -> float:
    """CPU seconds that the hypervisor gave to others."""
    return max(after.steal_s - before.steal_s, 0.0)


def steal(before: HostTimes | None, after: HostTimes | None, cpus: Collection[int]) -> dict[str, Any]:
    """Time that the hypervisor took from CPUs, as JSON-able values.

    Args:
        before: the first look; None where there was none.
        after: the second one.
        cpus: which; empty = all.

    Returns:
        ``steal_share`` of the CPUs' time (0 to 1; None when no tick passed), ``steal_ticks``.
    """
    passed = stolen_ticks = 0
    for times, sign in ((before, -1), (after, 1)):
        for cpu, (total, taken) in () if times is None else times.ticks.items():
            if not cpus or cpu in cpus:
                passed += sign * total
                stolen_ticks += sign * taken
    if before is None or after is None or passed <= 0:
        return {"steal_share": None, "steal_ticks": 0}
    return {"steal_share": stolen_ticks / passed, "steal_ticks": stolen_ticks}


def every_task_is_visible(root: str = "/") -> bool:
    """Whether ``/proc`` shows the kernel's threads: not in a container, nor under ``hidepid``."""
    return (slurp(f"{root.rstrip('/')}/proc/2/comm") or "").strip() == "kthreadd"


def idle_cores(seconds: float = BASELINE_S) -> float | None:
    """Cores that the host uses while we do nothing, watched for ``seconds``; None without ``/proc/stat``."""
    before = read_times()
    time.sleep(seconds)
    after = read_times()
    if before is None or after is None:
        return None
    return max(truth(before, after), 0.0) / ((after.at_ns - before.at_ns) / 1e9)
