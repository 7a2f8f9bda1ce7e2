"""What traces of requests and of block I/O have in common: records in the order of their times, and parts of them."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from pytest_gpuio.phases.traces import timeline


@dataclass(frozen=True, slots=True, eq=False)
class TimedTrace(ABC):
    """Records in the order of their times.

    Attributes:
        path: file it was read from. format: name of its format.
        time_ns: of each record after the first one; ascending, shape (n,), int64.
        notes: what a person should know of how it was read.
    """

    #: What its records are, in the plural, for messages.
    RECORDS: ClassVar[str]

    path: Path
    format: str
    time_ns: NDArray[np.int64]
    notes: tuple[str, ...] = field(default=(), kw_only=True)

    @abstractmethod
    def taken(self, rows: NDArray[np.int64] | NDArray[np.bool_]) -> Self:
        """The records of these rows, in this order; times stay as they are."""

    def __len__(self) -> int:
        return len(self.time_ns)

    @property
    def span_ns(self) -> int:
        """From the first to the last time."""
        return int(self.time_ns[-1] - self.time_ns[0])

    def ordered(self, notes: tuple[str, ...] = ()) -> Self:
        """The same records in order of time, the first at 0, with further notes."""
        late = int(np.count_nonzero(np.diff(self.time_ns) < 0))
        trace = self
        if late:
            trace = self.taken(np.argsort(self.time_ns, kind="stable"))
            notes = (*notes, f"{late:,} {self.RECORDS} came before the one above them: sorted by time")
        return replace(trace, time_ns=trace.time_ns - trace.time_ns[0], notes=(*self.notes, *notes))

    def cut(self, first: int = 0, count: int | None = None) -> Self:
        """A part of the trace by number, its first record at time 0.

        Args:
            first: index of the first.
            count: at most so many; None = all that follow.

        Raises:
            ConfigError: there is none.
        """
        return self._kept(timeline.by_number(len(self), first, count, self._whose))

    def between(self, start_s: float = 0.0, duration_s: float | None = None) -> Self:
        """A part of the trace by time, its first record at time 0.

        Args:
            start_s: seconds after the first.
            duration_s: of the part; None = to the end.

        Raises:
            ConfigError: there is none.
        """
        return self._kept(timeline.by_time(self.time_ns, start_s, duration_s, self._whose))

    def scaled(self, speed: float) -> Self:
        """The same, ``speed`` times as fast.

        Raises:
            ConfigError: the speed is out of range.
        """
        return replace(self, time_ns=timeline.faster(self.time_ns, speed))

    @property
    def _whose(self) -> str:
        return f"{self.path}'s {self.RECORDS}"

    def _kept(self, part: slice) -> Self:
        if part == slice(0, len(self)):
            return self
        kept = self.taken(np.arange(part.start, part.stop))
        return replace(kept, time_ns=kept.time_ns - kept.time_ns[0])
