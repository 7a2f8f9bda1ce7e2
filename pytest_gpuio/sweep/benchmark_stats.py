"""The figures pytest-benchmark derives from rounds, for exports that it does not write itself."""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from typing import Any


def stats_of(seconds: Sequence[float], ios: int) -> dict[str, Any]:
    """What pytest-benchmark's JSON has under ``stats`` for windows of ``ios`` requests each; times per request.

    Args:
        seconds: of each window, at least one.
        ios: requests of each.

    Source: ``pytest_benchmark/stats.py`` defines the names; the test suite compares with it.
    """
    data = [second / ios for second in seconds]
    ordered = sorted(data)
    count = len(data)
    total = math.fsum(data)
    mean = total / count
    stddev = statistics.stdev(data) if count > 1 else 0.0
    q1, median, q3 = _quartiles(ordered)
    iqr = q3 - q1
    low, high = q1 - 1.5 * iqr, q3 + 1.5 * iqr
    inside = [value for value in ordered if low <= value <= high] or ordered
    iqr_outliers = sum(not low <= value <= high for value in data)
    stddev_outliers = sum(abs(value - mean) > stddev for value in data)
    return {
        "min": ordered[0],
        "max": ordered[-1],
        "mean": mean,
        "stddev": stddev,
        "rounds": count,
        "median": median,
        "iqr": iqr,
        "q1": q1,
        "q3": q3,
        "iqr_outliers": iqr_outliers,
        "stddev_outliers": stddev_outliers,
        "outliers": f"{stddev_outliers};{iqr_outliers}",
        "ld15iqr": inside[0],
        "hd15iqr": inside[-1],
        "ops": count / total,
        "total": total,
        "data": data,
        "iterations": ios,
    }


def _quartiles(ordered: Sequence[float]) -> tuple[float, float, float]:
    """Quartiles as pytest-benchmark has them: medians of the halves, the middle value in neither."""
    half, odd = divmod(len(ordered), 2)
    median = statistics.median(ordered)
    if len(ordered) == 1:
        return ordered[0], median, ordered[0]
    return statistics.median(ordered[:half]), median, statistics.median(ordered[half + odd :])
