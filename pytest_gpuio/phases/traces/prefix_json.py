"""JSON lines of requests with prefix hash ids, which Mooncake and Qwen-Bailian both write."""

from __future__ import annotations

import json
from array import array
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from pytest_gpuio.core.errors import ConfigError
from pytest_gpuio.phases.traces.reading import MOST_TOKENS, REQUEST_RATES, Reading, column
from pytest_gpuio.phases.traces.request_trace import RequestTrace
from pytest_gpuio.phases.traces.source import Malformed, Source, shown
from pytest_gpuio.phases.traces.timeline import Stamps

#: Block sizes in use, tried when the documented one does not fit.
_BLOCK_TOKENS: Final = (512, 16, 32, 64, 128, 256, 1024, 2048)
_MOST_ID: Final = (1 << 63) - 1
_MOST_BLOCKS: Final = 1 << 22


def parse_object(line: bytes) -> dict[str, Any]:
    """The JSON object of a line.

    Raises:
        Malformed: it is not one.
    """
    try:
        value = json.loads(line)
    except (ValueError, RecursionError):
        raise Malformed(f"{shown(line)} is not JSON") from None
    if not isinstance(value, dict):
        raise Malformed(f"{shown(line)} is not a JSON object")
    return value


def read_requests(source: Source, reading: Reading, format_: str, *, unit: str, block_tokens: int) -> RequestTrace:
    """Reads objects with ``timestamp``, ``input_length``, ``output_length`` and ``hash_ids``; other keys are let be.

    Args:
        source: the file.
        reading: choices.
        format_: name of the format.
        unit: of its timestamps by its documentation.
        block_tokens: tokens of a block by its documentation.

    Raises:
        TraceError: it cannot be read so.
        ConfigError: a choice is impossible.
    """
    if reading.block_tokens is not None and not 1 <= reading.block_tokens <= 1 << 20:
        raise ConfigError(f"blocks of {reading.block_tokens:,} tokens are outside 1 .. {1 << 20:,}.")
    stamps, numbers, inputs, outputs = array("q"), array("q"), array("q"), array("q")
    ids, ends = array("q"), array("q", [0])
    clock = Stamps(unit, reading.time_unit)
    for number, line in source.lines():
        try:
            row = parse_object(line)
            tokens = _tokens(row, "input_length")
            generated = _tokens(row, "output_length")
            blocks = _hash_ids(row)
            stamp = clock.of_number(row.get("timestamp"))
        except Malformed as why:
            source.refuse(number, why)
            continue
        stamps.append(stamp)
        numbers.append(number)
        inputs.append(tokens)
        outputs.append(generated)
        ids.extend(blocks)
        ends.append(len(ids))
    notes = source.finish(len(stamps))
    lengths, start = column(inputs, np.int64), column(ends, np.int64)
    size, good, said = _settle_blocks(source, reading, lengths, np.diff(start), column(numbers, np.int64), block_tokens)
    time_ns = column(stamps, np.int64)
    clock.check(source, time_ns, REQUEST_RATES, "requests")
    trace = RequestTrace(
        source.path, format_, time_ns, lengths, column(outputs, np.int64), column(ids, np.int64), start, size
    )
    kept = trace if good.all() else trace.taken(np.flatnonzero(good))
    return kept.ordered((*source.finish(len(kept)), *said) if len(kept) < len(trace) else (*notes, *said))


def _settle_blocks(
    source: Source,
    reading: Reading,
    lengths: NDArray[np.int64],
    blocks: NDArray[np.int64],
    numbers: NDArray[np.int64],
    documented: int,
) -> tuple[int, NDArray[np.bool_], tuple[str, ...]]:
    """Tokens of a block, which requests have as many blocks as their length asks for, and what to tell of it."""
    size = reading.block_tokens or documented
    good = blocks == -(-lengths // size)
    if good.all():
        return size, good, ()
    if reading.block_tokens is None:
        for other in _BLOCK_TOKENS:
            if np.array_equal(blocks, -(-lengths // other)):
                return (
                    other,
                    np.ones(len(blocks), dtype=np.bool_),
                    (f"its blocks hold {other} tokens, not {documented} as the format's do",),
                )
    for place in np.flatnonzero(~good).tolist():
        source.refuse(
            int(numbers[place]),
            f"{blocks[place]:,} hash_ids for {lengths[place]:,} tokens: blocks of {size} tokens make "
            f"{-(-int(lengths[place]) // size):,} (other block sizes: --block-tokens)",
        )
    return size, good, ()


def _tokens(row: dict[str, Any], key: str) -> int:
    value = row.get(key)
    if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value <= MOST_TOKENS:
        raise Malformed(f"{key} {str(value)[:40]!r} is not a number of tokens (0 .. {MOST_TOKENS:,})")
    return value


def _hash_ids(row: dict[str, Any]) -> list[int]:
    value = row.get("hash_ids")
    if not isinstance(value, list) or len(value) > _MOST_BLOCKS:
        raise Malformed("hash_ids is not a list of block ids")
    if value and set(map(type, value)) != {int}:
        raise Malformed("hash_ids holds something that is not a whole number")
    if value and not (min(value) >= 0 and max(value) <= _MOST_ID):
        raise Malformed(f"hash_ids holds a number outside 0 .. {_MOST_ID:,}")
    if len(set(value)) != len(value):
        raise Malformed("hash_ids names a block twice: an id stands for a block and all before it")
    return value
