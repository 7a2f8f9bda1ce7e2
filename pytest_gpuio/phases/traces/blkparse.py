"""blkparse text: what blktrace saw of block requests, in the default output format."""

from __future__ import annotations

import re
from array import array
from collections.abc import Sequence
from typing import Final

import numpy as np

from pytest_gpuio.core.errors import ConfigError
from pytest_gpuio.phases.traces import rwbs
from pytest_gpuio.phases.traces.block_trace import SYNC, BlockTrace
from pytest_gpuio.phases.traces.reading import Format, Reading, column
from pytest_gpuio.phases.traces.source import Malformed, Source, shown

_SECTOR: Final = 512
_MOST_SECTORS: Final = (1 << 63) // _SECTOR - (1 << 32)
_EVENT: Final = re.compile(
    rb"\s*(\d{1,5},\d{1,7})\s+\d+\s+\d+\s+(\d{1,10})\.(\d{9})\s+\d+\s+([A-Za-z]{1,2})\s+(\S+)(?:\s+(.*))?"
)
_EXTENT: Final = re.compile(rb"(\d{1,19}) \+ (\d{1,10})(?: .*)?")
#: What a line of an event begins with, well formed or not.
_BEGINS: Final = re.compile(rb"\s*\d+,\s*\d+\s")
#: The summary that blkparse prints after the last event.
_SUMMARY: Final = re.compile(rb"(CPU\s*\d+ \(|Total \(|Throughput \(|Events \(|Skips:)")
_ISSUED, _QUEUED = b"D", b"Q"
_LOOKED_AT: Final = 50


def matches(head: Sequence[bytes]) -> bool:
    """Whether an event is among the first lines; blkparse may say something before."""
    return any(_EVENT.fullmatch(line) for line in head[:_LOOKED_AT])


def read(source: Source, reading: Reading) -> BlockTrace:
    """Reads the events of one action: issued to the driver, or queued where there is none such.

    Raises:
        TraceError: it cannot be read.
        ConfigError: the action asked for is none that begins an I/O.
    """
    if reading.event not in (None, "D", "Q"):
        raise ConfigError(f"blktrace event {reading.event!r} is none of D (issued to the driver), Q (queued).")
    stamps, offsets, lengths = array("q"), array("q"), array("q")
    ops, devices, queued = array("B"), array("I"), array("B")
    names: dict[bytes, int] = {}
    first: int | None = None
    for number, line in source.lines():
        if not _BEGINS.match(line):
            if _SUMMARY.match(line):
                break
            if first is None:
                continue
            source.refuse(number, f"{shown(line)} is neither an event nor the summary")
            continue
        try:
            event = _parse(line)
        except Malformed as why:
            source.refuse(number, why)
            continue
        first = 0 if first is None else first
        if event is None:
            continue
        device, stamp, action, op, offset, length = event
        stamps.append(stamp)
        offsets.append(offset)
        lengths.append(length)
        ops.append(op)
        devices.append(names.setdefault(device, len(names)))
        queued.append(action == _QUEUED)
    notes = source.finish(len(stamps))
    trace = BlockTrace(
        source.path,
        FORMAT.name,
        column(stamps, np.int64),
        column(ops, np.uint8),
        column(devices, np.uint32),
        column(offsets, np.int64),
        column(lengths, np.int64),
        tuple(name.decode() for name in names),
    )
    is_queued = column(queued, np.bool_)
    want_queued = reading.event == "Q" or (reading.event is None and bool(is_queued.all()))
    kept = trace.taken(np.flatnonzero(is_queued == want_queued))
    if not len(kept):
        source.fail(f"has no {reading.event} events: try --event {'Q' if reading.event == 'D' else 'D'}.")
    if reading.event is None and want_queued:
        notes = (*notes, "no request was seen issued (D): times and sizes are those of queueing (Q)")
    return kept.ordered(notes)


def _parse(line: bytes) -> tuple[bytes, int, bytes, int, int, int] | None:
    """Device, nanoseconds, action, operation, offset and length; None = an event that is no I/O of its own."""
    match = _EVENT.fullmatch(line)
    if match is None:
        raise Malformed(f"{shown(line)} is not an event of blkparse's default format")
    device, seconds, nanoseconds, action, letters, tail = match.groups()
    if action not in (_ISSUED, _QUEUED) or letters == b"N":
        return None
    op = rwbs.operation(letters)
    if op is None:
        return None
    stamp = int(seconds) * 10**9 + int(nanoseconds)
    if op == SYNC:
        return device, stamp, action, op, 0, 0
    extent = _EXTENT.fullmatch(tail or b"")
    if extent is None:
        # Passthrough commands have bytes and a command in brackets instead of sectors.
        raise Malformed(f"no 'sector + count' in {shown(line)}")
    sector, count = int(extent[1]), int(extent[2])
    if sector > _MOST_SECTORS or count > 1 << 32:
        raise Malformed(f"sector {sector:,} + {count:,} is beyond any device")
    return device, stamp, action, op, sector * _SECTOR, count * _SECTOR


FORMAT: Final = Format(
    "blkparse",
    "blkparse text: block requests as blktrace saw them",
    "block",
    matches,
    read,
    choices=("event",),
)
