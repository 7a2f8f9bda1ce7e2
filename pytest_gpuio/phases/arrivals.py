"""When requests arrive in an open loop: fixed rate, Poisson, Gamma, or given timestamps, on an absolute schedule."""

from __future__ import annotations

import random
import re
from array import array
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Literal, Self

from pytest_gpuio.core.errors import ConfigError

Kind = Literal["closed", "fixed", "poisson", "gamma", "file"]

_GRAMMAR: Final = (
    "closed, fixed:RATE, poisson:RATE, gamma:RATE:CV (coefficient of variation of the gaps) or file:PATH (one second "
    "since the start per line); RATE in arrivals per second"
)
_NUMBER: Final = r"\d{1,9}(?:\.\d{1,9})?"
_SPELLING: Final = re.compile(rf"(?P<kind>fixed|poisson|gamma):(?P<rate>{_NUMBER})(?::(?P<cv>{_NUMBER}))?", re.ASCII)
_MOST_RATE: Final = 1e8
_MOST_ARRIVALS: Final = 50_000_000


@dataclass(frozen=True, slots=True)
class Arrivals:
    """An arrival process.

    Attributes:
        kind: ``closed`` = a request starts when one ends.
        rate: mean arrivals per second; 0 for ``closed`` and ``file``.
        cv: coefficient of variation of the gaps; 1 is Poisson. path: file of timestamps.

    Raises:
        ConfigError: a rate or CV out of range.
    """

    kind: Kind = "closed"
    rate: float = 0.0
    cv: float = 1.0
    path: str = ""

    def __post_init__(self) -> None:
        if self.kind in ("fixed", "poisson", "gamma") and not 0.0 < self.rate <= _MOST_RATE:
            raise ConfigError(f"arrival rate {self.rate:g}/s is outside 0 .. {_MOST_RATE:g}.")
        if self.kind == "gamma" and not 0.01 <= self.cv <= 100.0:
            raise ConfigError(f"coefficient of variation {self.cv:g} is outside 0.01 .. 100.")
        if self.kind == "file" and not self.path:
            raise ConfigError("arrivals from a file need its path: file:PATH.")

    @classmethod
    def parse(cls, text: str) -> Self:
        """Arrivals of their spelling in options: ``poisson:10000``.

        Raises:
            ConfigError: not such a spelling.
        """
        if text == "closed":
            return cls()
        if text.startswith("file:"):
            return cls("file", path=text.removeprefix("file:"))
        match = _SPELLING.fullmatch(text)
        if match is None or (match["cv"] is not None) != (match["kind"] == "gamma"):
            raise ConfigError(f"arrivals {text!r} are unknown. Write them as: {_GRAMMAR}.")
        kind: Kind = match["kind"]  # type: ignore[assignment]
        return cls(kind, float(match["rate"]), float(match["cv"] or 1.0))

    @property
    def label(self) -> str:
        """As part of ids and case keys: ``closed``, ``poisson10000``, ``gamma500cv2``, ``file_trace``; no ``-``."""
        match self.kind:
            case "closed":
                return "closed"
            case "file":
                return "file_" + re.sub(r"[^a-z0-9]+", "_", Path(self.path).stem.lower()).strip("_")
            case "gamma":
                return f"gamma{self.rate:g}cv{self.cv:g}".replace("+", "")
            case _:
                return f"{self.kind}{self.rate:g}".replace("+", "")

    def __str__(self) -> str:
        match self.kind:
            case "closed":
                return "closed"
            case "file":
                return f"file:{self.path}"
            case "gamma":
                return f"gamma:{self.rate:g}:{self.cv:g}"
            case _:
                return f"{self.kind}:{self.rate:g}"

    def schedule(self, count: int, seed: int) -> array[int]:
        """Intended starts in nanoseconds after the first moment, ascending; the same for the same seed.

        Args:
            count: arrivals to draw; ignored for ``file``, whose lines are all taken.
            seed: of the draw.

        Raises:
            ConfigError: a closed loop has no schedule; the file cannot be read or is not one; too many arrivals.
        """
        if self.kind == "closed":
            raise ConfigError("a closed loop has no schedule: requests start when others end.")
        if self.kind == "file":
            return read_timestamps(self.path)
        if not 0 < count <= _MOST_ARRIVALS:
            raise ConfigError(f"{count:,} arrivals are outside 1 .. {_MOST_ARRIVALS:,}: lower the rate or the time.")
        if self.kind == "fixed":
            # From the index, not by adding gaps: rounding must not accumulate into drift.
            return array("Q", (round(index * 1e9 / self.rate) for index in range(count)))
        source = random.Random(seed)
        shape = 1.0 / self.cv**2 if self.kind == "gamma" else 1.0
        scale = 1e9 / self.rate / shape
        times, now = array("Q"), 0.0
        for _ in range(count):
            times.append(round(now))
            now += source.gammavariate(shape, scale) if self.kind == "gamma" else source.expovariate(self.rate / 1e9)
        return times


#: A request starts when another ends.
CLOSED: Final = Arrivals()


def read_timestamps(path: str) -> array[int]:
    """Nanoseconds after the first line of a file with one time in seconds per line.

    Raises:
        ConfigError: it cannot be read, has no or too many lines, or a line is no number or goes back in time.
    """
    try:
        lines = Path(path).read_text(encoding="ascii").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"arrivals file {path} cannot be read: {error}.") from None
    if not 0 < len(lines) <= _MOST_ARRIVALS:
        raise ConfigError(f"arrivals file {path} has {len(lines):,} lines, outside 1 .. {_MOST_ARRIVALS:,}.")
    return array("Q", _ascending(lines, path))


def _ascending(lines: Sequence[str], path: str) -> list[int]:
    times: list[int] = []
    first = 0
    for number, line in enumerate(lines, start=1):
        if not re.fullmatch(r"\s*\d{1,10}(\.\d{1,12})?\s*", line, re.ASCII):
            raise ConfigError(f"{path}:{number}: {line[:40]!r} is not a time in seconds.")
        whole, _, fraction = line.strip().partition(".")
        # Without floats: nanoseconds of an epoch time need more than 53 bits.
        time = int(whole) * 10**9 + int((fraction + "0" * 9)[:9])
        first = time if number == 1 else first
        if times and time - first < times[-1]:
            raise ConfigError(f"{path}:{number}: {line.strip()} is earlier than the line before.")
        times.append(time - first)
    return times
