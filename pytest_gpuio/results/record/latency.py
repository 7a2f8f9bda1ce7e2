"""Distributions of times: nanoseconds of requests."""

from __future__ import annotations

from typing import TypedDict


class Distribution(TypedDict):
    """A latency distribution in nanoseconds; figures are null when ``count`` is 0.

    ``overflow`` values at or above 2^42 ns are in ``count``, ``mean_ns`` and ``max_ns``, not in the histogram.
    """

    count: int
    overflow: int
    min_ns: int | None
    mean_ns: float | None
    p50_ns: int | None
    p90_ns: int | None
    p95_ns: int | None
    p99_ns: int | None
    p999_ns: int | None
    max_ns: int | None
    histogram: str


class Latency(TypedDict):
    """Total latency, completion latency (after submit .. reaped), and submission latency with its reason if null.

    The total ends when the bytes are in the destination memory; the others are the storage device's part.
    """

    lat: Distribution
    clat: Distribution
    slat: Distribution | None
    slat_reason: str | None
