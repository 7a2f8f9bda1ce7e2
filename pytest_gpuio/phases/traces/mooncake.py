"""Mooncake traces: JSON lines of requests with the ids of their 512-token prefix blocks, read and written."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from typing import Final

import numpy as np

from pytest_gpuio.core.errors import ConfigError
from pytest_gpuio.phases.traces.prefix_json import parse_object, read_requests
from pytest_gpuio.phases.traces.reading import Format, Reading
from pytest_gpuio.phases.traces.request_trace import RequestTrace
from pytest_gpuio.phases.traces.source import Malformed, Source

BLOCK_TOKENS: Final = 512


def matches(head: Sequence[bytes]) -> bool:
    """Whether the first line is of this format."""
    try:
        row = parse_object(head[0])
    except Malformed:
        return False
    return "hash_ids" in row and "chat_id" not in row


def read(source: Source, reading: Reading) -> RequestTrace:
    """Reads it.

    Raises:
        TraceError: it cannot be read.
    """
    return read_requests(source, reading, FORMAT.name, unit="ms", block_tokens=BLOCK_TOKENS)


def lines(trace: RequestTrace) -> Iterator[str]:
    """The trace in this format: prefix blocks of 512 tokens, times in whole milliseconds.

    Raises:
        ConfigError: its blocks do not fill ones of 512 tokens.
    """
    if trace.block_ids is None:
        trace = trace.with_own_blocks(BLOCK_TOKENS)
    if BLOCK_TOKENS % trace.block_tokens:
        raise ConfigError(
            f"{trace.path} has blocks of {trace.block_tokens} tokens, which do not fill Mooncake's of {BLOCK_TOKENS}."
        )
    trace = trace.regrouped(BLOCK_TOKENS)
    assert trace.block_ids is not None
    assert trace.block_start is not None
    # As in the published files, ids are numbered in the order of their first use.
    _, first, inverse = np.unique(trace.block_ids, return_index=True, return_inverse=True)
    names = np.empty(len(first), dtype=np.int64)
    names[np.argsort(first)] = np.arange(len(first))
    ids = names[inverse].tolist()
    start = trace.block_start.tolist()
    stamps = np.rint(trace.time_ns / 1e6).astype(np.int64).tolist()
    for index, (stamp, tokens, generated) in enumerate(
        zip(stamps, trace.input_tokens.tolist(), trace.output_tokens.tolist(), strict=True)
    ):
        row = {
            "timestamp": stamp,
            "input_length": tokens,
            "output_length": generated,
            "hash_ids": ids[start[index] : start[index + 1]],
        }
        yield json.dumps(row)


FORMAT: Final = Format(
    "mooncake",
    "Mooncake JSONL: requests with 512-token prefix blocks, times in ms",
    "request",
    matches,
    read,
    choices=("time_unit", "block_tokens"),
)
