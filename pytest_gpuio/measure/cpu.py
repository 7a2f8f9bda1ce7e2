"""The CPU a measuring child spent over its windows, split by who spent it."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final, Literal

from pytest_gpuio.engine import thread_clocks
from pytest_gpuio.machine.reading import slurp

Role = Literal["submitter", "kernel_helper", "library", "other"]

# io_uring's helpers live in the thread group of the process that made the ring: iou-sqp-PID polls submissions,
# iou-wrk-PID runs what cannot be done without blocking.
_KERNEL_HELPER = re.compile(r"iou-(sqp|wrk)-\d+")
KERNEL_HELPER: Final[Role] = "kernel_helper"
LIBRARY: Final[Role] = "library"
#: Name of the share of a ring's submission poller.
POLLER: Final = "iou-sqp"


@dataclass(frozen=True, slots=True)
class Thread:
    """One thread of this process: its name, and CPU seconds over the windows."""

    name: str
    seconds: float


@dataclass(frozen=True, slots=True)
class ThreadShare:
    """CPU seconds of one thread over the windows; ``tid`` is None for what no living thread stands for."""

    name: str
    role: Role
    seconds: float
    tid: int | None


class ThreadMeter:
    """Adds up the CPU of this process's threads over windows; what they do between windows is left out."""

    def __init__(self) -> None:
        self._before: dict[int, int] = {}
        self._spent: dict[int, int] = {}
        self._names: dict[int, str] = {}

    def begin(self) -> None:
        """A window is about to begin."""
        self._before = thread_clocks()

    def end(self) -> None:
        """The window has ended."""
        for tid, now in thread_clocks().items():
            then = self._before.get(tid, 0)
            # A thread id that was given to a new thread starts from zero again.
            self._spent[tid] = self._spent.get(tid, 0) + (now - then if now >= then else now)
            if tid not in self._names:
                self._name(tid)

    def threads(self) -> dict[int, Thread]:
        """Every thread that was there at the end of a window."""
        for tid in self._spent:
            self._name(tid)  # again: helpers get their names when they first run
        return {tid: Thread(self._names[tid], ns / 1e9) for tid, ns in self._spent.items()}

    def _name(self, tid: int) -> None:
        name = slurp(f"/proc/self/task/{tid}/comm")
        if name is None:
            self._names.setdefault(tid, "ended")
        else:
            self._names[tid] = name.strip()


def split(
    total: float, submitters: Sequence[tuple[int, float]], threads: Mapping[int, Thread], main: int
) -> tuple[ThreadShare, ...]:
    """Shares of ``total`` CPU seconds, adding up to it (unless the submitters alone are more).

    Args:
        total: CLOCK_PROCESS_CPUTIME_ID over the windows; it holds threads that ended and kernel helpers.
        submitters: thread id and CPU seconds of each worker over the windows.
        threads: :meth:`ThreadMeter.threads`.
        main: id of the main thread, which only waits inside a window: it belongs to the rest.
    """
    workers = [
        ThreadShare(f"worker{index}", "submitter", seconds, tid) for index, (tid, seconds) in enumerate(submitters)
    ]
    known = {main, *(tid for tid, _ in submitters)}
    others: list[ThreadShare] = []
    for tid, thread in sorted(threads.items()):
        if tid in known:
            continue
        helper = _KERNEL_HELPER.fullmatch(thread.name)
        name, role = (f"iou-{helper[1]}", "kernel_helper") if helper else (thread.name, "library")
        # A poller counts even where it slept all the time: its core is reserved.
        if thread.seconds > 0 or name == POLLER:
            others.append(
                ThreadShare(name, "kernel_helper" if role == "kernel_helper" else "library", thread.seconds, tid)
            )
    left = max(total - sum(share.seconds for share in workers), 0.0)
    seen = sum(share.seconds for share in others)
    if seen > left:
        # They were looked at some microseconds before and after the windows, in which a poller goes on spinning.
        others = [ThreadShare(share.name, share.role, share.seconds * left / seen, share.tid) for share in others]
        seen = left
    # Threads that ended inside a window are in the total only.
    return (*workers, *others, ThreadShare("rest of the process", "other", max(left - seen, 0.0), None))
