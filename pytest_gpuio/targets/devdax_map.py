"""A map of a devdax device, which has no read and write: its size, its steps, its beginning."""

from __future__ import annotations

import mmap
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from pytest_gpuio.core.errors import TargetError, errno_text
from pytest_gpuio.machine.reading import read_int
from pytest_gpuio.targets.header import HEADER_RECORD, Header, decode
from pytest_gpuio.targets.raw_device import RawDevice


def devdax_geometry(device: RawDevice, root: str = "/") -> tuple[int, int]:
    """Size of a devdax device and the step that maps of it are made in, in bytes.

    Args:
        device: the target.
        root: folder that holds ``sys``.

    Raises:
        TargetError: sysfs does not tell.
    """
    folder = Path(root, "sys/dev/char", f"{device.number[0]}:{device.number[1]}")
    size, align = read_int(folder / "size"), read_int(folder / "align")
    if not size or not align:
        raise TargetError(f"{device}: sysfs tells no size and alignment of it: is it gone?")
    return size, align


@contextmanager
def devdax_map(device: RawDevice, length: int, *, writable: bool) -> Iterator[mmap.mmap]:
    """A map of the device's beginning.

    Args:
        device: the target.
        length: bytes, whole steps of :func:`devdax_geometry`.
        writable: for stores, too.

    Raises:
        TargetError: the kernel refuses it.
    """
    protection = mmap.PROT_READ | (mmap.PROT_WRITE if writable else 0)
    try:
        fd = os.open(device.node, (os.O_RDWR if writable else os.O_RDONLY) | os.O_CLOEXEC)
        try:
            memory = mmap.mmap(fd, length, mmap.MAP_SHARED, protection)
        finally:
            os.close(fd)
    except (OSError, ValueError) as error:
        told = errno_text(error.errno or 0) if isinstance(error, OSError) else str(error)
        raise TargetError(f"{device} cannot be mapped: {told}.") from error
    with memory:
        yield memory


def devdax_header(device: RawDevice) -> Header | None:
    """Our header at the device's beginning; None when the device is not ours.

    Raises:
        TargetError: damaged header, or it cannot be mapped.
    """
    _size, align = devdax_geometry(device)
    with devdax_map(device, align, writable=False) as memory:
        return decode(memory[:HEADER_RECORD], device.node)
