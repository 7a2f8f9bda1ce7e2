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
    """Quartiles as pytest-benchmark has them: of an odd number, weighted means of the neighbours of both quarters."""
    count = len(ordered)
    median = statistics.median(ordered)
    if count == 1:
        return median, median, median
    if count % 2 == 0:
        return statistics.median(ordered[: count // 2]), median, statistics.median(ordered[count // 2 :])
    quarter, near = count // 4, 0.75 if count % 4 == 1 else 0.25
    # The neighbours of the first quarter, and their mirror images.
    first = (quarter - 1, quarter) if count % 4 == 1 else (quarter, quarter + 1)
    q1 = (1 - near) * ordered[first[0]] + near * ordered[first[1]]
    q3 = near * ordered[count - 1 - first[1]] + (1 - near) * ordered[count - 1 - first[0]]
    return q1, median, q3
