"""How much CPU the whole host spent, from the idle time of ``/proc/stat``."""

from __future__ import annotations

import os
import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

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
    """

    at_ns: int
    idle_s: float
    steal_s: float
    interrupts: Mapping[int, tuple[float, float]]


def read_times(root: str = "/") -> HostTimes | None:
    """Look at ``/proc/stat``; None where it cannot be read."""
    text = slurp(f"{root.rstrip('/')}/proc/stat")
    if text is None:
        return None
    at_ns, tick = time.monotonic_ns(), 1.0 / os.sysconf("SC_CLK_TCK")
    idle = steal = None
    interrupts: dict[int, tuple[float, float]] = {}
    for line in text.splitlines():
        if not line.startswith("cpu"):
            break
        name, *columns = line.split()
        try:
            numbers = [int(column) * tick for column in columns]
            if name == "cpu":
                idle, steal = numbers[3] + numbers[4], numbers[7]
            else:
                interrupts[int(name[3:])] = numbers[5], numbers[6]
        except (ValueError, IndexError):
            return None
    if idle is None or steal is None or not interrupts:
        return None
    return HostTimes(at_ns, idle, steal, interrupts)


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
