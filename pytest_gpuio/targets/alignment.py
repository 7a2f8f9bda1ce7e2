"""What direct I/O on a file has to be aligned to."""

from __future__ import annotations

import ctypes
import os
import stat
import struct
from dataclasses import dataclass
from functools import cache
from typing import Any, Final

from pytest_gpuio.core.errors import TargetError, errno_text
from pytest_gpuio.media import generic_block_device, logical_block_size

# From <linux/stat.h> and <linux/fcntl.h>.
_STATX_DIOALIGN: Final = 0x2000
_AT_EMPTY_PATH: Final = 0x1000
_STATX_BYTES: Final = 256
_MASK_AT: Final = 0
_ATTRIBUTES_AT: Final = 8
_DIO_AT: Final = 152  # stx_dio_mem_align, stx_dio_offset_align


@dataclass(frozen=True, slots=True)
class Alignment:
    """Multiples that direct I/O on one file demands.

    Attributes:
        memory: bytes that a buffer's address must be a multiple of.
        offset: bytes that offsets and lengths must be a multiple of; 0 = the file refuses direct I/O.
        source: who said so, ``statx`` or ``logical block size of 8:1``.
    """

    memory: int
    offset: int
    source: str


def direct_alignment(target: int | str | os.PathLike[str]) -> Alignment | None:
    """Alignment for direct I/O on an existing file or directory; None when neither kernel nor block device says.

    Asks ``statx(STATX_DIOALIGN)`` (Linux 6.1, and only some file systems), else the logical block size of the device
    that the file system is mounted from, or of the device itself. Never a guess: 4096 is wrong on some machines.

    Args:
        target: open file descriptor, or path. A directory gives its device's word, for files still to be made in it.

    Raises:
        TargetError: the file is not there or cannot be looked at.
    """
    opened = None if isinstance(target, int) else _open_path(target)
    try:
        fd = opened if opened is not None else int(target)  # type: ignore[arg-type]
        told = _statx_alignment(fd)
        return told if told is not None else _device_alignment(fd)
    finally:
        if opened is not None:
            os.close(opened)


def _open_path(path: str | os.PathLike[str]) -> int:
    try:
        return os.open(path, os.O_PATH | os.O_CLOEXEC)
    except OSError as error:
        raise TargetError(f"{os.fspath(path)} cannot be looked at: {errno_text(error.errno or 0)}.") from error


def statx_attributes(fd: int) -> int | None:
    """``stx_attributes`` of an open file, bits of ``STATX_ATTR_*``; None where the kernel or C library has no statx."""
    told = _ask_statx(fd, 0)
    return None if told is None else int(struct.unpack_from("=Q", told, _ATTRIBUTES_AT)[0])


def _ask_statx(fd: int, wanted: int) -> bytes | None:
    statx = _statx()
    if statx is None:
        return None
    buffer = ctypes.create_string_buffer(_STATX_BYTES)
    # ENOSYS under an old kernel or a seccomp filter; the fall-back says whose word is taken.
    return buffer.raw if statx(fd, b"", _AT_EMPTY_PATH, wanted, buffer) == 0 else None


def _statx_alignment(fd: int) -> Alignment | None:
    told = _ask_statx(fd, _STATX_DIOALIGN)
    if told is None:
        return None
    (mask,) = struct.unpack_from("=I", told, _MASK_AT)
    if not mask & _STATX_DIOALIGN:
        return None
    memory, offset = struct.unpack_from("=II", told, _DIO_AT)
    return Alignment(memory=memory, offset=offset, source="statx")


def _device_alignment(fd: int) -> Alignment | None:
    status = os.fstat(fd)
    is_device = stat.S_ISBLK(status.st_mode) or stat.S_ISCHR(status.st_mode)
    device = status.st_rdev if is_device else status.st_dev
    number = os.major(device), os.minor(device)
    if stat.S_ISCHR(status.st_mode):
        sibling = generic_block_device(number)
        if sibling is None:
            return None
        number = sibling[1]
    size = logical_block_size(number)
    if size is None:
        return None
    return Alignment(memory=size, offset=size, source=f"logical block size of {number[0]}:{number[1]}")


@cache
def _statx() -> Any:
    """The C library's statx; None where it is older than glibc 2.28."""
    try:
        function = ctypes.CDLL(None, use_errno=True).statx
    except (OSError, AttributeError):
        return None
    function.argtypes = [ctypes.c_int, ctypes.c_char_p, ctypes.c_int, ctypes.c_uint, ctypes.c_void_p]
    function.restype = ctypes.c_int
    return function
