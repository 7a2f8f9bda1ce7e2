"""Block requests printed by bpftrace as ``nsecs, rwbs, bytes, sector, nr_sector``, the CHEOPS '25 artefacts' format."""

from __future__ import annotations

import re
from array import array
from collections.abc import Sequence
from typing import Final

import numpy as np

from pytest_gpuio.phases.traces import rwbs
from pytest_gpuio.phases.traces.block_trace import SYNC, BlockTrace
from pytest_gpuio.phases.traces.reading import Format, Reading, column
from pytest_gpuio.phases.traces.source import Malformed, Source, shown

_SECTOR: Final = 512
_MOST_SECTORS: Final = (1 << 63) // _SECTOR - (1 << 32)
_EVENT: Final = re.compile(rb"(\d{1,18}), ?([A-Z]{1,8}), ?(\d{1,12}), ?(\d{1,20}), ?(\d{1,10})")
_LOOKED_AT: Final = 50


def matches(head: Sequence[bytes]) -> bool:
    """Whether the first line after bpftrace's own is of this format."""
    events = [line for line in head[:_LOOKED_AT] if not _is_talk(line)]
    return bool(events) and _EVENT.fullmatch(events[0].strip()) is not None


def read(source: Source, _reading: Reading) -> BlockTrace:
    """Reads it.

    Raises:
        TraceError: it cannot be read.
    """
    stamps, offsets, lengths, ops = array("q"), array("q"), array("q"), array("B")
    for number, line in source.lines():
        if _is_talk(line):
            continue
        try:
            event = _parse(line.strip())
        except Malformed as why:
            source.refuse(number, why)
            continue
        if event is None:
            continue
        stamp, op, offset, length = event
        stamps.append(stamp)
        ops.append(op)
        offsets.append(offset)
        lengths.append(length)
    notes = source.finish(len(stamps))
    return BlockTrace(
        source.path,
        FORMAT.name,
        column(stamps, np.int64),
        column(ops, np.uint8),
        np.zeros(len(ops), dtype=np.uint32),
        column(offsets, np.int64),
        column(lengths, np.int64),
        ("device",),
    ).ordered(notes)


def _is_talk(line: bytes) -> bool:
    """What bpftrace says itself: how many probes it attached, and events that it lost."""
    return line.startswith((b"Attach", b"Lost ", b"WARNING"))


def _parse(line: bytes) -> tuple[int, int, int, int] | None:
    """Nanoseconds, operation, offset and length; None = neither data nor a flush."""
    match = _EVENT.fullmatch(line)
    if match is None:
        raise Malformed(f"{shown(line)} is not nsecs, rwbs, bytes, sector, nr_sector")
    stamp, letters, size, sector, count = match.groups()
    op = rwbs.operation(letters)
    if op is None:
        return None
    if op == SYNC:
        return int(stamp), op, 0, 0
    if int(sector) > _MOST_SECTORS:
        raise Malformed(f"sector {int(sector):,} is beyond any device")
    if int(size) != int(count) * _SECTOR:
        raise Malformed(f"{int(size):,} bytes are not {int(count):,} sectors of {_SECTOR}")
    return int(stamp), op, int(sector) * _SECTOR, int(size)


FORMAT: Final = Format(
    "bpftrace",
    "bpftrace CSV: nsecs, rwbs, bytes, sector, nr_sector (CHEOPS '25)",
    "block",
    matches,
    read,
)
