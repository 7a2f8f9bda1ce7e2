"""Block and object I/O as a trace records it: when, which operation, where and how much."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar, Final

import numpy as np
from numpy.typing import NDArray

from pytest_gpuio.core.errors import ConfigError
from pytest_gpuio.phases.records import FSYNC
from pytest_gpuio.phases.traces.timed import TimedTrace

SYNC: Final = FSYNC
#: Traces have it, records do not: nothing that is replayed discards.
DISCARD: Final = 3
OPS: Final = ("read", "write", "sync", "discard")
#: The tier of a trace that has tiers which lies on storage (MLPerf: 0 = GPU memory, 1 = host memory, 2 = storage).
STORAGE_TIER: Final = 2


@dataclass(frozen=True, slots=True, eq=False)
class BlockTrace(TimedTrace):
    """I/O in the order of its start.

    Attributes:
        op: ``READ``, ``WRITE``, ``SYNC`` or ``DISCARD``; uint8.
        file: index into ``files``; uint32.
        offset, length: bytes; int64; both 0 for ``SYNC``.
        files: names of files, devices or objects.
        timed: False = the trace has no times (all are 0): the I/O follows one another.
        tier: where an object lay, 0 .. 2 (see :data:`STORAGE_TIER`); uint8. None = all of it is storage.
        stage: index into ``stages``; uint8. None = the trace tells no stages.
        stages: names of stages.
    """

    RECORDS: ClassVar[str] = "I/Os"

    op: NDArray[np.uint8]
    file: NDArray[np.uint32]
    offset: NDArray[np.int64]
    length: NDArray[np.int64]
    files: tuple[str, ...]
    timed: bool = True
    tier: NDArray[np.uint8] | None = None
    stage: NDArray[np.uint8] | None = None
    stages: tuple[str, ...] = ()

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
