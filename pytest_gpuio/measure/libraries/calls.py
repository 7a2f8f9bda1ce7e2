"""What a library's data path has to offer: calls that are prepared outside a window, posted and finished inside it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol


@dataclass(frozen=True, slots=True)
class Call:
    """One call of the library.

    Attributes:
        write: from memory to the file.
        offsets: in the file, one for each of its requests of a block.
        places: where in the memory each request's bytes lie, in bytes.
    """

    write: bool
    offsets: Sequence[int]
    places: Sequence[int]


@dataclass(frozen=True, slots=True)
class Done:
    """What became of a call.

    Attributes:
        moved: bytes. error: positive errno, 0 = none.
        inside_ns: how long the library itself says it took; None = it does not say.
    """

    moved: int
    error: int = 0
    inside_ns: int | None = None


class Library(Protocol):
    """One library, open on one file and one piece of memory."""

    def prepare(self, call: Call) -> Any:
        """Everything that its users do ahead of the transfer; outside windows.

        Returns:
            What :meth:`post` takes.
        """

    def post(self, prepared: Any) -> Any:
        """Start it; what :meth:`finish` takes."""

    def finish(self, posted: Any) -> Done:
        """Wait for its end. Raises EngineError when the deadline of a window has passed."""

    def release(self, prepared: Any) -> None:
        """Give back what :meth:`prepare` took; outside windows."""

    def settings(self) -> Mapping[str, Any]:
        """Names, versions and sizes in effect, as JSON-able values."""

    def close(self) -> None:
        """Give everything back."""
