"""When writes become durable inside the measured time, and how that is spelled in ids."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final, Literal, Self

from pytest_gpuio.core.errors import ConfigError

Mode = Literal["none", "fsync", "fdatasync", "dsync"]

_MODES: Final[tuple[Mode, ...]] = ("none", "fsync", "fdatasync", "dsync")
_FDATASYNC: Final = re.compile(r"fdatasync([1-9]\d*)", re.ASCII)
_GRAMMAR: Final = "none, fsync (once, at the end of a window), fdatasync<N> (after every N writes) or dsync (O_DSYNC)"
#: The engine counts the writes between two calls in 32 bits.
_MOST: Final = 2**32 - 1


@dataclass(frozen=True, slots=True)
class Durability:
    """Durability mode of writes.

    Attributes:
        mode: ``none``, ``fsync`` (each job syncs at the end of its share, inside the window), ``fdatasync`` (the queue
            is drained and synced every so many writes) or ``dsync`` (the file is open with O_DSYNC).
        every: writes between two fdatasync calls; 0 in the other modes.

    Raises:
        ConfigError: ``every`` does not fit the mode.
    """

    mode: Mode = "none"
    every: int = 0

    def __post_init__(self) -> None:
        if self.mode not in _MODES:
            raise ConfigError(f"durability mode {self.mode!r} is unknown. Use one of: {_GRAMMAR}.")
        if self.mode == "fdatasync" and not 1 <= self.every <= _MOST:
            raise ConfigError(
                f"durability fdatasync needs 1 to {_MOST:,} writes between two calls, not {self.every:,}."
            )
        if self.mode != "fdatasync" and self.every:
            raise ConfigError(f"durability {self.mode} takes no number of writes, but {self.every:,} was given.")

    @classmethod
    def parse(cls, text: str) -> Self:
        """Durability of its spelling in ids and options: ``none``, ``fsync``, ``fdatasync32``, ``dsync``.

        Raises:
            ConfigError: not such a spelling.
        """
        every = _FDATASYNC.fullmatch(text)
        if every is not None:
            # Longer digit strings cannot fit and would cost time to convert.
            return cls("fdatasync", int(every[1]) if len(every[1]) <= 10 else _MOST + 1)
        for mode in ("none", "fsync", "dsync"):
            if text == mode:
                return cls(mode)
        raise ConfigError(f"durability {text!r} is unknown. Write it as: {_GRAMMAR}.")

    def __str__(self) -> str:
        return f"fdatasync{self.every}" if self.mode == "fdatasync" else self.mode
