"""Stopping a sweep in order: one signal finishes the cell, a second one ends it at once."""

from __future__ import annotations

import contextlib
import signal
from collections.abc import Callable
from types import FrameType
from typing import Any, Final, Self

#: Ctrl-C; the signal for people and schedulers; what Slurm, Kubernetes and systemd send before they kill.
SIGNALS: Final = (signal.SIGINT, signal.SIGUSR1, signal.SIGTERM)


class Stop:
    """Catches :data:`SIGNALS` while it is open.

    Args:
        tell: is given a sentence when the first one comes.
    """

    def __init__(self, tell: Callable[[str], None]) -> None:
        self._tell = tell
        self._before: dict[signal.Signals, Any] = {}
        #: Somebody asked to stop after the running cell.
        self.asked = False

    def __enter__(self) -> Self:
        for number in SIGNALS:
            self._before[number] = signal.signal(number, self._caught)
        return self

    def __exit__(self, *_: object) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)

    def _caught(self, number: int, frame: FrameType | None) -> None:  # noqa: ARG002 - the handler's signature
        """The first one asks, every further one breaks off.

        Raises:
            KeyboardInterrupt: it is not the first.
        """
        if self.asked:
            raise KeyboardInterrupt
        self.asked = True
        name = signal.Signals(number).name
        # It may have come in the middle of a line that is being told; then there is no telling another.
        with contextlib.suppress(RuntimeError):
            self._tell(f"{name}: stopping when the running cell is done; once more stops now and loses that cell")
