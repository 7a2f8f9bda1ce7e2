"""Laying out a target file: ours alone, written in full with incompressible data, on the medium before it is used."""

from __future__ import annotations

import errno
import fcntl
import mmap
import os
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

from pytest_gpuio import engine
from pytest_gpuio.core.errors import Busy, ConfigError, TargetError, errno_text
from pytest_gpuio.core.sizes import describe_size
from pytest_gpuio.machine.kernel import memory_bytes
from pytest_gpuio.media import classify
from pytest_gpuio.targets.cache import holes
from pytest_gpuio.targets.geometry import round_up
from pytest_gpuio.targets.header import HEADER_BYTES, Header, read_header
from pytest_gpuio.targets.location import DEFAULT_DIRECTORY
from pytest_gpuio.targets.open import check_regular

#: Data regions are whole multiples of this, the largest direct-I/O alignment known.
DATA_MULTIPLE: Final = 64 << 10
_PIECE: Final = 8 << 20
_FLUSH_EVERY: Final = 64 << 20  # bytes of buffered writing after which the page cache is emptied again
#: Share of the file system that stays free.
KEEP_FREE: Final = 0.05
_FULL: Final = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EFBIG})

Progress = Callable[[int, int], None]
Stop = Callable[[], bool]


class LayoutStopped(TargetError):
    """The caller asked to stop; the partial file is gone."""


@dataclass(frozen=True, slots=True)
class TargetFile:
    """A target file, or device, that is complete on its medium.

    Attributes:
        path: the file, or the device node.
        data_offset: first byte of the data region.
        data_bytes: length of the data region; may be more than was asked for.
        pattern_seed: of the pattern that fills it.
        reused: it was there already.
    """

    path: str
    data_offset: int
    data_bytes: int
    pattern_seed: int
    reused: bool


def lay_out(
    path: str | os.PathLike[str],
    data_bytes: int,
    *,
    progress: Progress | None = None,
    stop: Stop | None = None,
) -> TargetFile:
    """A complete target file at ``path`` with at least ``data_bytes`` of data; an earlier one is reused when it fits.

    A new file is created, and its directory if only that is missing. A file with our header that is incomplete, too
    small or has holes is laid out again. Any other existing file is left alone. On any failure, stop included, the
    partial file is removed.

    Args:
        path: the file; see :func:`~pytest_gpuio.targets.location.target_file`.
        data_bytes: wanted length of the data region; rounded up to :data:`DATA_MULTIPLE`.
        progress: called with bytes done and bytes in all, after every piece.
        stop: asked before every piece; true ends the work.

    Raises:
        ConfigError: no bytes asked for, or too little space or memory.
        TargetError: a foreign file, a symbolic link, a device, or an I/O error.
        LayoutStopped: ``stop`` said so.
        Busy: another process is laying out this file.
    """
    name = os.fspath(path)
    if data_bytes <= 0:
        raise ConfigError(f"a target of {data_bytes} bytes: the size must be above zero (--gpuio-size).")
    wanted = round_up(data_bytes, DATA_MULTIPLE)
    opened = _open_ours(name)
    if opened is None:
        check_space([(name, wanted)])
        make_directory(Path(name).parent)
        fd = _create(name)
    else:
        fd = opened
    try:
        _lock(fd, name)
        if opened is not None:
            header = read_header(fd, name)
            if header is None:  # it was exchanged between the look and the opening
                raise _foreign(name)
            if _fits(fd, header, data_bytes):
                return TargetFile(name, HEADER_BYTES, header.data_bytes, header.pattern_seed, reused=True)
            check_space([(name, wanted)])
        with _removed_on_failure(fd, name):
            return _write(fd, name, wanted, progress, stop)
    finally:
        os.close(fd)


