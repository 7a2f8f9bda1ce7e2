"""CSV tables of requests: columns found by their names in the header, one request a line."""

from __future__ import annotations

from array import array
from collections.abc import Callable, Sequence

import numpy as np

from pytest_gpuio.phases.traces.reading import MOST_TOKENS, REQUEST_RATES, Reading, column
from pytest_gpuio.phases.traces.request_trace import RequestTrace
from pytest_gpuio.phases.traces.source import Malformed, Source, shown, whole_number
from pytest_gpuio.phases.traces.timeline import Stamps


def header(line: bytes) -> list[bytes]:
    """Names of the columns in a header line, in small letters."""
    return [name.strip().strip(b'"').lower() for name in line.split(b",")]


def read_table(
    source: Source,
    reading: Reading,
    format_: str,
    names: Sequence[bytes],
    stamp_of: Callable[[Stamps, bytes], int],
    tokens_of: Callable[[bytes, str], int] | None = None,
) -> RequestTrace:
    """Reads requests from a table.

    Args:
        source: the file.
        reading: choices.
        format_: name of the format.
        names: of the columns of timestamp, input tokens and output tokens, in small letters.
        stamp_of: reads a timestamp.
        tokens_of: reads a number of tokens; None = whole numbers.

    Raises:
        TraceError: it cannot be read so.
    """
    number_of = tokens_of or whole_tokens
    stamps, inputs, outputs = array("q"), array("q"), array("q")
    clock = Stamps("s", reading.time_unit)
    numbered = source.lines()
    first, line = next(numbered, (1, b""))
    columns = header(line)
    missing = [name.decode() for name in names if name not in columns]
    if missing:
        source.fail(f"line {first} is no header with {', '.join(missing)}: {shown(line)}")
    when, before, after = (columns.index(name) for name in names)
    width = len(columns)
    for number, line in numbered:
        fields = line.split(b",")
        try:
            if len(fields) != width:
                raise Malformed(f"{len(fields)} fields where the header has {width}: {shown(line)}")
            tokens = number_of(fields[before], "input tokens")
            generated = number_of(fields[after], "output tokens")
            stamp = stamp_of(clock, fields[when])
        except Malformed as why:
            source.refuse(number, why)
            continue
        stamps.append(stamp)
        inputs.append(tokens)
        outputs.append(generated)
    notes = source.finish(len(stamps))
    time_ns = column(stamps, np.int64)
    clock.check(source, time_ns, REQUEST_RATES, "requests")
    return RequestTrace(source.path, format_, time_ns, column(inputs, np.int64), column(outputs, np.int64)).ordered(
        notes
    )


def whole_tokens(text: bytes, what: str) -> int:
    """A number of tokens.

    Raises:
        Malformed: it is not one.
    """
    return whole_number(text.strip(), what, MOST_TOKENS)
