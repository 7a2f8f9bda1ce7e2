"""The CPU time of all tasks together, from the kernel's own sums: what the host spent beyond it belongs to no task."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from pytest_gpuio.machine.reading import slurp

#: The root group of version 1's accounting controller, alone or together with ``cpu``.
_GROUPS: Final = ("cpuacct", "cpu,cpuacct")
#: Of a CPU's line in /proc/schedstat, after its name: nanoseconds that tasks ran on it (version 15 and newer).
_RAN: Final = 6
_SCHEDSTAT_VERSION: Final = 15


@dataclass(frozen=True, slots=True)
class TaskTime:
    """All tasks' CPU time since boot, nanoseconds; ``stolen_too``: with what the hypervisor took meanwhile."""

    ns: int
    stolen_too: bool


def read_task_time(root: str = "/") -> TaskTime | None:
    """The kernel's own sum, the idle tasks left out; None where it keeps none.

    Control groups of version 1 are exact to the nanosecond. ``/proc/schedstat`` lacks what a task has run since it was
    last given a CPU.
    """
    top = root.rstrip("/")
    for group in _GROUPS:
        text = slurp(f"{top}/sys/fs/cgroup/{group}/cpuacct.usage")
        if text is not None and text.strip().isdecimal():
            return TaskTime(int(text), stolen_too=False)
    ran = _schedstat(slurp(f"{top}/proc/schedstat") or "")
    return None if ran is None else TaskTime(ran, stolen_too=True)


def _schedstat(text: str) -> int | None:
    lines = [line.split() for line in text.splitlines()]
    versions = [words[1] for words in lines if words[:1] == ["version"] and len(words) > 1]
    cpus = [words[1:] for words in lines if words and words[0].startswith("cpu")]
    if not versions or not versions[0].isdecimal() or int(versions[0]) < _SCHEDSTAT_VERSION or not cpus:
        return None
    try:
        return sum(int(words[_RAN]) for words in cpus)
    except (ValueError, IndexError):
        return None