def _open_ours(name: str) -> int | None:
    """An existing file that carries our header, open for writing; None when there is no file.

    Raises:
        TargetError: there is something that is not ours.
    """
    if not os.path.lexists(name):
        return None
    check_regular(name)
    try:
        # For reading until the header has spoken: nothing foreign is ever opened for writing.
        fd = os.open(name, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW)
        try:
            if read_header(fd, name) is None:
                raise _foreign(name)
            writable = os.open(name, os.O_RDWR | os.O_CLOEXEC | os.O_NOFOLLOW)
        finally:
            os.close(fd)
    except OSError as error:
        raise TargetError(f"{name} cannot be opened: {errno_text(error.errno or 0)}.") from error
    return writable


def _foreign(name: str) -> TargetError:
    return TargetError(f"{name} exists and was not made by gpuio: name another path.")


def _create(name: str) -> int:
    try:
        return os.open(name, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o644)
    except OSError as error:
        raise TargetError(f"{name} cannot be created: {errno_text(error.errno or 0)}.") from error


def make_directory(folder: Path) -> None:
    """Makes the target's directory when its parent is there; the default one hides itself from git.

    Raises:
        TargetError: its parent is missing, or it cannot be made.
    """
    if folder.is_dir():
        return
    try:
        folder.mkdir()
    except FileNotFoundError as error:
        raise TargetError(f"{folder.parent} does not exist: create it, or name another --gpuio-target.") from error
    except OSError as error:
        raise TargetError(f"{folder} cannot be made a directory: {errno_text(error.errno or 0)}.") from error
    if folder.name == DEFAULT_DIRECTORY:
        (folder / ".gitignore").write_text("*\n")


def _lock(fd: int, name: str) -> None:
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        if error.errno == errno.EWOULDBLOCK:
            raise Busy(f"{name} is being laid out by another process: wait for it, or name another target.") from error
        # A file system without locks (some network ones): the host-wide lock of a run still holds.


def _fits(fd: int, header: Header, data_bytes: int) -> bool:
    """Whether the file holds what its header promises, and that is enough."""
    status = os.fstat(fd)
    return (
        header.state == "complete"
        and header.data_bytes >= data_bytes
        and status.st_size >= HEADER_BYTES + header.data_bytes
        # Some network file systems count no blocks at all.
        and (status.st_blocks == 0 or status.st_blocks * 512 >= header.data_bytes)
        and not holes(fd, HEADER_BYTES, header.data_bytes)
    )


def check_space(files: Sequence[tuple[str, int]]) -> None:
    """Refuses files of one folder, by path and data bytes, that would fill the file system or the memory together.

    Raises:
        ConfigError: with the numbers.
    """
    folder = str(next(above for above in Path(files[0][0]).absolute().parents if above.is_dir()))
    space = os.statvfs(folder)
    total, free = space.f_blocks * space.f_frsize, space.f_bavail * space.f_frsize
    wanted = needed = 0
    for name, data_bytes in files:
        size = round_up(data_bytes, DATA_MULTIPLE)
        wanted += size
        needed += max(0, size + HEADER_BYTES - _allocated(name))
    reserve = int(total * KEEP_FREE)
    if total and needed + reserve > free and needed:  # some FUSE file systems say 0 of everything
        raise ConfigError(
            f"laying out {describe_size(wanted)} in {folder} needs {needed:,} bytes and {reserve:,} bytes (5 % of the "
            f"file system) left free, but only {free:,} bytes are free: lower --gpuio-size (or --gpuio-scale), name "
            f"another --gpuio-target, or remove what earlier runs laid out (gpuio clean TARGET)."
        )
    memory = memory_bytes(Path("/"), "MemAvailable")
    if memory is not None and needed > memory // 2 and classify(folder).name == "ram":
        raise ConfigError(
            f"laying out {describe_size(wanted)} in {folder} takes that much memory, over half of the {memory:,} bytes "
            f"available: lower --gpuio-size (or --gpuio-scale), or name another --gpuio-target."
        )


def _allocated(name: str) -> int:
    """Bytes that a file takes already."""
    try:
        return os.lstat(name).st_blocks * 512
    except OSError:
        return 0


