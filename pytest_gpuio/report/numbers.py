"""Numbers for people: three significant digits, a unit, and ``-`` for what is unknown."""

from __future__ import annotations

import math
from typing import Final

UNKNOWN: Final = "-"

_SI: Final = ((1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "k"))
_TIME: Final = ((1e9, "s"), (1e6, "ms"), (1e3, "us"))
_BINARY: Final = ((50, "PiB"), (40, "TiB"), (30, "GiB"), (20, "MiB"), (10, "KiB"))


def si(value: float | None) -> str:
    """A count or rate with an SI prefix: ``455k``, ``1.2M``, ``950``."""
    if value is None:
        return UNKNOWN
    exact = _rounded(value)
    for factor, prefix in _SI:
        if exact >= factor:
            return f"{_trimmed(exact / factor)}{prefix}"
    return _trimmed(exact)


def duration(ns: float | None) -> str:
    """A time given in nanoseconds: ``875ns``, ``3.21us``, ``1.2ms``, ``4s``."""
    if ns is None:
        return UNKNOWN
    exact = _rounded(ns)
    for factor, unit in _TIME:
        if exact >= factor:
            return f"{_trimmed(exact / factor)}{unit}"
    return f"{_trimmed(exact)}ns"


def rate(value: float | None) -> str:
    """A figure whose unit stands in the column's head, such as GB/s: ``1.86``, ``0.0041``, ``12.3``, ``2.00``."""
    return UNKNOWN if value is None else _fixed(_rounded(value))


def cores(value: float | None) -> str:
    """CPU cores in use: ``0.71``."""
    return UNKNOWN if value is None else f"{value:.2f}"


def exact_bytes(value: int) -> str:
    """Exact bytes, and rounded in the binary unit that is easiest to read: ``131,072 bytes (128 KiB)``."""
    for shift, name in _BINARY:
        if value >= 1 << shift:
            return f"{value:,} bytes ({value / (1 << shift):.4g} {name})"
    return f"{value:,} bytes"


def percent(share: float) -> str:
    """A share as per cent with one decimal: ``36.6 %``."""
    return f"{100 * share:.1f} %"


def _rounded(value: float) -> float:
    """Three significant digits; done first, so that 999.6 becomes 1k and not 1000."""
    return float(f"{value:.2e}")


def _fixed(exact: float) -> str:
    decimals = 2 - math.floor(math.log10(abs(exact))) if exact else 2
    return f"{exact:.{max(0, decimals)}f}"


def _trimmed(exact: float) -> str:
    text = _fixed(exact)
    return text.rstrip("0").rstrip(".") if "." in text else text
