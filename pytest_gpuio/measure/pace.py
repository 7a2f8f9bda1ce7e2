"""Windows in step with other ranks: the child says that it is ready, and is told when to begin, or to end."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, Protocol

from pytest_gpuio.core.errors import EngineError
from pytest_gpuio.measure.stopping import StopReason

if TYPE_CHECKING:
    from pytest_gpuio.isolation.serve import Emit

#: Verdicts by number, as the shared words carry them; an end carries its reason.
_ENDS: Final[tuple[StopReason, ...]] = ("precision", "max_time", "max_windows", "interrupted")
_GO, _AGAIN, _END = 0, 1, 2
_KINDS: Final = 16
_LOOK_S: Final = 0.0005


@dataclass(frozen=True, slots=True)
class Verdict:
    """What happens next on every rank.

    Attributes:
        at_ns: a window begins then (CLOCK_MONOTONIC of this host); 0 = at once.
        again: what was measured so far was warm-up: windows get more I/O.
        end: measuring is over, for that reason.
    """

    at_ns: int = 0
    again: bool = False
    end: StopReason | None = None

    def encode(self, number: int) -> tuple[int, int]:
        """The two words for question ``number``, counted from 1."""
        kind = _AGAIN if self.again else _GO if self.end is None else _END + _ENDS.index(self.end)
        return number * _KINDS + kind, self.at_ns

    @classmethod
    def decode(cls, first: int, second: int) -> Verdict:
        """Inverse of :meth:`encode`."""
        kind = first % _KINDS
        return cls(second, kind == _AGAIN, _ENDS[kind - _END] if kind >= _END else None)


class Pacer(Protocol):
    """Parent side: takes what a child says when it is ready for the next window, and answers for all ranks."""

    def __call__(self, values: Mapping[str, Any], /) -> Verdict:
        """Blocks until every rank is ready.

        Raises:
            GpuioError: another rank failed, or is lost.
        """


class Pace:
    """Child side of the protocol.

    Args:
        words: :func:`pytest_gpuio.isolation.serve.answer_words`. stop: the stop word. emit: sends events.
        deadline_s: longest wait for the other ranks.
    """

    def __init__(self, words: memoryview, stop: memoryview, emit: Emit, deadline_s: float) -> None:
        self._words, self._stop, self._emit, self._deadline_s = words, stop, emit, deadline_s
        self._number = 0
        #: The last verdict was that everything so far was warm-up.
        self.again = False

    def ask(self, **values: Any) -> Verdict:
        """Ready for the next window; what the last one was goes along.

        Raises:
            EngineError: no verdict came in time.
        """
        self._number += 1
        self._emit("pace", number=self._number, values=values)
        until = time.monotonic() + self._deadline_s
        while self._words[0] // _KINDS != self._number:
            if self._stop[0]:
                return Verdict(end="interrupted")
            if time.monotonic() > until:
                raise EngineError(f"the other ranks were not ready within {self._deadline_s:.0f} s")
            time.sleep(_LOOK_S)
        verdict = Verdict.decode(self._words[0], self._words[1])
        self.again = verdict.again
        return verdict


def sleep_until(at_ns: int) -> None:
    """Returns at that time of CLOCK_MONOTONIC, or at once when it is over."""
    time.sleep(max(at_ns - time.monotonic_ns(), 0) / 1e9)
