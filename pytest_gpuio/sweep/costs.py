"""What a measurement will take on the wall clock, learned from those that were made."""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable, Sequence
from typing import Final

#: Weight of the newest measurement in what is learned.
_NEWEST: Final = 0.25
#: Relative error of a forecast that is assumed before any was checked, and how many times it is allowed for.
_ERROR: Final = 0.1
#: What one stall adds to it at most (logarithm): it says little about the next measurement.
_WORST: Final = math.log(2.0)
_ALLOWED: Final = 2.0


class Costs:
    """Seconds of measurements: a forecast, times what it was wrong by for the cells most like this one.

    Args:
        forecast: seconds of so many windows of a cell, by its number.
        kinds: what cells it is like, the nearest first; the last is like all.
    """

    def __init__(self, forecast: Callable[[int, int], float], kinds: Callable[[int], Sequence[Hashable]]) -> None:
        self._forecast, self._kinds_of = forecast, kinds
        self._wrong: dict[Hashable, float] = {}
        #: Squared error of what was foretold, by how near the cells were that told it.
        self._error2: dict[int, float] = {}

    def expected(self, cell: int, windows: int) -> float:
        """Seconds it should take."""
        return self._forecast(cell, windows) * math.exp(self._known(cell)[1])

    def most(self, cell: int, windows: int) -> float:
        """Seconds it hardly ever takes more than."""
        level, wrong = self._known(cell)
        return self._forecast(cell, windows) * math.exp(wrong + _ALLOWED * math.sqrt(self._squared(level)))

    def learn(self, cell: int, windows: int, seconds: float) -> None:
        """A measurement was made and took so long."""
        found = math.log(max(seconds, 1e-6) / self._forecast(cell, windows))
        level, known = self._known(cell)
        if level >= 0:
            self._error2[level] = _nearer(self._squared(level), min(abs(found - known), _WORST) ** 2)
        for kind in self._kinds(cell):
            self._wrong[kind] = _nearer(self._wrong.get(kind, found), found)

    def _kinds(self, cell: int) -> list[Hashable]:
        return [("cell", cell), *self._kinds_of(cell)]

    def _squared(self, level: int) -> float:
        return self._error2.get(level, _ERROR**2)

    def _known(self, cell: int) -> tuple[int, float]:
        for level, kind in enumerate(self._kinds(cell)):
            if kind in self._wrong:
                return level, self._wrong[kind]
        return -1, 0.0


def _nearer(old: float, found: float) -> float:
    return old + _NEWEST * (found - old)
