"""Block and object I/O as a trace records it: when, which operation, where and how much."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

import numpy as np
from numpy.typing import NDArray

from pytest_gpuio.core.errors import ConfigError
from pytest_gpuio.phases.records import FSYNC
from pytest_gpuio.phases.traces import timeline

SYNC: Final = FSYNC
#: Traces have it, records do not: nothing that is replayed discards.
DISCARD: Final = 3
OPS: Final = ("read", "write", "sync", "discard")
#: The tier of a trace that has tiers which lies on storage (MLPerf: 0 = GPU memory, 1 = host memory, 2 = storage).
STORAGE_TIER: Final = 2


@dataclass(frozen=True, slots=True, eq=False)
class BlockTrace:
    """I/O in the order of its start.

    Attributes:
        path: file it was read from. format: name of its format.
        time_ns: start after the first one; ascending, shape (n,), int64.
        op: ``READ``, ``WRITE``, ``SYNC`` or ``DISCARD``; uint8.
        file: index into ``files``; uint32.
        offset, length: bytes; int64; both 0 for ``SYNC``.
        files: names of files, devices or objects.
        timed: False = the trace has no times (all are 0): the I/O follows one another.
        tier: where an object lay, 0 .. 2 (see :data:`STORAGE_TIER`); uint8. None = all of it is storage.
        stage: index into ``stages``; uint8. None = the trace tells no stages.
        stages: names of stages.
        notes: what a person should know of how it was read.
    """

    path: Path
    format: str
    time_ns: NDArray[np.int64]
    op: NDArray[np.uint8]
    file: NDArray[np.uint32]
    offset: NDArray[np.int64]
    length: NDArray[np.int64]
    files: tuple[str, ...]
    timed: bool = True
    tier: NDArray[np.uint8] | None = None
    stage: NDArray[np.uint8] | None = None
    stages: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()

    def ordered(self, notes: tuple[str, ...] = ()) -> BlockTrace:
        """The same I/O in order of time, the first at 0, with further notes."""
        late = int(np.count_nonzero(np.diff(self.time_ns) < 0))
        trace = self
        if late:
            trace = self.taken(np.argsort(self.time_ns, kind="stable"))
            notes = (*notes, f"{late:,} lines came before the one above them: sorted by time")
        return replace(trace, time_ns=trace.time_ns - trace.time_ns[0], notes=(*self.notes, *notes))

    def __len__(self) -> int:
        return len(self.time_ns)

    @property
    def span_ns(self) -> int:
        """From the first to the last start."""
        return int(self.time_ns[-1] - self.time_ns[0])

    def bytes_of(self, op: int) -> int:
        """Bytes of all I/O of one operation."""
        return int(self.length[self.op == op].sum())

    def extents(self) -> NDArray[np.int64]:
        """Bytes each file must have to hold all of its I/O; shape (files,)."""
        ends = np.zeros(len(self.files), dtype=np.int64)
        np.maximum.at(ends, self.file, self.offset + self.length)
        return ends

    def taken(self, rows: NDArray[np.int64] | NDArray[np.bool_]) -> BlockTrace:
        """The I/O of these rows; times stay as they are."""
        return replace(
            self,
            time_ns=self.time_ns[rows],
            op=self.op[rows],
            file=self.file[rows],
            offset=self.offset[rows],
            length=self.length[rows],
            tier=None if self.tier is None else self.tier[rows],
            stage=None if self.stage is None else self.stage[rows],
        )

    def cut(self, first: int = 0, count: int | None = None) -> BlockTrace:
        """A part of the trace by number, its first I/O at time 0.

        Args:
            first: index of the first.
            count: at most so many; None = all that follow.

        Raises:
            ConfigError: there is none.
        """
        return self._kept(timeline.by_number(len(self), first, count, f"{self.path}'s I/O"))

    def between(self, start_s: float = 0.0, duration_s: float | None = None) -> BlockTrace:
        """A part of the trace by time, its first I/O at time 0.

        Args:
            start_s: seconds after the first.
            duration_s: of the part; None = to the end.

        Raises:
            ConfigError: there is none.
        """
        return self._kept(timeline.by_time(self.time_ns, start_s, duration_s, f"{self.path}'s I/O"))

    def scaled(self, speed: float) -> BlockTrace:
        """The same, ``speed`` times as fast.

        Raises:
            ConfigError: the speed is out of range.
        """
        return replace(self, time_ns=timeline.faster(self.time_ns, speed))

    def on_storage(self) -> BlockTrace:
        """Only what reaches storage: reads, writes and syncs, and of tiers only the storage one.

        Raises:
            ConfigError: nothing does.
        """
        kept = self.op != DISCARD
        if self.tier is not None:
            kept &= self.tier == STORAGE_TIER
        if not kept.any():
            raise ConfigError(f"{self.path}: none of its {len(self):,} lines is a read, write or sync on storage.")
        if kept.all():
            return self
        left = len(self) - int(np.count_nonzero(kept))
        why = "discards" if self.tier is None else "operations in memory tiers"
        return replace(self.taken(kept), notes=(*self.notes, f"{left:,} {why} left out"))

    def _kept(self, part: slice) -> BlockTrace:
        if part == slice(0, len(self)):
            return self
        kept = self.taken(np.arange(part.start, part.stop))
        return replace(kept, time_ns=kept.time_ns - kept.time_ns[0])
