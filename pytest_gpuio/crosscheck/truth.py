"""The truth about CPU from outside a tool: what the machine and the tool's process spent while it ran."""

from __future__ import annotations

import contextlib
import os
import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, Self

from pytest_gpuio.crosscheck.side import Observed
from pytest_gpuio.measure import host, processes

_EVERY_S: Final = 0.1
#: Shorter stretches say little: /proc/stat counts in hundredths of a second.
LEAST_STRETCH_S: Final = 0.3


@dataclass(frozen=True, slots=True)
class Sample:
    """A look at one moment.

    Attributes:
        at: CLOCK_MONOTONIC, seconds.
        times: of the machine; None = cannot be read.
        process_ns: CPU time of the observed process, with threads that ended and io_uring's kernel helpers; None = it
            is gone.
    """

    at: float
    times: host.HostTimes | None
    process_ns: int | None


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
            times, process = host.read_times(), processes.clocks([self._pid]).get(self._pid)
            self._samples.append(Sample(time.monotonic(), times, process))
            self._over.wait(_EVERY_S)

    def between(self, start: float, end: float) -> Observed | None:
        """What was spent between two moments of CLOCK_MONOTONIC, in seconds; None when too little was sampled."""
        return observed([sample for sample in list(self._samples) if start <= sample.at <= end])


def observed(samples: Sequence[Sample]) -> Observed | None:
    """Rates between the first and the last sample; None when they are too close to each other."""
    if len(samples) < 2 or samples[-1].at - samples[0].at < LEAST_STRETCH_S:
        return None
    first, last = samples[0], samples[-1]
    seconds = last.at - first.at
    process = whole = None
    if first.process_ns is not None and last.process_ns is not None:
        process = (last.process_ns - first.process_ns) / 1e9 / seconds
    if first.times is not None and last.times is not None:
        stretch = (last.times.at_ns - first.times.at_ns) / 1e9
        whole = max(host.truth(first.times, last.times), 0.0) / stretch
    return Observed(seconds, process, whole)
