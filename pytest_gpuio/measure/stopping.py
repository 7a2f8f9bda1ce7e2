"""When warm-up is over and when enough windows were measured."""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, Literal

StopReason = Literal["precision", "max_time", "max_windows", "interrupted"]

# Two-sided 95 % quantiles of Student's t for 1..30 degrees of freedom; the normal's 1.96 would stop far too early on
# the handful of windows a quick profile measures.
_T95: Final = (
    12.7062, 4.3027, 3.1824, 2.7764, 2.5706, 2.4469, 2.3646, 2.3060, 2.2622, 2.2281,
    2.2010, 2.1788, 2.1604, 2.1448, 2.1314, 2.1199, 2.1098, 2.1009, 2.0930, 2.0860,
    2.0796, 2.0739, 2.0687, 2.0639, 2.0595, 2.0555, 2.0518, 2.0484, 2.0452, 2.0423,
)  # fmt: skip


def t95(freedom: int) -> float:
    """Two-sided 95 % quantile of Student's t, error below 0.1 %.

    Raises:
        ValueError: fewer than one degree of freedom.
    """
    if freedom < 1:
        raise ValueError("Student's t needs at least one degree of freedom")
    if freedom <= len(_T95):
        return _T95[freedom - 1]
    z = 1.959964
    return z + (z**3 + z) / (4 * freedom) + (5 * z**5 + 16 * z**3 + 3 * z) / (96 * freedom**2)


def relative_ci(values: Sequence[float]) -> float | None:
    """Half-width of the mean's 95 % confidence interval over the mean; None below two values or for a zero mean."""
    if len(values) < 2:
        return None
    mean = statistics.fmean(values)
    if mean <= 0:
        return None
    return t95(len(values) - 1) * statistics.stdev(values) / math.sqrt(len(values)) / mean


@dataclass(slots=True)
class WarmUp:
    """Discards windows until two neighbours agree, or until patience ends.

    Attributes:
        tolerance: relative change between neighbours that counts as flat.
        most_windows, most_seconds: patience; when it ends the reason says that the rate was still moving.
    """

    tolerance: float = 0.05
    most_windows: int = 8
    most_seconds: float = 5.0
    windows: int = 0
    seconds: float = 0.0
    reason: str = ""
    _last: float | None = None

    def done(self, window_seconds: float, ios: int) -> bool:
        """Take one finished window; True when measuring may start."""
        self.windows += 1
        self.seconds += window_seconds
        cost = window_seconds / max(ios, 1)
        last, self._last = self._last, cost
        if last is None:
            change = math.inf
        else:
            change = abs(cost - last) / last if last > 0 else 0.0
            if change <= self.tolerance:
                self.reason = f"flat after {self.windows} windows"
                return True
        if self.windows >= self.most_windows or self.seconds >= self.most_seconds:
            moved = "one window only" if math.isinf(change) else f"still moving by {change:.0%}"
            self.reason = f"gave up after {self.windows} windows: {moved}"
            return True
        return False


@dataclass(slots=True)
class StoppingRule:
    """Stops at the asked precision, else at the time budget.

    Attributes:
        precision: wanted relative half-width of the mean's 95 % confidence interval.
        max_time: seconds of measured windows.
        least_windows: below it precision is not believed.
        fewest: below it even the time budget does not stop.
    """

    precision: float
    max_time: float
    least_windows: int = 5
    fewest: int = 3
    most_windows: int = 10_000

    def reason(self, costs: Sequence[float], seconds: float) -> StopReason | None:
        """Why to stop after these windows, or None to go on.

        Args:
            costs: seconds per I/O of each window.
            seconds: sum of the windows' durations.
        """
        if len(costs) >= self.least_windows:
            ci = relative_ci(costs)
            if ci is not None and ci <= self.precision:
                return "precision"
        if len(costs) >= self.most_windows:
            return "max_windows"
        if seconds >= self.max_time and len(costs) >= self.fewest:
            return "max_time"
        return None