@contextmanager
def _removed_on_failure(fd: int, name: str) -> Iterator[None]:
    """Removes the file, which is ours, when the work inside fails."""
    try:
        yield
    except BaseException:
        with suppress(OSError):
            ours, there = os.fstat(fd), os.lstat(name)
            if (ours.st_dev, ours.st_ino) == (there.st_dev, there.st_ino):
                os.unlink(name)  # noqa: PTH108 - beside the other calls on the same name
        raise


def _write(fd: int, name: str, wanted: int, progress: Progress | None, stop: Stop | None) -> TargetFile:
    # 48 random bits: files never share their content, and any JSON reader keeps the number exact.
    seed = int.from_bytes(os.urandom(6), "big")
    created = datetime.now(UTC).isoformat(timespec="seconds")
    done = 0
    try:
        beginning = Header("laying_out", wanted, seed, created).encode().ljust(HEADER_BYTES, b"\0")
        _write_all(fd, memoryview(beginning), 0)
        os.fsync(fd)
        if os.fstat(fd).st_size > HEADER_BYTES + wanted:
            os.ftruncate(fd, HEADER_BYTES + wanted)
        with closing(_write_data(fd, name, wanted, seed)) as pieces:
            for done in pieces:
                if progress is not None:
                    progress(done, wanted)
                if stop is not None and done < wanted and stop():
                    raise LayoutStopped(
                        f"laying out {name} was stopped after {done:,} of {wanted:,} bytes; it is removed."
                    )
        os.fsync(fd)
        if holes(fd, HEADER_BYTES, wanted):
            raise TargetError(f"{name} has holes after it was written in full: use another file system.")
        _write_all(fd, memoryview(Header("complete", wanted, seed, created).encode()), 0)
        os.fsync(fd)
        os.posix_fadvise(fd, 0, 0, os.POSIX_FADV_DONTNEED)
        _sync_directory(Path(name).parent)
    except OSError as error:
        remedy = "lower --gpuio-size or free space" if error.errno in _FULL else "see the kernel's log"
        raise TargetError(
            f"laying out {name} failed after {done:,} of {wanted:,} bytes: {errno_text(error.errno or 0)}; "
            f"the file is removed: {remedy}, or name another --gpuio-target."
        ) from error
    return TargetFile(name, HEADER_BYTES, wanted, seed, reused=False)


def _write_data(fd: int, name: str, wanted: int, seed: int) -> Generator[int, None, None]:
    """Writes the data region, yielding the bytes done: 0 first, then after every piece."""
    direct = _open_direct(name)
    buffer = mmap.mmap(-1, _PIECE)
    done = 0
    try:
        yield done
        while done < wanted:
            size = min(_PIECE, wanted - done)
            with memoryview(buffer) as whole, whole[:size] as piece:
                engine.pattern_fill(piece, HEADER_BYTES + done, seed)
                try:
                    _write_all(fd if direct is None else direct, piece, HEADER_BYTES + done)
                except OSError as error:
                    if direct is None or error.errno != errno.EINVAL:
                        raise
                    os.close(direct)
                    direct = None
                    continue
            done += size
            if direct is None and done % _FLUSH_EVERY == 0:
                os.fdatasync(fd)
                os.posix_fadvise(fd, 0, 0, os.POSIX_FADV_DONTNEED)
            yield done
    finally:
        buffer.close()
        if direct is not None:
            os.close(direct)


def _open_direct(name: str) -> int | None:
    """For direct writing, so that the laying out does not fill the page cache; None where that is refused."""
    try:
        return os.open(name, os.O_WRONLY | os.O_DIRECT | os.O_NOFOLLOW | os.O_CLOEXEC)
    except OSError:
        return None


def _write_all(fd: int, data: memoryview, offset: int) -> None:
    done = 0
    while done < len(data):
        with data[done:] as rest:
            count = os.pwrite(fd, rest, offset + done)
        if count == 0:
            raise OSError(errno.EIO, "write of no bytes")
        done += count


def _sync_directory(folder: Path) -> None:
    fd = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(fd)
    except OSError as error:
        if error.errno not in (errno.EINVAL, errno.EBADF, errno.EROFS):  # file systems that cannot sync a directory
            raise
    finally:
        os.close(fd)
