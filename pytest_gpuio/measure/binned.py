"""A latency histogram on its way from the measuring child: its bins as one text, which JSON passes on as it is."""

from __future__ import annotations

import binascii
from array import array
from collections.abc import Mapping
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
        "bins": pack(histogram.bins()),
    }


def pack(bins: Mapping[int, int]) -> str:
    """Counts by bin index as text: all indices, then all counts, 8 bytes each, in base64.

    Lists of numbers would take JSON a millisecond per cell. Both ends are of one machine: its byte order will do.
    """
    return binascii.b2a_base64(array("Q", [*bins, *bins.values()]).tobytes(), newline=False).decode("ascii")


def unpack(text: str) -> dict[int, int]:
    """Inverse of :func:`pack`."""
    numbers = array("Q", binascii.a2b_base64(text))
    half = len(numbers) // 2
    return dict(zip(numbers[:half], numbers[half:], strict=True))
