"""Opening a target exactly as asked: direct I/O is never dropped in silence, nothing foreign is opened for writing."""

from __future__ import annotations

import errno
import os
import stat

from pytest_gpuio.core.errors import CapabilityMissing, TargetError, errno_text
from pytest_gpuio.media import MEMORY_FILE_SYSTEMS, classify
from pytest_gpuio.targets.alignment import direct_alignment
from pytest_gpuio.targets.devdax_map import devdax_header
from pytest_gpuio.targets.header import read_header
from pytest_gpuio.targets.raw_device import raw_device


def open_target(path: str | os.PathLike[str], *, writable: bool, direct: bool, dsync: bool = False) -> int:
    """File descriptor of an existing target; the caller closes it.

    Args:
        path: regular file, block device or NVMe generic device; not a symbolic link.
        writable: open for reading and writing; only a file or device that carries our header.
        direct: with O_DIRECT; a generic device knows nothing else and takes no such flag.
        dsync: with O_DSYNC.

    Raises:
        TargetError: not there, not a file or such a device, not ours, or not permitted.
        CapabilityMissing: the file system refuses O_DIRECT, or would serve it through the page cache.
    """
    name = os.fspath(path)
    device = None if os.path.islink(name) else raw_device(name)  # noqa: PTH114 - a plain string path
    if device is None:
        check_regular(name)
    if device is not None and device.generic:
        if not direct:
            raise TargetError(f"{name} takes NVMe commands only, past the page cache: use --gpuio-cache=direct.")
        direct = dsync = False
    if device is not None and device.devdax:
        direct = dsync = False
    flags = (os.O_RDWR if writable else os.O_RDONLY) | os.O_CLOEXEC | os.O_NOFOLLOW
    flags |= os.O_DSYNC if dsync else 0
    if writable and device is not None and device.devdax:
        if devdax_header(device) is None:
            raise _foreign(name)
    elif writable:
        _check_ours(name if device is None else device.block_path)
    try:
        fd = _open_without_atime(name, flags | (os.O_DIRECT if direct else 0))
    except OSError as error:
        if direct and error.errno == errno.EINVAL:
            raise direct_refusal(name) from error
        raise TargetError(f"{name} cannot be opened: {errno_text(error.errno or 0)}.") from error
    try:
        alignment = direct_alignment(fd) if direct else None
        if alignment is not None and alignment.offset == 0:
            # Some files take the flag and go through the page cache all the same (ext4 data=journal, encryption).
            raise direct_refusal(name)
    except BaseException:
        os.close(fd)
        raise
    return fd


def direct_refusal(path: str) -> CapabilityMissing:
    """The error for a file system that does not serve direct I/O on ``path``."""
    kind = classify(path).file_system or "unknown"
    # The page cache of a file in memory is the file, and never cold.
    cache = "hot" if kind in MEMORY_FILE_SYSTEMS else "cold"
    return CapabilityMissing(
        f"{path}: this file system ({kind}) refuses O_DIRECT: use another --gpuio-target, or --gpuio-cache={cache}."
    )


def check_regular(path: str) -> os.stat_result:
    """Status of a regular file.

    Raises:
        TargetError: it is something else, with the remedy for each kind.
    """
    try:
        status = os.lstat(path)
    except OSError as error:
        raise TargetError(f"{path} cannot be used as a target: {errno_text(error.errno or 0)}.") from error
    mode = status.st_mode
    if stat.S_ISREG(mode):
        return status
    if stat.S_ISLNK(mode):
        raise TargetError(f"{path} is a symbolic link: name what it points to ({os.path.realpath(path)}).")
    kind = (
        "a directory"
        if stat.S_ISDIR(mode)
        else "a block device"
        if stat.S_ISBLK(mode)
        else "neither a file nor a directory"
    )
    raise TargetError(f"{path} is {kind}: a regular file is needed here.")


def _check_ours(path: str) -> None:
    try:
        fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW)
    except OSError as error:
        raise TargetError(f"{path} cannot be opened: {errno_text(error.errno or 0)}.") from error
    try:
        if read_header(fd, path) is None:
            raise _foreign(path)
    finally:
        os.close(fd)


def _foreign(path: str) -> TargetError:
    return TargetError(f"{path} exists and was not made by gpuio: name another path.")


def _open_without_atime(path: str, flags: int) -> int:
    try:
        return os.open(path, flags | os.O_NOATIME)
    except PermissionError as error:
        if error.errno != errno.EPERM:  # EPERM: only the owner may ask for O_NOATIME
            raise
        return os.open(path, flags)
