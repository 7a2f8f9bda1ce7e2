"""When warm-up is over and when enough windows were measured."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final, Literal

StopReason = Literal["precision", "max_time", "max_windows", "interrupted"]

# Two-sided 95 % quantiles of Student's t for 1..30 degrees of freedom; the normal's 1.96 would stop far too early on
# the handful of windows a quick profile measures.
_T95: Final = (
    12.7062, 4.3027, 3.1824, 2.7764, 2.5706, 2.4469, 2.3646, 2.3060, 2.2622, 2.2281,
    2.2010, 2.1788, 2.1604, 2.1448, 2.1314, 2.1199, 2.1098, 2.1009, 2.0930, 2.0860,
    2.0796, 2.0739, 2.0687, 2.0639, 2.0595, 2.0555, 2.0518, 2.0484, 2.0452, 2.0423,
)  # fmt: skip


def t95(freedom: float) -> float:
    """Two-sided 95 % quantile of Student's t, error below 0.1 % for whole degrees of freedom, 3 % between them.

    Raises:
        ValueError: fewer than one degree of freedom.
    """
    if freedom < 1:
        raise ValueError("Student's t needs at least one degree of freedom")
    whole = math.floor(freedom)
    if whole < len(_T95):
        # Straight in 1/freedom is the quantile's logarithm, nearly.
        share = (1 / freedom - 1 / (whole + 1)) * whole * (whole + 1)
        return _T95[whole] * math.pow(_T95[whole - 1] / _T95[whole], share)
    if freedom == len(_T95):
        return _T95[-1]
    z = 1.959964
    return z + (z**3 + z) / (4 * freedom) + (5 * z**5 + 16 * z**3 + 3 * z) / (96 * freedom**2)


def effective_count(values: Sequence[float]) -> float:
    """Number of independent values that know the mean as well as these do; at most their number, at least 2.

    Neighbouring windows share what moves slowly (a flash translation layer at work, temperature, neighbours), so the
    textbook interval, which takes them for independent, is too narrow and stops too early. The number is divided by the
    integrated autocorrelation time, summed over lags in pairs for as long as a pair is positive (Geyer's initial
    positive sequence), which needs no model and no tuning. Alternation makes a mean better than its count says; that is
    not claimed.
    """
    count = len(values)
    if count <= 2:
        return float(count)
    mean = math.fsum(values) / count
    centred = [value - mean for value in values]
    power = math.fsum(value * value for value in centred)
    if power <= 0.0:
        return float(count)

    def correlation(lag: int) -> float:
        return math.fsum(a * b for a, b in zip(centred, centred[lag:], strict=False)) / power

    time, lag = 1.0 + 2.0 * correlation(1), 2
    while lag + 1 < count // 2:
        pair = correlation(lag) + correlation(lag + 1)
        if pair <= 0.0:
            break
        time += 2.0 * pair
        lag += 2
    return min(float(count), max(2.0, count / max(time, 1.0)))


def relative_ci(values: Sequence[float]) -> float | None:
    """Half-width of the mean's 95 % confidence interval over the mean, autocorrelation considered.

    Returns:
        None below two values or for a zero mean.
    """
    count = len(values)
    if count < 2:
        return None
    mean = math.fsum(values) / count
    if mean <= 0:
        return None
    deviation = math.sqrt(math.fsum((value - mean) ** 2 for value in values) / (count - 1))
    independent = effective_count(values)
    return t95(independent - 1) * deviation / math.sqrt(independent) / mean


@dataclass(slots=True)
class WarmUp:
    """Discards windows until their cost is flat, or until patience ends.

    Flat is any of: two neighbours within a quarter of the tolerance; three windows inside the tolerance; four windows
    whose order shows no trend, however much they scatter: on a noisy target waiting for agreement would only waste
    time, and the noise is the stopping rule's matter. What still creeps is found by the gate ``stable``.

    Attributes:
        tolerance: relative range of three windows that counts as flat.
        most_windows, most_seconds: patience; when it ends the reason says by how much the cost was still moving.
    """

    tolerance: float = 0.05
    most_windows: int = 8
    most_seconds: float = 5.0
    windows: int = 0
    seconds: float = 0.0
    reason: str = ""
    _costs: list[float] = field(default_factory=list)

    def done(self, window_seconds: float, ios: int) -> bool:
        """Take one finished window; True when measuring may start."""
        self.windows += 1
        self.seconds += window_seconds
        self._costs.append(window_seconds / max(ios, 1))
        flat = self._flat()
        if flat is not None:
            self.reason = f"flat after {self.windows} windows: {flat}"
            return True
        if self.windows >= self.most_windows or self.seconds >= self.most_seconds:
            moved = "one window only" if self.windows == 1 else f"still moving by {_range(self._costs[-2:]):.0%}"
            self.reason = f"gave up after {self.windows} windows: {moved}"
            return True
        return False

    def _flat(self) -> str | None:
        costs = self._costs
        for count, tolerance in ((2, self.tolerance / 4), (3, self.tolerance)):
            if len(costs) >= count and _range(costs[-count:]) <= tolerance:
                return f"the last {count} within {tolerance:.1%}"
        if len(costs) >= 4:
            last = costs[-4:]
            rising = sum((last[j] > last[i]) - (last[j] < last[i]) for i in range(4) for j in range(i + 1, 4))
            # Of independent values two thirds of all orders have a score of at most 2, of 6 pairs.
            if abs(rising) <= 2:
                return f"the last 4 scatter by {_range(last):.0%} without a trend"
        return None


def _range(costs: Sequence[float]) -> float:
    """Largest less smallest over the smallest."""
    low = min(costs)
    return max(costs) / low - 1.0 if low > 0 else 0.0


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
    _next_look: int = 0

    def reason(self, costs: Sequence[float], seconds: float) -> StopReason | None:
        """Why to stop after these windows, or None to go on.

        Args:
            costs: seconds per I/O of each window.
            seconds: sum of the windows' durations.
        """
        if len(costs) >= max(self.least_windows, self._next_look):
            # Looking after every window would stop on a lucky streak, and a long series costs time to look at.
            self._next_look = len(costs) + max(1, len(costs) // 16)
            ci = relative_ci(costs)
            if ci is not None and ci <= self.precision:
                return "precision"
        if len(costs) >= self.most_windows:
            return "max_windows"
        if seconds >= self.max_time and len(costs) >= self.fewest:
            return "max_time"
        return None
