"""A latency histogram on its way from the measuring child: its bins as one text, which JSON passes on as it is."""

from __future__ import annotations

import binascii
from array import array
from collections.abc import Mapping
from itertools import compress
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pytest_gpuio.engine import Histogram


def histogram_values(histogram: Histogram) -> dict[str, Any]:
    """The histogram as JSON-able values; see :func:`unpack` for ``bins``."""
    return {
        "count": histogram.count,
        "overflow": histogram.overflow,
        "sum_ns": histogram.sum_ns,
        "min_ns": histogram.min_ns,
        "max_ns": histogram.max_ns,
        "bins": _text(*histogram.counts()),
    }


def pack(bins: Mapping[int, int]) -> str:
    """Counts by bin index as text: the first index, then the counts from there on, 8 bytes each, in base64.

    Lists of numbers would take JSON a millisecond per cell. Both ends are of one machine: its byte order will do.
    """
    first, end = min(bins, default=0), max(bins, default=-1) + 1
    return _text(first, array("Q", (bins.get(index, 0) for index in range(first, end))).tobytes())


def _text(first: int, counts: bytes) -> str:
    return f"{first}:{binascii.b2a_base64(counts, newline=False).decode('ascii')}"


def unpack(text: str) -> dict[int, int]:
    """Inverse of :func:`pack`."""
    first, _, rest = text.partition(":")
    counts = array("Q", binascii.a2b_base64(rest))
    place = int(first)
    return {place + index: counts[index] for index in compress(range(len(counts)), counts)}
