"""Laying out a raw device that the user gave up by name: our header, then the pattern up to the size asked for."""

from __future__ import annotations

import errno
import fcntl
import mmap
import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Final

from pytest_gpuio import engine
from pytest_gpuio.core.errors import ConfigError, TargetError, errno_text
from pytest_gpuio.core.sizes import describe_size
from pytest_gpuio.targets.geometry import round_up
from pytest_gpuio.targets.header import HEADER_BYTES, HEADER_RECORD, Header, decode
from pytest_gpuio.targets.layout import DATA_MULTIPLE, LayoutStopped, Progress, Stop, TargetFile
from pytest_gpuio.targets.raw_device import (
    FORCE_OPTION,
    RawDevice,
    check_allowed,
    check_same,
    check_unused,
    claimed,
    is_allowed,
)
from pytest_gpuio.targets.signatures import EDGE_BYTES, recognize

_PIECE: Final = 8 << 20
_BLKRRPART: Final = 0x125F
#: So many places of a device that is to be reused are read, evenly spread, both ends among them.
SAMPLES: Final = 64
_SAMPLE_BYTES: Final = DATA_MULTIPLE

#: Told once, before the first byte is overwritten, what the device holds.
Announce = Callable[[str], None]


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
    if data_bytes <= 0:
        raise ConfigError(f"a target of {data_bytes} bytes: the size must be above zero (--gpuio-size).")
    check_allowed(device, allowed)
    check_unused(device, force=force)
    with claimed(device) as held:
        size = os.lseek(held, 0, os.SEEK_END)
        wanted = round_up(data_bytes, DATA_MULTIPLE)
        _check_size(device, wanted, size)
        head, tail = _edges(device, held, size)
        header = _header(head, device)
        content = recognize(head, tail, size)
        # Behind our own header a table's second copy, at the end, is a remnant: who makes a table anew writes over the
        # header.
        remnant = header is not None and content.partitions and not content.member
        if content.signature and not remnant and not force:
            raise TargetError(
                f"{device} carries {content.signature}, so somebody may need it: look at it (lsblk -f "
                f"{device.block_path}); if nothing on it is needed, add {FORCE_OPTION}, or name another --gpuio-target."
            )
        if header is not None and header.state == "complete" and header.data_bytes >= data_bytes:
            changed = _first_changed(device, header)
            if changed is None:
                return TargetFile(device.node, HEADER_BYTES, header.data_bytes, header.pattern_seed, reused=True)
            what = f"a layout of ours that was overwritten at offset {changed:,}"
        else:
            found = content.signature or content.other
            what = "an older layout of ours" if header is not None else found or "only zeros at both ends"
        if announce is not None:
            end = HEADER_BYTES + wanted
            announce(f"overwriting the first {end:,} of {size:,} bytes of {device}, which held {what}")
        made = _write(device, wanted, progress, stop)
        if content.partitions:
            forget_partitions(held)
        return made


@dataclass(frozen=True, slots=True)
class FoundContent:
    """A raw device that is read as it is.

    Attributes:
        path: the node.
        data_offset, data_bytes: the part that is read.
        zero_share: of :data:`SAMPLES` sampled places, those that hold only zeros: what was never written, or was
            discarded, is answered without touching the medium.
        used: it is mounted or held by something that may disturb the figures.
    """

    path: str
    data_offset: int
    data_bytes: int
    zero_share: float
    used: bool


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
    if data_bytes <= 0:
        raise ConfigError(f"a target of {data_bytes} bytes: the size must be above zero (--gpuio-size).")
    if is_allowed(device, allowed):
        raise ConfigError(f"{device} may be overwritten: it is to be laid out.")
    with _opened(device, os.O_RDONLY) as fd:
        size = os.lseek(fd, 0, os.SEEK_END)
        with mmap.mmap(-1, HEADER_RECORD) as buffer:
            head = buffer[: os.preadv(fd, [buffer], 0)] if size >= HEADER_RECORD else b""
        header = _header(head, device) if head else None
        fits = header is not None and header.state == "complete" and header.data_bytes >= data_bytes
        if header is not None and fits and _first_changed(device, header) is None:
            return TargetFile(device.node, HEADER_BYTES, header.data_bytes, header.pattern_seed, reused=True)
        wanted = round_up(data_bytes, DATA_MULTIPLE)
        if wanted > size:
            raise ConfigError(
                f"{device} has {size:,} bytes, and {describe_size(wanted)} are to be read: use "
                f"--gpuio-size={size // DATA_MULTIPLE * DATA_MULTIPLE >> 10}K or less."
            )
        zeros = _zero_share(fd, device, wanted)
    try:
        check_unused(device, force=True)
        used = False
    except TargetError:
        used = True
    return FoundContent(device.node, 0, wanted, zeros, used)


