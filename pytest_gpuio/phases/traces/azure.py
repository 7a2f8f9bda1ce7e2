"""Azure LLM inference traces: a CSV table of calendar times and token counts."""

from __future__ import annotations

import re
from collections.abc import Sequence
from datetime import date
from functools import lru_cache
from typing import Final

from pytest_gpuio.phases.traces.reading import Format, Reading
from pytest_gpuio.phases.traces.request_trace import RequestTrace
from pytest_gpuio.phases.traces.source import Malformed, Source, shown
from pytest_gpuio.phases.traces.timeline import Stamps
from pytest_gpuio.phases.traces.token_table import header, read_table

#: The 2025 table has ``NumImages`` between them; columns are found by name.
_COLUMNS: Final = (b"timestamp", b"contexttokens", b"generatedtokens")
# 2023: seven digits of fraction and no zone. 2024: up to six, and +00:00.
_STAMP: Final = re.compile(
    rb"(\d{4})-(\d\d)-(\d\d)[ T]([01]\d|2[0-3]):([0-5]\d):([0-5]\d)(?:\.(\d{1,9}))?(?:Z|[+-]00:?00)?"
)


def matches(head: Sequence[bytes]) -> bool:
    """Whether the first line is this format's header."""
    return set(_COLUMNS) <= set(header(head[0]))


def read(source: Source, reading: Reading) -> RequestTrace:
    """Reads it.

    Raises:
        TraceError: it cannot be read.
    """
    return read_table(source, reading, FORMAT.name, _COLUMNS, _stamp)


def _stamp(clock: Stamps, text: bytes) -> int:
    match = _STAMP.fullmatch(text.strip())
    if match is None:
        raise Malformed(f"timestamp {shown(text)} is not like 2023-11-16 18:17:03.9799600 (UTC)")
    year, month, day, hour, minute, second, fraction = match.groups()
    try:
        days = _days(int(year), int(month), int(day))
    except ValueError:
        raise Malformed(f"timestamp {shown(text)} names a day that is not in the calendar") from None
    seconds = days * 86_400 + int(hour) * 3_600 + int(minute) * 60 + int(second)
    return clock.of_ns(seconds * 10**9 + int((fraction or b"0").ljust(9, b"0")))


@lru_cache
def _days(year: int, month: int, day: int) -> int:
    return date(year, month, day).toordinal()


FORMAT: Final = Format(
    "azure",
    "Azure LLM inference CSV: TIMESTAMP,ContextTokens,GeneratedTokens",
    "request",
    matches,
    read,
)
