"""Times of a trace: the unit they are told in, parts of them, and faster or slower replay."""

from __future__ import annotations

from typing import Final

import numpy as np
from numpy.typing import NDArray

from pytest_gpuio.core.errors import ConfigError
from pytest_gpuio.phases.traces.source import Malformed, Source, shown

#: Nanoseconds of each unit of time that a trace may be told in.
UNITS: Final = {"s": 1_000_000_000, "ms": 1_000_000, "us": 1_000, "ns": 1}
#: Fewer stamps say nothing about a rate.
_LEAST_STAMPS: Final = 20
_MOST_NS: Final = 100 * 366 * 86_400 * 1_000_000_000
_NANO_DIGITS: Final = 9
#: Steps of :class:`Stamps` in one unit.
BILLIONTHS: Final = 10**_NANO_DIGITS


class Stamps:
    """Reads stamps of any unit as exact whole numbers, relative to the first: billionths of that unit."""

    def __init__(self) -> None:
        self._first: int | None = None

    def of_text(self, text: bytes, what: str = "timestamp") -> int:
        """A decimal number such as ``1740553426.194021``.

        Raises:
            Malformed: it is not one, or too far from the first.
        """
        whole, _, fraction = text.partition(b".")
        if not ((whole + fraction).isdigit() and len(whole) <= 19 and len(fraction) <= 30):
            raise Malformed(f"{what} {shown(text)} is not a number")
        return self.of_billionths(int(whole or b"0") * BILLIONTHS + int(fraction[:9].ljust(_NANO_DIGITS, b"0")))

    def of_number(self, value: object, what: str = "timestamp") -> int:
        """A number of JSON.

        Raises:
            Malformed: it is not one, not finite, negative, or too far from the first.
        """
        if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value < 1e19:
            raise Malformed(f"{what} {str(value)[:40]!r} is not a number of at least 0")
        return self.of_billionths(value * BILLIONTHS if isinstance(value, int) else round(value * 1e9))

    def of_billionths(self, value: int) -> int:
        """A number of billionths.

        Raises:
            Malformed: too far from the first.
        """
        if self._first is None:
            self._first = value
        value -= self._first
        if not -(1 << 62) < value < 1 << 62:
            raise Malformed("the timestamp is too far from the first one")
        return value


def settle_unit(
    source: Source,
    stamps: NDArray[np.int64],
    steps: int,
    documented: str,
    asked: str | None,
    rates: tuple[float, float],
    what: str,
) -> NDArray[np.int64]:
    """Nanoseconds of stamps whose unit is asked for, or checked: it must give a rate that can be.

    Args:
        source: the file.
        stamps: whole numbers.
        steps: of a stamp that make one unit: 1, or :data:`BILLIONTHS`.
        documented: unit by the format's documentation.
        asked: unit that the user insists on.
        rates: the least and the most per second that a trace of this format can have.
        what: is counted, in the plural.

    Raises:
        TraceError: the documented unit gives an impossible rate, or a span of over a century.
        ConfigError: the unit asked for is unknown.
    """
    if asked is not None and asked not in UNITS:
        raise ConfigError(f"time unit {asked!r} is none of {', '.join(UNITS)}.")
    unit = asked or documented
    told = float(stamps.max() - stamps.min()) / steps
    if asked is None and len(stamps) >= _LEAST_STAMPS and not _possible(len(stamps), told, unit, rates):
        fitting = [name for name in UNITS if _possible(len(stamps), told, name, rates)]
        if fitting:
            source.fail(
                f"{len(stamps):,} {what} in {_seconds(told, unit):,.6g} s, if its times are in {unit} as this format's "
                f"are: that cannot be ({rates[0]:g} .. {rates[1]:g} a second can). Say what they are in: --time-unit "
                f"{' or '.join(fitting)}, or --time-unit {unit} to insist."
            )
    if _seconds(told, unit) * 1e9 > _MOST_NS:
        source.fail(f"spans {_seconds(told, unit) / 86_400:,.0f} days, if its times are in {unit}: name --time-unit.")
    since: NDArray[np.int64] = stamps - stamps.min()
    return since * (UNITS[unit] // steps) if UNITS[unit] >= steps else since // (steps // UNITS[unit])


def by_number(length: int, first: int, count: int | None, what: str) -> slice:
    """A part of a trace by index.

    Raises:
        ConfigError: it is empty.
    """
    if not 0 <= first < length or (count is not None and count < 1):
        asked = "all" if count is None else f"{count:,}"
        raise ConfigError(f"{asked} from number {first:,} on is nothing of {what}, which are {length:,}.")
    return slice(first, length if count is None else min(length, first + count))


def by_time(time_ns: NDArray[np.int64], start_s: float, duration_s: float | None, what: str) -> slice:
    """A part of a trace by time; times ascend from 0.

    Raises:
        ConfigError: it is empty.
    """
    span = int(time_ns[-1])
    start = round(min(max(start_s, 0.0), 1e10) * 1e9)
    end = span + 1 if duration_s is None else start + round(min(duration_s, 1e9) * 1e9)
    first, last = (int(place) for place in np.searchsorted(time_ns, (start, end), "left"))
    if first >= last:
        asked = "on" if duration_s is None else f"for {duration_s:g} s"
        raise ConfigError(f"from {start_s:g} s {asked} there is nothing of {what}, which span {span / 1e9:,.3f} s.")
    return slice(first, last)


def faster(time_ns: NDArray[np.int64], speed: float) -> NDArray[np.int64]:
    """Times of the same trace, ``speed`` times as fast.

    Raises:
        ConfigError: the speed is out of range.
    """
    if not 1e-6 <= speed <= 1e9:
        raise ConfigError(f"speed {speed:g} is outside 1e-6 .. 1e9: 10 = ten times as fast as recorded.")
    return time_ns if speed == 1.0 else np.rint(time_ns / speed).astype(np.int64)


def _possible(count: int, told: float, unit: str, rates: tuple[float, float]) -> bool:
    span = _seconds(told, unit)
    return span > 0 and rates[0] <= (count - 1) / span <= rates[1]


def _seconds(told: float, unit: str) -> float:
    return told * UNITS[unit] / 1e9
