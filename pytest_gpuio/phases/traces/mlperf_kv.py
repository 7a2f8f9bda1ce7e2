"""MLPerf Storage v3 KV cache traces: CSV of whole-object operations with their tier, read and written."""

from __future__ import annotations

from array import array
from collections.abc import Iterator, Sequence
from typing import Final

import numpy as np

from pytest_gpuio.core.errors import ConfigError
from pytest_gpuio.phases.records import READ, WRITE
from pytest_gpuio.phases.traces.block_trace import STORAGE_TIER, BlockTrace
from pytest_gpuio.phases.traces.reading import IO_RATES, Format, Reading, column
from pytest_gpuio.phases.traces.source import Malformed, Source, shown, whole_number
from pytest_gpuio.phases.traces.timeline import Stamps

HEADER: Final = "Timestamp,Operation,Object_Size_Bytes,Tier,Key,Phase"
STAGES: Final = ("Prefill", "Decode", "Evict")
_OPS: Final = {b"read": READ, b"write": WRITE}
_TIERS: Final = {b"tier-0": 0, b"tier-1": 1, b"tier-2": STORAGE_TIER}
_STAGE_OF: Final = {name.lower().encode(): index for index, name in enumerate(STAGES)}
_LARGEST: Final = 1 << 50
_LONGEST_KEY: Final = 1024


def matches(head: Sequence[bytes]) -> bool:
    """Whether the first line is this format's header."""
    return head[0].replace(b" ", b"").lower().startswith(b"timestamp,operation,object_size_bytes,tier,key")


def read(source: Source, reading: Reading) -> BlockTrace:
    """Reads it: each key is a file, each operation moves the whole object.

    Raises:
        TraceError: it cannot be read.
    """
    stamps, lengths = array("q"), array("q")
    ops, tiers, stages, objects = array("B"), array("B"), array("B"), array("I")
    keys: dict[bytes, int] = {}
    clock = Stamps("s", reading.time_unit)
    numbered = source.lines()
    first, line = next(numbered, (1, b""))
    if not matches([line]):
        source.fail(f"line {first} is not the header {HEADER}: {shown(line)}")
    for number, line in numbered:
        try:
            text, op, length, tier, key, stage = _parse(line)
            stamp = clock.of_text(text)
        except Malformed as why:
            source.refuse(number, why)
            continue
        stamps.append(stamp)
        ops.append(op)
        lengths.append(length)
        tiers.append(tier)
        objects.append(keys.setdefault(key, len(keys)))
        stages.append(stage)
    notes = source.finish(len(stamps))
    time_ns = column(stamps, np.int64)
    clock.check(source, time_ns, IO_RATES, "operations")
    return BlockTrace(
        source.path,
        FORMAT.name,
        time_ns,
        column(ops, np.uint8),
        column(objects, np.uint32),
        np.zeros(len(ops), dtype=np.int64),
        column(lengths, np.int64),
        tuple(key.decode("utf-8", "backslashreplace") for key in keys),
        tier=column(tiers, np.uint8),
        stage=column(stages, np.uint8),
        stages=STAGES,
    ).ordered(notes)


def lines(trace: BlockTrace) -> Iterator[str]:
    """The trace in this format: each stretch of a file that is read or written is an object.

    Args:
        trace: reads and writes; other operations are left out. Without tiers all of it is storage; without stages,
            writes are ``Prefill`` and reads ``Decode``, as the benchmark has them.

    Raises:
        ConfigError: a name cannot stand in a CSV field.
    """
    for name in trace.files:
        if any(mark in name for mark in ',"\r\n'):
            raise ConfigError(f"{name!r} cannot be a key of MLPerf's CSV: it holds a comma, a quote or a line break.")
    whole = trace.extents().tolist()
    known = tuple(STAGES.index(name) if name in STAGES else None for name in trace.stages)
    yield HEADER
    for index in np.flatnonzero(trace.op <= WRITE).tolist():
        write = int(trace.op[index]) == WRITE
        stage = None if trace.stage is None else known[int(trace.stage[index])]
        if stage is None:
            stage = 0 if write else 1
        tier = STORAGE_TIER if trace.tier is None else int(trace.tier[index])
        file, offset, length = (int(values[index]) for values in (trace.file, trace.offset, trace.length))
        key = trace.files[file] if offset == 0 and length == whole[file] else f"{trace.files[file]}@{offset}+{length}"
        micros = int(trace.time_ns[index]) // 1000
        yield (
            f"{micros // 1_000_000}.{micros % 1_000_000:06},{'Write' if write else 'Read'},{length},Tier-{tier},"
            f"{key},{STAGES[stage]}"
        )


def _parse(line: bytes) -> tuple[bytes, int, int, int, bytes, int]:
    fields = line.split(b",")
    if len(fields) not in (5, 6):
        raise Malformed(f"{len(fields)} fields where {HEADER} has 6: {shown(line)}")
    stamp, operation, size, level, key = (field.strip() for field in fields[:5])
    op, tier = _OPS.get(operation.lower()), _TIERS.get(level.lower())
    if op is None:
        raise Malformed(f"operation {shown(operation)} is none of Read, Write")
    if tier is None:
        raise Malformed(f"tier {shown(level)} is none of Tier-0, Tier-1, Tier-2")
    if not 0 < len(key) <= _LONGEST_KEY:
        raise Malformed(f"key {shown(key)} is empty or too long")
    told = fields[5].strip() if len(fields) == 6 else b""
    stage = _STAGE_OF.get(told.lower()) if told else (0 if op == WRITE else 1)
    if stage is None:
        raise Malformed(f"phase {shown(told)} is none of {', '.join(STAGES)}")
    return stamp, op, whole_number(size, "object size", _LARGEST), tier, key, stage


FORMAT: Final = Format(
    "mlperf-kv",
    "MLPerf Storage KV cache CSV (--io-trace-log): Timestamp,Operation,Object_Size_Bytes,Tier,Key,Phase",
    "block",
    matches,
    read,
    choices=("time_unit",),
)
