"""The CPU a measuring child spent, split by who spent it."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

Role = Literal["submitter", "kernel_helper", "other"]

# io_uring's helpers live in the thread group of the process that made the ring: iou-sqp-PID polls submissions,
# iou-wrk-PID runs what cannot be done without blocking.
_KERNEL_HELPER = re.compile(r"iou-(sqp|wrk)-\d+")


@dataclass(frozen=True, slots=True)
class Task:
    """One thread of a process: its name and the CPU it has used so far, seconds."""

    tid: int
    name: str
    seconds: float


@dataclass(frozen=True, slots=True)
class ThreadShare:
    """CPU seconds of one thread over the measured windows."""

    name: str
    role: Role
    seconds: float


def tasks(root: str = "/") -> dict[int, Task]:
    """Every live thread of this process by thread id, kernel helpers included (source: ``/proc/self/task``)."""
    found: dict[int, Task] = {}
    for entry in Path(root, "proc/self/task").iterdir():
        try:
            name = (entry / "comm").read_text().strip()
            on_cpu_ns = int((entry / "schedstat").read_text().split()[0])
        except (OSError, IndexError, ValueError):
            continue  # it ended between the listing and the read
        found[int(entry.name)] = Task(int(entry.name), name, on_cpu_ns / 1e9)
    return found


def split(
    total: float, submitters: Sequence[float], before: Mapping[int, Task], after: Mapping[int, Task]
) -> tuple[ThreadShare, ...]:
    """Shares of ``total`` CPU seconds, adding up to it.

    Args:
        total: CLOCK_PROCESS_CPUTIME_ID over the windows; it holds threads that ended and kernel helpers.
        submitters: CPU seconds of each worker over the windows.
        before: :func:`tasks` before the measured stretch; only kernel helpers are taken from it, since other threads
            also work between windows.
        after: the same after it.
    """
    shares = [ThreadShare(f"worker{index}", "submitter", seconds) for index, seconds in enumerate(submitters)]
    for tid, task in sorted(after.items()):
        if _KERNEL_HELPER.fullmatch(task.name):
            earlier = before.get(tid)
            spent = task.seconds - (earlier.seconds if earlier and earlier.name == task.name else 0.0)
            if spent > 0:
                shares.append(ThreadShare(task.name.rpartition("-")[0], "kernel_helper", spent))
    # Workers of io-wq come and go; what ended before the second look is in the total only.
    rest = total - sum(share.seconds for share in shares)
    shares.append(ThreadShare("rest of the process", "other", max(rest, 0.0)))
    return tuple(shares)
