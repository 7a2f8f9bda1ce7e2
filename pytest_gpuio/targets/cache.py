"""The page cache of a file: how much of it is resident, dropping it, warming it; and the file's holes."""

from __future__ import annotations

import ctypes
import errno
import itertools
import mmap
import os
import stat
import time
from functools import cache
from pathlib import Path
from typing import Any, Final

from pytest_gpuio.core.errors import TargetError, errno_text

_CHUNK: Final = 1 << 30  # bytes mapped at a time: a vector of 256 KiB
_READ: Final = 1 << 20
_DROP_TRIES: Final = 5
_DROP_PAUSE_S: Final = 0.02
#: What one read-ahead may have in flight, and how long it may take on a device that is slow.
_FEW_BYTES: Final = 1 << 20
_FEW_PATIENCE_S: Final = 2.0
_MADV_DONTNEED: Final = 4
_MAP_FAILED: Final = ctypes.c_void_p(-1).value
#: Number of the system call, the same on all architectures but alpha.
_CACHESTAT: Final = 451
# Bit 0 of a mincore byte is the answer, the others are reserved.
_ODD: Final = bytes(value & 1 for value in range(256))


def resident_bytes(fd: int, offset: int, length: int) -> int:
    """Bytes of the range that lie in the page cache, in whole pages clipped to the file's end.

    Of all pages: cachestat(2) counts those that are there (Linux 6.5), in microseconds for an empty cache of any size.
    Without it mincore(2) looks at each page that could be, some 5 ms for 1 GiB. Since Linux 5.2 the kernel tells the
    truth only to the file's owner or to somebody who may write it; others are told that everything is resident. Our own
    targets are ours, so this is exact for them.

    Raises:
        TargetError: the file cannot be mapped.
    """
    end = min(offset + length, _size(fd))
    if end <= offset:
        return 0
    counted = _counted(fd, offset, end)
    return _mapped(fd, offset, end) if counted is None else counted


def _counted(fd: int, offset: int, end: int) -> int | None:
    """By cachestat; None where the kernel does not have it, does not tell, or the file system knows no page cache."""
    mode, page = os.fstat(fd).st_mode, mmap.PAGESIZE
    if not (stat.S_ISREG(mode) or stat.S_ISBLK(mode)):
        return None
    pages = _cached_pages(fd, offset, end - offset)
    if pages is None:
        return None
    total = pages * page
    first, last = offset % page, -end % page
    # The first and the last page may stick out of the range.
    if total and first and _cached_pages(fd, offset, 1):
        total -= first
    if total and last and _cached_pages(fd, end - 1, 1):
        total -= last
    return total


def _cached_pages(fd: int, offset: int, length: int) -> int | None:
    where = (ctypes.c_uint64 * 2)(offset, length)
    found = (ctypes.c_uint64 * 5)()  # nr_cache, nr_dirty, nr_writeback, nr_evicted, nr_recently_evicted
    if _libc().syscall(_CACHESTAT, fd, where, found, 0) != 0:
        return None
    return found[0]


def _mapped(fd: int, offset: int, end: int) -> int:
    """By mincore of a map of the range."""
    start = offset - offset % mmap.PAGESIZE
    total = 0
    while start < end:
        size = min(_CHUNK, end - start)
        total += _resident(fd, start, size, first=max(offset, start), last=min(end, start + size))
        start += size
    return total


def drop(fd: int, offset: int, length: int, *, flush: bool = True) -> int:
    """Writes dirty pages of the file out and drops the range from the page cache; returns the bytes that stayed.

    Tries a few times within about 0.1 s, and for 2 s where only a few pages are left: pages that are being read or
    written at the moment cannot be dropped (a slow device takes its time for the last read-ahead), nor those another
    process has mapped and touched; this process's own maps of the file let go of theirs. Memory file systems keep
    everything.

    Args:
        fd: the open file.
        offset: first byte of the range.
        length: of the range, in bytes.
        flush: write dirty pages out before; not so where they are somebody else's.

    Raises:
        TargetError: writing out failed.
    """
    remaining = 0
    patience = time.monotonic() + _FEW_PATIENCE_S
    for attempt in itertools.count():
        if attempt >= _DROP_TRIES and (remaining > _FEW_BYTES or time.monotonic() > patience):
            break
        if attempt == 1:
            _release_maps(fd)
        elif attempt:
            time.sleep(_DROP_PAUSE_S)
        try:
            if flush:
                os.fdatasync(fd)
            os.posix_fadvise(fd, offset, length, os.POSIX_FADV_DONTNEED)
        except OSError as error:
            raise TargetError(f"writing the target out failed: {errno_text(error.errno or 0)}.") from error
        remaining = resident_bytes(fd, offset, length)
        if remaining == 0:
            break
    return remaining


