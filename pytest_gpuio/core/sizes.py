"""One documented grammar for sizes and durations, and how they are shown to people."""

from __future__ import annotations

import re
from typing import Final

from pytest_gpuio.core.errors import ConfigError

#: ``k`` and ``KiB`` are binary, ``KB`` is decimal; the parsed number is always printed, so nobody has to guess.
GRAMMAR: Final = (
    "4k = 4K = 4Ki = 4KiB = 4096 bytes; 4KB = 4kB = 4000 bytes; k, M, G, T likewise; a bare number is bytes"
)

_POWERS: Final = {"": 0, "k": 1, "m": 2, "g": 3, "t": 4}
# Numbers are bounded, so that no text makes an infinite float or an integer that Python refuses to read.
_NUMBER: Final = r"(?P<number>\d{1,30}(?:\.\d{1,30})?)"
_SIZE: Final = re.compile(_NUMBER + r"\s*(?P<prefix>[kmgt]?)(?P<unit>ib|i|b|)", re.IGNORECASE | re.ASCII)
_DURATION: Final = re.compile(_NUMBER + r"\s*(?P<unit>us|ms|s|m|h|)", re.IGNORECASE | re.ASCII)
_SECONDS: Final = {"us": 1e-6, "ms": 0.001, "": 1.0, "s": 1.0, "m": 60.0, "h": 3600.0}


def parse_size(text: str, *, what: str = "size") -> int:
    """Bytes of a size such as ``64k`` or ``1.5GiB`` (see :data:`GRAMMAR`).

    Raises:
        ConfigError: not a size, not a whole number of bytes, or not above zero.
    """
    match = _SIZE.fullmatch(text.strip())
    if match is None:
        raise ConfigError(f"{what} {text!r} is not a size. Write it as: {GRAMMAR}.")
    whole, _, fraction = match["number"].partition(".")
    prefix, unit = match["prefix"].lower(), match["unit"].lower()
    if unit in ("ib", "i") and not prefix:
        raise ConfigError(f"{what} {text!r} has no prefix before 'i'. Write it as: {GRAMMAR}.")
    base = 1000 if prefix and unit == "b" else 1024
    scaled = int(whole + fraction) * int(base ** _POWERS[prefix])
    value, rest = divmod(scaled, int(10 ** len(fraction)))
    if rest:
        raise ConfigError(f"{what} {text!r} is not a whole number of bytes.")
    if value <= 0:
        raise ConfigError(f"{what} {text!r} must be above zero.")
    return value


def format_size(value: int) -> str:
    """The shortest exact spelling that :func:`parse_size` reads back: ``4k``, ``1536k``, ``1000``."""
    for prefix in ("t", "g", "m", "k"):
        unit = 1024 ** _POWERS[prefix]
        if value and value % unit == 0:
            return f"{value // unit}{prefix}"
    return str(value)


def describe_size(value: int) -> str:
    """A size for messages: short spelling and the number of bytes, ``64k (65,536 bytes)``."""
    short = format_size(value)
    return f"{value:,} bytes" if short == str(value) else f"{short} ({value:,} bytes)"


def parse_duration(text: str, *, what: str = "duration") -> float:
    """Seconds of ``90``, ``90s``, ``1.5m``, ``250ms``, ``500us`` or ``1h``.

    Raises:
        ConfigError: not a duration, or not above zero.
    """
    match = _DURATION.fullmatch(text.strip())
    if match is None:
        raise ConfigError(f"{what} {text!r} is not a duration. Write it as 90, 90s, 1.5m, 250ms, 500us or 1h.")
    seconds = float(match["number"]) * _SECONDS[match["unit"].lower()]
    if seconds <= 0:
        raise ConfigError(f"{what} {text!r} must be above zero.")
    return seconds


def parse_percent(text: str, *, what: str = "percentage") -> float:
    """A fraction between 0 and 1 (both excluded) of ``2%``, ``2.5 %`` or ``0.02``.

    Raises:
        ConfigError: not a number, or outside 0 % .. 100 %.
    """
    match = re.fullmatch(_NUMBER + r"\s*(%?)", text.strip(), re.ASCII)
    if match is None:
        raise ConfigError(f"{what} {text!r} is not a percentage. Write it as 2% or 0.02.")
    value = float(match[1]) / (100.0 if match[2] else 1.0)
    if not 0.0 < value < 1.0:
        raise ConfigError(f"{what} {text!r} must be above 0% and below 100%.")
    return value
