"""fio's iolog: versions 2 and 3 are read, version 3 is written."""

from __future__ import annotations

from array import array
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Final

import numpy as np

from pytest_gpuio.core.errors import ConfigError
from pytest_gpuio.phases.records import READ, WRITE
from pytest_gpuio.phases.traces.block_trace import DISCARD, SYNC, BlockTrace
from pytest_gpuio.phases.traces.reading import Format, Reading, column
from pytest_gpuio.phases.traces.source import Malformed, Source, shown, whole_number

_HEADERS: Final = {b"fio version 2 iolog": 2, b"fio version 3 iolog": 3}
_OPS: Final = {b"read": READ, b"write": WRITE, b"trim": DISCARD, b"sync": SYNC, b"datasync": SYNC}
_NAMES: Final = {READ: "read", WRITE: "write", SYNC: "sync", DISCARD: "trim"}
_LONGEST_NAME: Final = 255
_MOST_OFFSET: Final = (1 << 62) - 1
_MOST_STAMP_US: Final = 1 << 52
#: fio reads lengths with %u; larger I/O is split at a multiple of every alignment.
_LARGEST: Final = 1 << 31
#: fio 3.33 does not wait before what follows a stamp of 0.
_FIRST_STAMP_US: Final = 1


def matches(head: Sequence[bytes]) -> bool:
    """Whether the first line is the header of a version that is read; fio compares its beginning only."""
    return head[0].startswith(tuple(_HEADERS))


@dataclass(slots=True)
class _Log:
    """What the lines so far say."""

    version: int
    wait_relative: bool
    stamp_us: int = 0
    waits: bool = False
    files: dict[bytes, int] = field(default_factory=dict)
    open: set[bytes] = field(default_factory=set)

    def line(self, line: bytes) -> tuple[int, int, int, int, int] | None:
        """Microseconds, operation, file, offset and length; None = no I/O.

        Raises:
            Malformed: it is no line of this version.
        """
        fields = line.split()
        if self.version == 3:
            self.stamp_us = whole_number(fields.pop(0), "timestamp", _MOST_STAMP_US)
        if len(fields) not in (2, 4):
            raise Malformed(f"{shown(line)} is neither 'file action' nor 'file operation offset length'")
        name, action = fields[:2]
        if len(name) > _LONGEST_NAME:
            raise Malformed(f"file name of {len(name)} characters; fio takes {_LONGEST_NAME}")
        if len(fields) == 2:
            self._manage(name, action)
            return None
        if action == b"wait" and self.version == 2:
            wait = whole_number(fields[2], "wait", _MOST_STAMP_US // 1000)
            self.stamp_us = self.stamp_us + wait if self.wait_relative else wait * 1000
            self.waits = True
            return None
        op = _OPS.get(action)
        if op is None:
            raise Malformed(f"operation {shown(action)} is none of {', '.join(map(bytes.decode, _OPS))}")
        if name not in self.open:
            raise Malformed(f"{shown(name)} is not open here: 'add' and 'open' come before I/O")
        offset = whole_number(fields[2], "offset", _MOST_OFFSET)
        length = whole_number(fields[3], "length", (1 << 32) - 1)
        return self.stamp_us, op, self.files[name], 0 if op == SYNC else offset, 0 if op == SYNC else length

    def _manage(self, name: bytes, action: bytes) -> None:
        if action == b"add":
            self.files.setdefault(name, len(self.files))
        elif action not in (b"open", b"close"):
            raise Malformed(f"action {shown(action)} is none of add, open, close")
        elif name not in self.files:
            raise Malformed(f"{shown(name)} was not added: 'add' comes before '{action.decode()}'")
        elif action == b"open":
            self.open.add(name)
        else:
            self.open.discard(name)


def read(source: Source, reading: Reading) -> BlockTrace:
    """Reads it.

    Raises:
        TraceError: it cannot be read.
        ConfigError: an impossible choice.
    """
    if reading.wait not in (None, "ms-since-start", "us-since-previous"):
        raise ConfigError(f"wait {reading.wait!r} is none of ms-since-start, us-since-previous.")
    stamps, offsets, lengths = array("q"), array("q"), array("q")
    ops, files = array("B"), array("I")
    numbered = source.lines()
    first, line = next(numbered, (1, b""))
    version = next((number for text, number in _HEADERS.items() if line.startswith(text)), None)
    if version is None:
        source.fail(f"line {first} is not 'fio version 2 iolog' or 'fio version 3 iolog': {shown(line)}")
    log = _Log(version, reading.wait == "us-since-previous")
    for number, line in numbered:
        try:
            event = log.line(line)
        except Malformed as why:
            source.refuse(number, why)
            continue
        if event is not None:
            for values, value in zip((stamps, ops, files, offsets, lengths), event, strict=True):
                values.append(value)
    notes = source.finish(len(stamps))
    timed = version == 3 or log.waits
    if log.waits and reading.wait is None:
        notes = (*notes, "waits are read as fio 3.33 acts on them: until so many ms after the start (--wait)")
    if not timed:
        notes = (*notes, "no times: the I/O follows one another")
    trace = BlockTrace(
        source.path,
        FORMAT.name,
        column(stamps, np.int64) * 1000,
        column(ops, np.uint8),
        column(files, np.uint32),
        column(offsets, np.int64),
        column(lengths, np.int64),
        tuple(name.decode("utf-8", "backslashreplace") for name in log.files),
        timed=timed,
    )
    return trace.ordered(notes)


def lines(trace: BlockTrace) -> Iterator[str]:
    """The trace as version 3; fio then waits for each stamp, in microseconds since its start.

    Args:
        trace: what to write. Trims stay: fio discards where the log says so.

    Raises:
        ConfigError: a file's name cannot stand in an iolog.
    """
    for name in trace.files:
        if not name or len(name.encode()) > _LONGEST_NAME or any(mark.isspace() for mark in name):
            raise ConfigError(f"{name!r} cannot be a file of an iolog: 1 to {_LONGEST_NAME} characters, no blanks.")
    start = _FIRST_STAMP_US
    yield "fio version 3 iolog"
    yield from (f"{start} {name} add" for name in trace.files)
    yield from (f"{start} {name} open" for name in trace.files)
    stamp = start
    names = trace.files
    rows = zip(trace.time_ns.tolist(), trace.op.tolist(), trace.file.tolist(), trace.offset.tolist(),
               trace.length.tolist(), strict=True)  # fmt: skip
    for time_ns, op, file, offset, length in rows:
        stamp = start + time_ns // 1000
        if op == SYNC:
            yield f"{stamp} {names[file]} sync 0 0"
            continue
        end = offset + length
        while offset < end:
            part = min(end - offset, _LARGEST)
            yield f"{stamp} {names[file]} {_NAMES[op]} {offset} {part}"
            offset += part
    yield from (f"{stamp} {name} close" for name in trace.files)


FORMAT: Final = Format(
    "iolog",
    "fio iolog, version 2 or 3 (fio --write_iolog)",
    "block",
    matches,
    read,
    choices=("wait",),
)
