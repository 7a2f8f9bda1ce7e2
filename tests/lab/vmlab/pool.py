"""Several machines at the same time: each boots by itself, and whoever needs its outcome waits for it."""

import os
import queue
import threading
import time
from collections.abc import Callable, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path

from vmlab.errors import LabLate
from vmlab.machine import Outcome

#: Memory of the host that each machine is given, and some for what QEMU needs itself.
_MACHINE_BYTES = 4 << 30
#: A job: gets a function to say things with, and one that tells whether to stop.
Job = Callable[[Callable[[str], None], Callable[[], bool]], Outcome]


def machines_at_once(meminfo: Path = Path("/proc/meminfo")) -> int:
    """How many machines this host can run side by side: two where it has two processors and the memory.

    A machine keeps one processor busy most of the time: starting Python, judging, reading files are no parallel work.
    """
    lines = dict(line.split(":", 1) for line in meminfo.read_text().splitlines())
    free = int(lines["MemAvailable"].split()[0]) << 10
    return max(1, min(2, len(os.sched_getaffinity(0)), free // _MACHINE_BYTES))


class Pool:
    """Runs jobs side by side, in the order given, the first ones first.

    Args:
        jobs: name -> what boots a machine and returns its outcome.
        at_once: machines that are on at the same time.
        said: called, in the thread that waits for an outcome, with each new line of any job.
        seconds: for all of them; None = as long as it takes.
    """

    def __init__(
        self, jobs: Mapping[str, Job], at_once: int, said: Callable[[str], None], seconds: float | None = None
    ) -> None:
        self._said = said
        self._seconds = seconds
        self._until = None if seconds is None else time.monotonic() + seconds
        self._lines: queue.SimpleQueue[str] = queue.SimpleQueue()
        self._stopping = threading.Event()
        self._executor = ThreadPoolExecutor(at_once, thread_name_prefix="lab")
        self._outcomes: dict[str, Future[Outcome]] = {
            name: self._executor.submit(self._run, name, job) for name, job in jobs.items()
        }

    def _run(self, name: str, job: Job) -> Outcome:
        began, rest = time.monotonic(), ""

        def say(text: str) -> None:
            nonlocal rest
            *lines, rest = (rest + text).split("\n")
            for line in lines:
                self._lines.put(f"lab {name}: {line}")

        self._lines.put(f"lab {name}: booting")
        words = "broken off"
        try:
            if self._stopping.is_set():
                raise LabLate(self._late())
            outcome = job(say, self._stopping.is_set)
            if outcome.stopped:
                raise LabLate(self._late())
            words = f"done, {outcome.cpu_seconds:.0f} s of processor time"
            return outcome
        finally:
            self._lines.put(f"lab {name}: {words}, after {time.monotonic() - began:.0f} s")

    def _late(self) -> str:
        return f"not done within {self._seconds or 0:.0f} s, which is all that this run had"

    def outcome(self, name: str) -> Outcome:
        """Waits for a job's outcome.

        Raises:
            LabLate: the time for all was over before it was done, and it was switched off.
            Exception: what the job raised.
        """
        future = self._outcomes[name]
        while True:
            # Before the lines are taken: what is said last is told, too.
            done = future.done()
            while not self._lines.empty():
                self._said(self._lines.get())
            if done:
                return future.result()
            if self._until is not None and time.monotonic() > self._until:
                self._stopping.set()
            time.sleep(0.2)

    def close(self) -> None:
        """Stops what still runs; returns when every machine is off."""
        self._stopping.set()
        self._executor.shutdown(wait=True, cancel_futures=True)
