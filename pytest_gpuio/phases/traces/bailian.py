"""Qwen-Bailian traces: JSON lines of chats with the ids of their 16-token prefix blocks."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from pytest_gpuio.phases.traces.prefix_json import parse_object, read_requests
from pytest_gpuio.phases.traces.reading import Format, Reading
from pytest_gpuio.phases.traces.request_trace import RequestTrace
from pytest_gpuio.phases.traces.source import Malformed, Source


def matches(head: Sequence[bytes]) -> bool:
    """Whether the first line is of this format."""
    try:
        row = parse_object(head[0])
    except Malformed:
        return False
    return "hash_ids" in row and "chat_id" in row


def read(source: Source, reading: Reading) -> RequestTrace:
    """Reads it.

    Raises:
        TraceError: it cannot be read.
    """
    return read_requests(source, reading, FORMAT.name, unit="s", block_tokens=16)


FORMAT: Final = Format(
    "bailian",
    "Qwen-Bailian JSONL: chats with 16-token prefix blocks, times in s",
    "request",
    matches,
    read,
    choices=("time_unit", "block_tokens"),
)
