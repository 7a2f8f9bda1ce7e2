"""A window that Python itself times: clocks and resource use around it, as the compiled engine's windows have them."""

from __future__ import annotations

import resource
import threading
import time
from typing import Any

from pytest_gpuio.engine import Window, WorkerResult


class Stretch:
    """Begins when it is made, and ends with :meth:`end`; times are CLOCK_MONOTONIC in nanoseconds."""

    def __init__(self) -> None:
        self._usage = resource.getrusage(resource.RUSAGE_SELF)
        self._cpu, self._thread = time.process_time_ns(), time.thread_time_ns()
        self.start_ns = time.monotonic_ns()
        self.end_ns = 0

    def end(self) -> None:
        """Take the clocks; nothing that belongs to the window may follow."""
        self.end_ns = time.monotonic_ns()
        self._thread = time.thread_time_ns() - self._thread
        self._cpu = time.process_time_ns() - self._cpu
        self._after = resource.getrusage(resource.RUSAGE_SELF)

    def window(self, counted: dict[str, Any], *, gpu: int = -1) -> Window:
        """The window of one worker, which is this thread.

        Args:
            counted: fields of a window that this stretch does not know; what is left out is 0.
            gpu: ordinal where its bytes ended, -1 = the host.
        """
        before, after = self._usage, self._after
        values: dict[str, Any] = dict.fromkeys(Window._fields, 0)
        values |= {
            "stuck_worker": -1,
            "start_ns": self.start_ns,
            "end_ns": self.end_ns,
            "cpu_ns": self._cpu,
            "clock_ppm": 0.0,
            "user_ns": round((after.ru_utime - before.ru_utime) * 1e9),
            "system_ns": round((after.ru_stime - before.ru_stime) * 1e9),
            "minor_faults": after.ru_minflt - before.ru_minflt,
            "major_faults": after.ru_majflt - before.ru_majflt,
            "voluntary_switches": after.ru_nvcsw - before.ru_nvcsw,
            "involuntary_switches": after.ru_nivcsw - before.ru_nivcsw,
        }
        values |= counted
        worker: dict[str, Any] = dict.fromkeys(WorkerResult._fields, 0)
        worker |= {"cpu": -1, "tid": threading.get_native_id(), "start_ns": self.start_ns, "end_ns": self.end_ns}
        worker |= {"ios": values["ios"], "bytes": values["bytes"], "cpu_ns": self._thread, "gpu": gpu}
        return Window(**(values | {"workers": (WorkerResult(**worker),)}))