def warm(fd: int, offset: int, length: int) -> int:
    """Reads the range through the page cache, also when ``fd`` is open for direct I/O; returns the bytes read.

    Raises:
        TargetError: reading failed.
    """
    try:
        buffered = os.open(f"/proc/self/fd/{fd}", os.O_RDONLY | os.O_CLOEXEC)
    except OSError as error:
        raise TargetError(
            f"the target cannot be read through the page cache: {errno_text(error.errno or 0)}."
        ) from error
    done = 0
    buffer = bytearray(min(_READ, max(length, 1)))
    try:
        while done < length:
            view = memoryview(buffer)[: min(len(buffer), length - done)]
            count = os.preadv(buffered, [view], offset + done)
            if count == 0:
                break
            done += count
    except OSError as error:
        at = offset + done
        raise TargetError(f"warming the page cache failed at offset {at}: {errno_text(error.errno or 0)}.") from error
    finally:
        os.close(buffered)
    return done


def holes(fd: int, offset: int, length: int) -> list[tuple[int, int]]:
    """Parts ``(start, end)`` of the range without data: holes, and what lies past the end of the file.

    Space that is allocated but never written counts as a hole on most file systems. File systems without SEEK_HOLE
    show none.
    """
    end = offset + length
    size = os.fstat(fd).st_size
    found: list[tuple[int, int]] = []
    here = offset
    while here < min(end, size):
        try:
            hole = os.lseek(fd, here, os.SEEK_HOLE)
        except OSError as error:
            if error.errno in (errno.EINVAL, errno.ENXIO, errno.EOPNOTSUPP):
                break
            raise
        if hole >= min(end, size):
            break
        try:
            here = min(os.lseek(fd, hole, os.SEEK_DATA), end)
        except OSError as error:
            if error.errno != errno.ENXIO:  # ENXIO: no data up to the end of the file
                raise
            here = min(end, size)
        found.append((hole, here))
    if size < end:
        start = max(size, offset)
        if found and found[-1][1] == start:
            start = found.pop()[0]
        found.append((start, end))
    return found


def _release_maps(fd: int) -> None:
    """Takes the file's pages out of this process's page tables; the next touch of a map brings them back."""
    status = os.fstat(fd)
    wanted = f"{os.major(status.st_dev):02x}:{os.minor(status.st_dev):02x}", str(status.st_ino)
    table = Path("/proc/self/maps").read_text(encoding="utf-8", errors="replace")
    for line in table.splitlines():
        if wanted[1] not in line:
            continue
        words = line.split(maxsplit=5)
        if (words[3], words[4]) == wanted and words[1].endswith("s"):
            first, last = (int(word, 16) for word in words[0].split("-"))
            # On a shared map this drops page-table entries only, never data.
            _libc().madvise(first, last - first, _MADV_DONTNEED)


def _resident(fd: int, start: int, size: int, *, first: int, last: int) -> int:
    libc = _libc()
    address = libc.mmap(None, size, mmap.PROT_READ, mmap.MAP_SHARED, fd, start)
    if address == _MAP_FAILED:
        raise TargetError(f"the target cannot be mapped: {errno_text(ctypes.get_errno())}.")
    try:
        pages = -(-size // mmap.PAGESIZE)
        vector = ctypes.create_string_buffer(pages)
        if libc.mincore(address, size, vector) != 0:
            raise TargetError(f"mincore on the target failed: {errno_text(ctypes.get_errno())}.")
    finally:
        libc.munmap(address, size)
    flags = vector.raw[:pages].translate(_ODD)
    total = flags.count(1) * mmap.PAGESIZE
    # The first and the last page may stick out of the range.
    if flags[0]:
        total -= first - start
    if flags[-1]:
        total -= start + pages * mmap.PAGESIZE - last
    return total


def _size(fd: int) -> int:
    status = os.fstat(fd)
    # A device node's own size is 0.
    return os.lseek(fd, 0, os.SEEK_END) if stat.S_ISBLK(status.st_mode) else status.st_size


@cache
def _libc() -> Any:
    libc = ctypes.CDLL(None, use_errno=True)
    pointer, size = ctypes.c_void_p, ctypes.c_size_t
    libc.mmap.argtypes = [pointer, size, ctypes.c_int, ctypes.c_int, ctypes.c_int, ctypes.c_long]
    libc.mmap.restype = pointer
    libc.syscall.argtypes = [ctypes.c_long, ctypes.c_int, pointer, pointer, ctypes.c_uint]
    libc.syscall.restype = ctypes.c_long
    libc.munmap.argtypes = [pointer, size]
    libc.mincore.argtypes = [pointer, size, ctypes.c_char_p]
    libc.madvise.argtypes = [pointer, size, ctypes.c_int]
    return libc
