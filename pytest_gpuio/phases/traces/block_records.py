"""Between traces of block I/O and I/O records: a trace as a workload on one dense file, and any records as a trace."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Final

import numpy as np

from pytest_gpuio.core.errors import ConfigError
from pytest_gpuio.core.sizes import describe_size
from pytest_gpuio.phases.files import Files
from pytest_gpuio.phases.records import FSYNC, Records
from pytest_gpuio.phases.traces.block_trace import BlockTrace

if TYPE_CHECKING:
    from numpy.typing import NDArray

#: Untouched stretches of this size are left out; what touches neighbours stays in order.
_REGION: Final = 1 << 20
_FILE: Final = "trace"
_MOST_REGIONS: Final = 1 << 28


def to_records(trace: BlockTrace, capacity: int | None = None) -> Records:
    """A trace as a workload: each I/O is a group; those of a trace without times follow one another.

    All files and devices come to lie in one file, in which only the megabytes that the trace touches have a place: what
    was sequential or aligned stays so, and a terabyte device of which little is used becomes small.

    Args:
        trace: what reaches storage of it is taken, see :meth:`BlockTrace.on_storage`.
        capacity: bytes of the file; what lies beyond comes to lie over what is before. None = room for all.

    Raises:
        ConfigError: nothing reaches storage, or the capacity is below the largest I/O.
    """
    trace = trace.on_storage()
    moves = (trace.op != FSYNC) & (trace.length > 0)
    trace = trace.taken(moves | (trace.op == FSYNC))
    moves = trace.op != FSYNC
    if not moves.any():
        raise ConfigError(f"{trace.path} moves no bytes.")
    offset, size = _dense(trace, moves)
    if capacity is not None and capacity < size:
        room = capacity // _REGION * _REGION
        largest = int(trace.length.max())
        if room < largest:
            raise ConfigError(
                f"a file of {describe_size(capacity)} has no room for the largest I/O of {trace.path}, which is "
                f"{describe_size(largest)}: {describe_size(-(-largest // _REGION) * _REGION)} is the least."
            )
        offset = np.minimum(offset % room, room - trace.length)
        size = room
    return Records.build(
        Files.of({_FILE: size}),
        op=trace.op,
        offset=np.where(moves, offset, 0),
        length=np.where(moves, trace.length, 0),
        time_ns=trace.time_ns if trace.timed else -1,
        chain=None if trace.timed else np.zeros(len(trace), dtype=np.int64),
        stage=0 if trace.stage is None else trace.stage,
        stages=trace.stages or ("all",),
    )


def of_records(records: Records, name: str) -> BlockTrace:
    """Records as a trace, to be written in one of its formats; of groups and chains only the order and times stay.

    Args:
        records: of a workload.
        name: stands for the path of the trace in messages.
    """
    times = np.maximum(records.record_time_ns, 0)
    return BlockTrace(
        Path(name),
        "records",
        np.maximum.accumulate(times),
        records.op,
        records.file,
        records.offset.astype(np.int64),
        records.length.astype(np.int64),
        records.files.names,
        timed=records.timed,
        stage=records.stage,
        stages=records.stages,
    )


def sequential_share(trace: BlockTrace) -> float:
    """Share of reads and writes that begin where the last one of their file and kind ended."""
    rows = np.flatnonzero(trace.op < FSYNC)
    if not len(rows):
        return 0.0
    order = rows[np.lexsort((rows, trace.op[rows], trace.file[rows]))]
    same = (trace.file[order[1:]] == trace.file[order[:-1]]) & (trace.op[order[1:]] == trace.op[order[:-1]])
    follows = trace.offset[order[1:]] == trace.offset[order[:-1]] + trace.length[order[:-1]]
    return float(np.count_nonzero(same & follows) / len(rows))


def _dense(trace: BlockTrace, moves: NDArray[np.bool_]) -> tuple[NDArray[np.int64], int]:
    """Offsets in a file that has a place for the regions that are touched only, and its size."""
    first = trace.offset // _REGION
    last = np.where(moves, (trace.offset + np.maximum(trace.length, 1) - 1) // _REGION, first)
    per_file = int(last.max()) + 2
    key = trace.file.astype(np.int64) * per_file + first
    spans = np.where(moves, last - first + 1, 0)
    if int(spans.sum()) > _MOST_REGIONS or per_file * len(trace.files) >= 1 << 62:
        raise ConfigError(f"{trace.path} touches too much to be laid out: take a part of it.")
    touched = np.unique(
        np.repeat(key, spans) + np.arange(int(spans.sum())) - np.repeat(np.cumsum(spans) - spans, spans)
    )
    offset = np.searchsorted(touched, key) * _REGION + trace.offset % _REGION
    return offset, len(touched) * _REGION
