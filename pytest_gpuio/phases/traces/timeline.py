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
_DIGITS: Final = 9


class Stamps:
    """Reads stamps of one unit as whole nanoseconds after the first.

    Args:
        documented: unit by the format's documentation.
        asked: unit that the user insists on; None = the documented one.

    Attributes:
        unit: name of the unit in use. insisted: it was asked for.

    Raises:
        ConfigError: the unit asked for is unknown.
    """

    def __init__(self, documented: str, asked: str | None = None) -> None:
        if asked is not None and asked not in UNITS:
            raise ConfigError(f"time unit {asked!r} is none of {', '.join(UNITS)}.")
        self.unit = asked or documented
        self.insisted = asked is not None
        self._ns = UNITS[self.unit]
        self._first: int | None = None

    def of_text(self, text: bytes, what: str = "timestamp") -> int:
        """A decimal number such as ``1740553426.194021``.

        Raises:
            Malformed: it is not one, or too far from the first.
        """
        whole, _, fraction = text.partition(b".")
        if not ((whole + fraction).isdigit() and len(whole) <= 19 and len(fraction) <= 30):
            raise Malformed(f"{what} {shown(text)} is not a number")
        billionths = int(fraction[:_DIGITS].ljust(_DIGITS, b"0"))
        return self.of_ns(int(whole or b"0") * self._ns + billionths * self._ns // 10**_DIGITS)

    def of_number(self, value: object, what: str = "timestamp") -> int:
        """A number of JSON.

        Raises:
            Malformed: it is not one, not finite, negative, or too far from the first.
        """
        if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value < 1e19:
            raise Malformed(f"{what} {str(value)[:40]!r} is not a number of at least 0")
        return self.of_ns(value * self._ns if isinstance(value, int) else round(value * self._ns))

    def of_ns(self, value: int) -> int:
        """Nanoseconds since whenever.

        Raises:
            Malformed: over a century from the first.
        """
        if self._first is None:
            self._first = value
        value -= self._first
        if abs(value) > _MOST_NS:
            raise Malformed(f"the timestamp is over a century from the first one, in {self.unit}: --time-unit?")
        return value

    def check(self, source: Source, time_ns: NDArray[np.int64], rates: tuple[float, float], what: str) -> None:
        """Refuses a documented unit that gives a rate which cannot be.

        Args:
            source: the file.
            time_ns: all of its stamps.
            rates: the least and the most per second that such a trace can have.
            what: is counted, in the plural.

        Raises:
            TraceError: it does, and another unit would not; the text names that one.
        """
        span_s = float(time_ns.max() - time_ns.min()) / 1e9
        if self.insisted or len(time_ns) < _LEAST_STAMPS or span_s == 0:
            return
        fitting = [
            name
            for name, unit in UNITS.items()
            if rates[0] <= (len(time_ns) - 1) / (span_s * unit / self._ns) <= rates[1]
        ]
        if fitting and self.unit not in fitting:
            source.fail(
                f"{len(time_ns):,} {what} in {span_s:,.6g} s, if its times are in {self.unit} as this format's are: "
                f"that cannot be ({rates[0]:g} .. {rates[1]:g} a second can). Say what they are in: --time-unit "
                f"{' or '.join(fitting)}, or --time-unit {self.unit} to insist."
            )


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
