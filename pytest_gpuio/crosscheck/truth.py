"""The truth about CPU from outside a tool: what the machine, the tool and strangers spent while it ran."""

from __future__ import annotations

import contextlib
import os
import resource
import threading
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, Self

from pytest_gpuio.crosscheck.side import Observed
from pytest_gpuio.measure import host, processes

_EVERY_S: Final = 0.1
#: Shorter stretches say little: /proc/stat counts in hundredths of a second.
LEAST_STRETCH_S: Final = 0.3
_KTHREADD: Final = "2"


@dataclass(frozen=True, slots=True)
class Sample:
    """A look at one moment.

    Attributes:
        at: CLOCK_MONOTONIC, seconds.
        times: of the machine; None = cannot be read.
        process_ns: CPU time of the observed process, with threads that ended and io_uring's kernel helpers; None = it
            is gone.
        own_ns: CPU time of this process.
        kernel: CPU nanoseconds of the kernel's threads by id.
    """

    at: float
    times: host.HostTimes | None
    process_ns: int | None
    own_ns: int = 0
    kernel: Mapping[int, int] = field(default_factory=dict)


class Watch:
    """Samples the machine and one process while a tool runs, from CPUs that the tool's workers do not use.

    Args:
        pid: the process.
        avoid: CPUs of the workers.
    """

    def __init__(self, pid: int, avoid: Sequence[int] = ()) -> None:
        self._pid = pid
        self._cpus = os.sched_getaffinity(0) - set(avoid)
        self._samples: list[Sample] = []
        self._kernel = kernel_threads()
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._watch, name="gpuio-watch", daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self._thread.join()

    def _watch(self) -> None:
        if self._cpus:
            with contextlib.suppress(OSError):
                os.sched_setaffinity(0, self._cpus)  # of this thread only
        while not self._over.is_set():
            self._samples.append(self._look())
            self._over.wait(_EVERY_S)

    def _look(self) -> Sample:
        clocks = processes.clocks([self._pid, *self._kernel])
        process = clocks.pop(self._pid, None)
        return Sample(time.monotonic(), host.read_times(), process, time.process_time_ns(), clocks)

    def between(self, start: float, end: float) -> Observed | None:
        """What was spent between two moments of CLOCK_MONOTONIC, in seconds; None when too little was sampled."""
        return observed([sample for sample in list(self._samples) if start <= sample.at <= end])


def observed(samples: Sequence[Sample]) -> Observed | None:
    """Rates between the first and the last sample; None when they are too close to each other."""
    if len(samples) < 2 or samples[-1].at - samples[0].at < LEAST_STRETCH_S:
        return None
    first, last = samples[0], samples[-1]
    seconds = last.at - first.at
    process = whole = strangers = None
    if first.process_ns is not None and last.process_ns is not None:
        process = (last.process_ns - first.process_ns) / 1e9 / seconds
    if first.times is not None and last.times is not None:
        whole = max(host.truth(first.times, last.times), 0.0) / ((last.times.at_ns - first.times.at_ns) / 1e9)
    if process is not None and whole is not None:
        aside = (last.own_ns - first.own_ns + growth(first.kernel, last.kernel)) / 1e9 / seconds
        strangers = max(whole - process - aside, 0.0)
    return Observed(seconds, process, whole, strangers)


class Strangers:
    """CPU that others use from now on, kernel threads apart, over a stretch in which several of our children run.

    Args:
        pids: gives the ids of our living children; those that ended are in this process's account of its children.
    """

    def __init__(self, pids: Callable[[], Iterable[int]]) -> None:
        self._pids = pids
        self._kernel = kernel_threads()
        self._before = self._look()

    def share(self) -> float | None:
        """Of the machine's CPUs since this object was made; None when it cannot be told."""
        (times, ours, kernel), (now, ours_now, kernel_now) = self._before, self._look()
        if times is None or now is None or now.at_ns - times.at_ns < LEAST_STRETCH_S * 1e9:
            return None
        known = ours_now - ours + growth(kernel, kernel_now) / 1e9
        cpus = len(now.interrupts) * (now.at_ns - times.at_ns) / 1e9
        return max(host.truth(times, now) - known, 0.0) / cpus

    def _look(self) -> tuple[host.HostTimes | None, float, Mapping[int, int]]:
        ended = resource.getrusage(resource.RUSAGE_CHILDREN)
        alive = sum(processes.clocks(self._pids()).values()) / 1e9
        ours = time.process_time() + ended.ru_utime + ended.ru_stime + alive
        return host.read_times(), ours, processes.clocks(self._kernel)


def growth(before: Mapping[int, int], after: Mapping[int, int]) -> int:
    """Nanoseconds by which the clocks that are in both have grown."""
    return sum(max(now - before[pid], 0) for pid, now in after.items() if pid in before)


def kernel_threads(root: str = "/") -> tuple[int, ...]:
    """Ids of the kernel's threads; empty in a container that does not show them."""
    found = []
    for entry in Path(root, "proc").iterdir():
        if not entry.name.isdigit():
            continue
        with contextlib.suppress(OSError, IndexError):
            # The name in brackets may hold anything; the parent's id is the second word after it.
            if (entry / "stat").read_text(errors="replace").rpartition(")")[2].split()[1] == _KTHREADD:
                found.append(int(entry.name))
    return tuple(found)
