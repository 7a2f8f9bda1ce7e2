"""Laying out a raw device that the user gave up by name: our header, then the pattern up to the size asked for."""

from __future__ import annotations

import errno
import fcntl
import mmap
import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import Final

from pytest_gpuio.core.errors import ConfigError, TargetError, errno_text
from pytest_gpuio.targets.header import HEADER_BYTES, HEADER_RECORD
from pytest_gpuio.targets.layout import Progress, Stop, TargetFile
from pytest_gpuio.targets.raw_device import (
    FORCE_OPTION,
    RawDevice,
    check_allowed,
    check_same,
    check_unused,
    claimed,
    is_allowed,
)
from pytest_gpuio.targets.raw_layout import (
    Announce,
    FoundContent,
    check_readable,
    check_room,
    covers,
    data_region,
    first_changed,
    header_in,
    intact,
    write_layout,
    zero_share,
)
from pytest_gpuio.targets.signatures import EDGE_BYTES, recognize

_BLKRRPART: Final = 0x125F


def lay_out_device(
    device: RawDevice,
    data_bytes: int,
    *,
    allowed: Sequence[str],
    force: bool = False,
    announce: Announce | None = None,
    progress: Progress | None = None,
    stop: Stop | None = None,
) -> TargetFile:
    """Our header and pattern on a device; what is there already is reused when it is large enough and still ours.

    The device is held exclusively while it is looked at and written, nothing is discarded, and nothing beyond the data
    region is touched. A layout that is stopped or fails leaves a header that says so, and begins anew the next time.

    Args:
        device: the target.
        data_bytes: wanted length of the data region; rounded up to :data:`DATA_MULTIPLE`.
        allowed: values of ``--gpuio-allow-destroy``.
        force: overwrite although partitions that nobody uses, or signatures of a former use, are there.
        announce: gets one sentence about what is overwritten, before that.
        progress: called with bytes done and bytes in all, after every piece.
        stop: asked before every piece; true ends the work.

    Raises:
        ConfigError: the device is smaller than what is asked for.
        TargetError: not allowed, in use, partitioned or signed without ``force``, or an I/O error.
        LayoutStopped: ``stop`` said so.
        Busy: somebody holds the device.
    """
    wanted = data_region(data_bytes)
    check_allowed(device, allowed)
    check_unused(device, force=force)
    with claimed(device) as held:
        size = os.lseek(held, 0, os.SEEK_END)
        check_room(device, size, wanted)
        head, tail = _edges(device, held, size)
        header = header_in(head, device.node)
        content = recognize(head, tail, size)
        # Behind our own header a table's second copy, at the end, is a remnant: who makes a table anew writes over the
        # header.
        remnant = header is not None and content.partitions and not content.member
        if content.signature and not remnant and not force:
            raise TargetError(
                f"{device} carries {content.signature}, so somebody may need it: look at it (lsblk -f "
                f"{device.block_path}); if nothing on it is needed, add {FORCE_OPTION}, or name another --gpuio-target."
            )
        if covers(header, data_bytes):
            with _opened(device, os.O_RDONLY) as space:
                changed = first_changed(space, header, header.data_bytes)
            if changed is None:
                return TargetFile(device.node, HEADER_BYTES, header.data_bytes, header.pattern_seed, reused=True)
            what = f"a layout of ours that was overwritten at offset {changed:,}"
        else:
            found = content.signature or content.other
            what = "an older layout of ours" if header is not None else found or "only zeros at both ends"
        if announce is not None:
            end = HEADER_BYTES + wanted
            announce(f"overwriting the first {end:,} of {size:,} bytes of {device}, which held {what}")
        with _opened(device, os.O_RDWR) as space:
            made = write_layout(space, wanted, progress, stop)
        if content.partitions:
            forget_partitions(held)
        return made


def look_at_device(device: RawDevice, data_bytes: int, *, allowed: Sequence[str]) -> TargetFile | FoundContent:
    """A raw device for cells that only read: nothing is written, so no permission is needed and anybody may use it.

    Args:
        device: the target.
        data_bytes: wanted length of the region; rounded up to :data:`DATA_MULTIPLE`.
        allowed: values of ``--gpuio-allow-destroy``; a device among them is for :func:`lay_out_device`.

    Returns:
        Our own layout where it is there, large enough and unchanged, so that data can be checked; else what was found.

    Raises:
        ConfigError: the device is smaller than what is asked for, or it may be overwritten.
        TargetError: it cannot be read.
    """
    wanted = data_region(data_bytes)
    if is_allowed(device, allowed):
        raise ConfigError(f"{device} may be overwritten: it is to be laid out.")
    with _opened(device, os.O_RDONLY) as space:
        header = header_in(space.read(HEADER_RECORD, 0), device.node)
        ours = intact(space, header, data_bytes)
        if ours is not None:
            return ours
        check_readable(device, space.size, wanted)
        zeros = zero_share(space, wanted)
    try:
        check_unused(device, force=True)
        used = False
    except TargetError:
        used = True
    return FoundContent(device.node, 0, wanted, zeros, used)


def _unreadable(device: RawDevice, offset: int, error: OSError) -> TargetError:
    return TargetError(
        f"reading {device} at offset {offset:,} failed: {errno_text(error.errno or 0)}: see the kernel's log, or name "
        "another --gpuio-target."
    )


def forget_partitions(fd: int) -> None:
    """Asks the kernel to read the partition table anew, which is gone; it may refuse (a loop device without them)."""
    with suppress(OSError):
        fcntl.ioctl(fd, _BLKRRPART)


def _edges(device: RawDevice, held: int, size: int) -> tuple[bytes, bytes]:
    length = min(EDGE_BYTES, size)
    try:
        # Through the page cache, and fresh: a device that others wrote past it would show old bytes.
        os.posix_fadvise(held, 0, 0, os.POSIX_FADV_DONTNEED)
        return os.pread(held, length, 0), os.pread(held, length, size - length)
    except OSError as error:
        raise TargetError(f"{device} cannot be read: {errno_text(error.errno or 0)}.") from error
    finally:
        os.posix_fadvise(held, 0, 0, os.POSIX_FADV_DONTNEED)


class _Direct:
    """A block device that is open for direct I/O."""

    def __init__(self, device: RawDevice, fd: int) -> None:
        self.path = device.node
        self.size = os.lseek(fd, 0, os.SEEK_END)
        self._device = device
        self._fd = fd

    def __str__(self) -> str:
        return str(self._device)

    def read(self, length: int, offset: int) -> bytes:
        with mmap.mmap(-1, length) as buffer:
            try:
                return buffer[: os.preadv(self._fd, [buffer], offset)]
            except OSError as error:
                raise _unreadable(self._device, offset, error) from error

    def write(self, content: memoryview, offset: int) -> None:
        done = 0
        while done < len(content):
            with content[done:] as rest:
                count = os.pwrite(self._fd, rest, offset + done)
            if count == 0:
                raise OSError(errno.EIO, "write of no bytes")
            done += count

    def flush(self) -> None:
        os.fsync(self._fd)


@contextmanager
def _opened(device: RawDevice, mode: int) -> Iterator[_Direct]:
    """The block device, while the caller holds its claim."""
    try:
        fd = os.open(device.block_path, mode | os.O_DIRECT | os.O_CLOEXEC)
    except OSError as error:
        raise TargetError(f"{device.block_path} cannot be opened: {errno_text(error.errno or 0)}.") from error
    try:
        check_same(fd, device)
        yield _Direct(device, fd)
    finally:
        os.close(fd)
