"""Whether a target's file system accepts O_DIRECT, asked without leaving anything behind."""

from __future__ import annotations

import errno
import os
from pathlib import Path

from pytest_gpuio.core.errors import TargetError, errno_text
from pytest_gpuio.targets.alignment import direct_alignment
from pytest_gpuio.targets.open import direct_refusal


def refuses_direct(target: str | os.PathLike[str]) -> str | None:
    """None when O_DIRECT can be used, or when only laying out the file will tell; else one sentence with the remedy.

    Args:
        target: directory, file or block device; one that does not exist yet is judged by its nearest existing parent.
            A directory is asked with an unnamed temporary file, which disappears with its descriptor.

    Raises:
        TargetError: nothing above the target can be reached.
    """
    path = Path(target).absolute()
    while not path.exists():
        if path == path.parent:
            raise TargetError(f"{target} has no existing folder above it: name another --gpuio-target.")
        path = path.parent
    try:
        fd = _open_directly(path)
    except OSError as error:
        if error.errno == errno.EINVAL:
            return str(direct_refusal(str(path)))
        if error.errno in (errno.EACCES, errno.EPERM, errno.EROFS):
            return f"{path} cannot be written: {errno_text(error.errno)}. Name another --gpuio-target."
        return None
    if fd is None:
        return None
    try:
        alignment = direct_alignment(fd)
    finally:
        os.close(fd)
    # Some take the flag and go through the page cache all the same.
    return str(direct_refusal(str(path))) if alignment is not None and alignment.offset == 0 else None


def _open_directly(path: Path) -> int | None:
    """A file, a block device, or a nameless file in a directory, open for direct I/O; None where none can be had."""
    flags = os.O_DIRECT | os.O_CLOEXEC
    if path.is_file() or path.is_block_device():
        return os.open(path, os.O_RDONLY | flags)
    if not path.is_dir():
        return None
    try:
        return os.open(path, os.O_TMPFILE | os.O_RDWR | flags, 0o600)
    except OSError as error:
        if error.errno != errno.EOPNOTSUPP:
            raise
    # Overlays of old kernels and network file systems have no nameless files.
    name = path / f".gpuio-probe-{os.getpid()}"
    fd = os.open(name, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    try:
        return os.open(name, os.O_RDWR | flags)
    finally:
        name.unlink()
        os.close(fd)
