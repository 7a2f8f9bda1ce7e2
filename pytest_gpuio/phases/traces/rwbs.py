"""The kernel's letters for a block request: R, W, D and their modifiers."""

from __future__ import annotations

from pytest_gpuio.phases.records import READ, WRITE
from pytest_gpuio.phases.traces.block_trace import DISCARD, SYNC
from pytest_gpuio.phases.traces.source import Malformed, shown

_OPS = {ord("R"): READ, ord("W"): WRITE, ord("D"): DISCARD, ord("E"): DISCARD}
_LETTERS = frozenset(b"RWDEFNASMBV")


def operation(letters: bytes) -> int | None:
    """The operation; None = neither data nor a flush (``N``).

    A leading ``F`` is a flush before the data; alone or with ``N`` it is nothing but a flush.

    Raises:
        Malformed: these are no such letters.
    """
    if not letters or not _LETTERS.issuperset(letters):
        raise Malformed(f"operation {shown(letters)} is not made of R, W, D, E, F, N, A, S, M, B")
    for letter in letters:
        if letter in _OPS:
            return _OPS[letter]
    return SYNC if b"F" in letters else None