def _zero_share(fd: int, device: RawDevice, length: int) -> float:
    chosen = sampled(length // _SAMPLE_BYTES)
    zeros = 0
    with mmap.mmap(-1, _SAMPLE_BYTES) as buffer:
        for place in chosen:
            try:
                count = os.preadv(fd, [buffer], place * _SAMPLE_BYTES)
            except OSError as error:
                raise _unreadable(device, place * _SAMPLE_BYTES, error) from error
            zeros += not any(buffer[:count])
    return zeros / len(chosen)


def sampled(places: int) -> list[int]:
    """Indices of :data:`SAMPLES` places, evenly spread, both ends among them."""
    return sorted({index * (places - 1) // (SAMPLES - 1) for index in range(SAMPLES)})


def _unreadable(device: RawDevice, offset: int, error: OSError) -> TargetError:
    return TargetError(
        f"reading {device} at offset {offset:,} failed: {errno_text(error.errno or 0)}: see the kernel's log, or name "
        "another --gpuio-target."
    )


def forget_partitions(fd: int) -> None:
    """Asks the kernel to read the partition table anew, which is gone; it may refuse (a loop device without them)."""
    with suppress(OSError):
        fcntl.ioctl(fd, _BLKRRPART)


def _check_size(device: RawDevice, wanted: int, size: int) -> None:
    if HEADER_BYTES + wanted > size:
        most = max(size - HEADER_BYTES, 0) // DATA_MULTIPLE * DATA_MULTIPLE
        remedy = f"use --gpuio-size={most >> 10}K or less" if most else "name another --gpuio-target"
        raise ConfigError(
            f"{device} has {size:,} bytes, and {describe_size(wanted)} of data with a header of {HEADER_BYTES:,} bytes "
            f"need {HEADER_BYTES + wanted:,}: {remedy}."
        )


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


def _header(head: bytes, device: RawDevice) -> Header | None:
    try:
        return decode(head[:HEADER_RECORD], device.node)
    except TargetError:  # damaged: nothing proves what follows it, and overwriting was allowed
        return None


def _first_changed(device: RawDevice, header: Header) -> int | None:
    """Offset of the first sampled place that does not carry the pattern; None when all do."""
    chosen = sampled(header.data_bytes // _SAMPLE_BYTES)
    with _opened(device, os.O_RDONLY) as fd, mmap.mmap(-1, _SAMPLE_BYTES) as buffer:
        for place in chosen:
            offset = HEADER_BYTES + place * _SAMPLE_BYTES
            try:
                count = os.preadv(fd, [buffer], offset)
            except OSError as error:
                raise _unreadable(device, offset, error) from error
            bad, first = engine.pattern_check(buffer, offset, header.pattern_seed)
            if count < _SAMPLE_BYTES or bad:
                return first if bad else offset + count
    return None


def _write(device: RawDevice, wanted: int, progress: Progress | None, stop: Stop | None) -> TargetFile:
    # 48 random bits: targets never share their content, and any JSON reader keeps the number exact.
    seed = int.from_bytes(os.urandom(6), "big")
    created = datetime.now(UTC).isoformat(timespec="seconds")
    done = 0
    with _opened(device, os.O_RDWR) as fd, mmap.mmap(-1, _PIECE) as buffer:

        def put(content: bytes, size: int) -> None:
            buffer[:size] = content.ljust(size, b"\0")
            _write_all(fd, buffer, size, 0)

        try:
            # The whole of the header's room: marks of what was there before must not outlive it.
            put(Header("laying_out", wanted, seed, created).encode(), HEADER_BYTES)
            os.fsync(fd)
            while done < wanted:
                if stop is not None and stop():
                    raise LayoutStopped(
                        f"laying out {device} was stopped after {done:,} of {wanted:,} bytes: what it held there is "
                        f"gone, and the next run begins anew."
                    )
                size = min(_PIECE, wanted - done)
                with memoryview(buffer) as whole, whole[:size] as piece:
                    engine.pattern_fill(piece, HEADER_BYTES + done, seed)
                _write_all(fd, buffer, size, HEADER_BYTES + done)
                done += size
                if progress is not None:
                    progress(done, wanted)
            os.fsync(fd)
            put(Header("complete", wanted, seed, created).encode(), HEADER_RECORD)
            os.fsync(fd)
        except OSError as error:
            raise TargetError(
                f"laying out {device} failed after {done:,} of {wanted:,} bytes: {errno_text(error.errno or 0)}: see "
                f"the kernel's log, or name another --gpuio-target."
            ) from error
    return TargetFile(device.node, HEADER_BYTES, wanted, seed, reused=False)


@contextmanager
def _opened(device: RawDevice, mode: int) -> Iterator[int]:
    """The block device open for direct I/O, while the caller holds its claim."""
    try:
        fd = os.open(device.block_path, mode | os.O_DIRECT | os.O_CLOEXEC)
    except OSError as error:
        raise TargetError(f"{device.block_path} cannot be opened: {errno_text(error.errno or 0)}.") from error
    try:
        check_same(fd, device)
        yield fd
    finally:
        os.close(fd)


def _write_all(fd: int, buffer: mmap.mmap, size: int, offset: int) -> None:
    done = 0
    with memoryview(buffer) as whole:
        while done < size:
            with whole[done:size] as rest:
                count = os.pwrite(fd, rest, offset + done)
            if count == 0:
                raise OSError(errno.EIO, "write of no bytes")
            done += count
