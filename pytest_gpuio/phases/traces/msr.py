"""MSR Cambridge block traces: CSV of Windows file times, hosts, disks, operations, offsets and sizes."""

from __future__ import annotations

import re
from array import array
from collections.abc import Sequence
from typing import Final

import numpy as np

from pytest_gpuio.phases.records import READ, WRITE
from pytest_gpuio.phases.traces.block_trace import BlockTrace
from pytest_gpuio.phases.traces.reading import Format, Reading, column
from pytest_gpuio.phases.traces.source import Malformed, Source, shown

_EVENT: Final = re.compile(
    rb"(\d{1,18}),([\w.-]{1,64}),(\d{1,4}),(Read|Write),(\d{1,19}),(\d{1,12}),\d{1,18}", re.IGNORECASE
)
_OPS: Final = {b"read": READ, b"write": WRITE}
#: Steps of 100 ns since 1601: these are 1980 and 2100, so that seconds or nanoseconds since 1970 are found out.
_EARLIEST: Final = 119_600_064_000_000_000
_LATEST: Final = 157_469_184_000_000_000
_STEP_NS: Final = 100


def matches(head: Sequence[bytes]) -> bool:
    """Whether the first line is of this format, which has no header."""
    return _EVENT.fullmatch(head[0].strip()) is not None


def read(source: Source, _reading: Reading) -> BlockTrace:
    """Reads it.

    Raises:
        TraceError: it cannot be read.
    """
    stamps, offsets, lengths = array("q"), array("q"), array("q")
    ops, disks = array("B"), array("I")
    names: dict[bytes, int] = {}
    first = 0
    for number, line in source.lines():
        try:
            stamp, disk, op, offset, length = _parse(line.strip())
        except Malformed as why:
            source.refuse(number, why)
            continue
        first = first or stamp
        stamps.append((stamp - first) * _STEP_NS)
        disks.append(names.setdefault(disk, len(names)))
        ops.append(op)
        offsets.append(offset)
        lengths.append(length)
    notes = source.finish(len(stamps))
    return BlockTrace(
        source.path,
        FORMAT.name,
        column(stamps, np.int64),
        column(ops, np.uint8),
        column(disks, np.uint32),
        column(offsets, np.int64),
        column(lengths, np.int64),
        tuple(name.decode() for name in names),
    ).ordered(notes)


def _parse(line: bytes) -> tuple[int, bytes, int, int, int]:
    match = _EVENT.fullmatch(line)
    if match is None:
        raise Malformed(f"{shown(line)} is not filetime,host,disk,Read|Write,offset,size,response time")
    stamp = int(match[1])
    if not _EARLIEST <= stamp <= _LATEST:
        raise Malformed(f"time {stamp} is not of 1980 .. 2100 in steps of 100 ns since 1601 (Windows file time)")
    offset = int(match[5])
    if offset > (1 << 63) - (1 << 41):
        raise Malformed(f"offset {offset:,} is beyond any device")
    return stamp, match[2] + b"." + match[3], _OPS[match[4].lower()], offset, int(match[6])


FORMAT: Final = Format(
    "msr",
    "MSR Cambridge CSV: filetime,host,disk,Read|Write,offset,size,response time",
    "block",
    matches,
    read,
)
