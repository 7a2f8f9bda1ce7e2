"""Records in the engine's own layout: what a run replays, and when its groups began and ended."""

from __future__ import annotations

import errno
import struct
from array import array
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from pytest_gpuio.core.errors import EngineError
from pytest_gpuio.engine.native import native

if TYPE_CHECKING:
    from _typeshed import ReadableBuffer

#: One ``struct gpuio_record``: offset, length, file, op, flags. Of flags, bit 0 is a barrier.
RECORD: Final = struct.Struct("=QIHBB")
#: One ``struct gpuio_group``: first record, time or -1, compute, chain, prefetch; times in nanoseconds.
GROUP: Final = struct.Struct("=QqQII")
#: Numbers per group in the results: due, start, end and consumption, nanoseconds after the window's start; and how many
#: nanoseconds its compute lasted.
RESULTS: Final = 5
#: It did not come to that: the window ended early.
NEVER: Final = 2**64 - 1


@dataclass(frozen=True, slots=True)
class Replay:
    """What a run issues instead of offsets that the engine draws.

    Attributes:
        records: bytes of :data:`RECORD`; kept, not copied, as long as the run is open.
        groups: bytes of :data:`GROUP`; kept likewise.
        chains: number of chains.
        fds: open file of each file number; -1 each for ``null``.
        seeds: pattern seed of each file.
        concurrency: chains at work at the same time; 0 = all.
    """

    records: ReadableBuffer
    groups: ReadableBuffer
    chains: int
    fds: tuple[int, ...]
    seeds: tuple[int, ...]
    concurrency: int = 0


def fill(replay: Replay, out: Any, keep: list[Any]) -> None:
    """Fill a ``struct gpuio_replay_spec``; what it points to is appended to ``keep``.

    Raises:
        EngineError: the bytes are no whole records or groups, or a number does not fit.
    """
    ffi = native().ffi
    for name, layout, count in (("records", RECORD, "n_records"), ("groups", GROUP, "n_groups")):
        data = getattr(replay, name)
        pointer = ffi.from_buffer(f"struct gpuio_{name[:-1]}[]", data, require_writable=False)
        size = memoryview(data).nbytes
        if size == 0 or size % layout.size:
            raise EngineError(f"{size} bytes of {name} are no whole ones of {layout.size} bytes", errno.EINVAL)
        keep.append(pointer)
        setattr(out, name, pointer)
        setattr(out, count, size // layout.size)
    if len(replay.fds) != len(replay.seeds):
        raise EngineError(f"{len(replay.fds)} files have {len(replay.seeds)} pattern seeds: give one each")
    try:
        keep += [ffi.new("int32_t[]", list(replay.fds)), ffi.new("uint64_t[]", list(replay.seeds))]
        out.n_chains, out.concurrency, out.n_files = replay.chains, replay.concurrency, len(replay.fds)
    except (OverflowError, TypeError) as error:
        raise EngineError(f"a replay of {replay.chains!r} chains does not fit the engine: {error}") from error
    out.fds, out.seeds = keep[-2:]


def results_for(groups: int) -> array[int]:
    """Room for the results of so many groups, :data:`RESULTS` numbers each."""
    return array("Q", bytes(8 * RESULTS * groups))
