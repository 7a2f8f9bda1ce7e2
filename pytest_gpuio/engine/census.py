"""CPU clocks of all processes of the host, and of all threads of this process."""

from __future__ import annotations

from typing import Final

from pytest_gpuio.engine.native import check, native

#: Processes or threads there is room for at first.
_ROOM: Final = 1024


def process_clocks() -> dict[int, int]:
    """CPU nanoseconds of every process that ``/proc`` shows by id, ended threads included, kernel threads among them.

    Raises:
        EngineError: ``/proc`` cannot be read.
    """
    return _census(threads=False)


def thread_clocks() -> dict[int, int]:
    """CPU nanoseconds of every living thread of this process by id, kernel helpers included.

    Each thread's own CPU clock is exact, while ``schedstat`` of a running thread is as old as its last tick.

    Raises:
        EngineError: ``/proc`` cannot be read.
    """
    return _census(threads=True)


def _census(*, threads: bool) -> dict[int, int]:
    ffi, lib, room = native().ffi, native().lib, _ROOM
    while True:
        ids, clocks = ffi.new("int32_t[]", room), ffi.new("uint64_t[]", room)
        found = int(lib.gpuio_census(int(threads), ids, clocks, room))
        check(found, None, "reading CPU clocks from /proc")
        if found <= room:
            return dict(zip(ffi.unpack(ids, found), ffi.unpack(clocks, found), strict=True))
        room = 2 * found  # more may come meanwhile
