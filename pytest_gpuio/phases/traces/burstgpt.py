"""BurstGPT traces: a CSV table of seconds, models and token counts, with or without sessions."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Final

import numpy as np

from pytest_gpuio.phases.traces.reading import MOST_TOKENS, Format, Reading
from pytest_gpuio.phases.traces.request_trace import RequestTrace
from pytest_gpuio.phases.traces.source import Malformed, Source, shown
from pytest_gpuio.phases.traces.timeline import Stamps
from pytest_gpuio.phases.traces.token_table import header, read_table, whole_tokens

_COLUMNS: Final = (b"timestamp", b"request tokens", b"response tokens")


def matches(head: Sequence[bytes]) -> bool:
    """Whether the first line is this format's header; ``Session ID`` and ``Elapsed time`` came with the third file."""
    return set(_COLUMNS) <= set(header(head[0]))


def read(source: Source, reading: Reading) -> RequestTrace:
    """Reads it; a request without a response (it failed) stays, as its prompt was sent.

    Raises:
        TraceError: it cannot be read.
    """
    trace = read_table(source, reading, FORMAT.name, _COLUMNS, Stamps.of_text, _tokens)
    failed = int(np.count_nonzero(trace.output_tokens == 0))
    if not failed:
        return trace
    return replace(trace, notes=(*trace.notes, f"{failed:,} requests failed (no response); their prompts stay"))


def _tokens(text: bytes, what: str) -> int:
    whole, point, fraction = text.strip().partition(b".")
    if point and fraction.strip(b"0"):
        raise Malformed(f"{what} {shown(text)} is not a whole number (0 .. {MOST_TOKENS:,})")
    return whole_tokens(whole, what)


FORMAT: Final = Format(
    "burstgpt",
    "BurstGPT CSV: Timestamp (s), Request tokens, Response tokens, found by name",
    "request",
    matches,
    read,
    choices=("time_unit",),
)
