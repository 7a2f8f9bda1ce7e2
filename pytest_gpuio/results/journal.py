"""The journal: one checksummed, fsynced line per fate of a cell, so that no crash loses what was found out."""

from __future__ import annotations

import errno
import fcntl
import json
import os
import re
import stat
import struct
import zlib
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final, Self

from pytest_gpuio.core.errors import Busy, ConfigError, GpuioError, errno_text
from pytest_gpuio.results import strict_json

_LINE: Final = re.compile(rb'\{"crc":"(?P<crc>[0-9a-f]{8})","data":(?P<data>.*)\}', re.DOTALL)
#: What every entry begins with; a key and a time are there in journals that a run may be resumed from.
_HEAD: Final = re.compile(
    rb'\{"kind":"(?P<kind>[a-z_]+)",(?:"key":"(?P<key>[0-9a-f]*)",)?(?:"at":(?P<at>[0-9.]+),)?"body":'
)
#: struct flock of 64-bit Linux: type, whence, start, length, process.
_FLOCK: Final = "hhqqi4x"
_KEY: Final = re.compile(r"[0-9a-f]*")


@dataclass(frozen=True, slots=True)
class Entry:
    """One line.

    Attributes:
        kind: ``start`` (:class:`~pytest_gpuio.results.run_file.Start`, the first line), ``cell``
            (:class:`~pytest_gpuio.results.record.CellRecord`), ``void``, ``skip`` or ``failure`` (the types of that
            name in :mod:`~pytest_gpuio.results.run_file`).
        body: of that type.
    """

    kind: str
    body: Any


@dataclass(frozen=True, slots=True)
class Line:
    """One line whose checksum is right, its body not looked into yet.

    Attributes:
        kind: what kind of thing happened. key: what it happened to, empty = nothing in particular.
        at: seconds since 1970, 0 = the line does not say. number: of the line, from 1.
        raw: the body as JSON text.
    """

    kind: str
    key: str
    at: float
    number: int
    raw: bytes

    def body(self) -> Any:
        """The body."""
        return strict_json.loads(self.raw.decode("ascii"), source=f"line {self.number}")

    def own_body(self) -> Any:
        """The body, read faster: the checksum says that it is what a journal wrote, and that is strict JSON."""
        return json.loads(self.raw)


@dataclass(frozen=True, slots=True)
class Contents:
    """What a journal holds.

    Attributes:
        entries: in the order written.
        torn: the last line was cut off (the writer died inside it) and is left out.
    """

    entries: tuple[Entry, ...]
    torn: bool


class Journal:
    """A journal open for appending: a new one of :meth:`create` or :meth:`create_in`, or one that goes on."""

    def __init__(self, path: Path, fd: int, size: int = 0) -> None:
        self.path = path
        self._fd = fd
        self._size = size
        self._unsynced = False

    @classmethod
    def create(cls, path: str | os.PathLike[str]) -> Self:
        """A new, empty journal.

        Raises:
            ConfigError: something of this name exists already, or it cannot be made.
        """
        path = Path(path)
        flags = os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_APPEND | os.O_CLOEXEC | os.O_NOFOLLOW
        try:
            fd = os.open(path, flags, 0o666)
        except FileExistsError:
            raise ConfigError(
                f"journal {path} exists already: each run writes a new one; move it or name another."
            ) from None
        except OSError as error:
            raise ConfigError(f"journal {path} cannot be made: {error.strerror}.") from None
        journal = cls(path, fd)
        try:
            sync_directory(path.parent)
        except OSError as error:
            journal.close()
            raise GpuioError(f"folder {path.parent} cannot be synced: {error.strerror}.") from None
        return journal

    @classmethod
    def create_in(cls, folder: str | os.PathLike[str], stem: str = "journal") -> Self:
        """A new journal named by UTC time and process, ``journal-20261130T021500Z-4711.jsonl``.

        Raises:
            ConfigError: as :meth:`create`.
        """
        stamp = datetime.now(UTC).strftime("%Y%m%dT%H%M%SZ")
        base = f"{stem}-{stamp}-{os.getpid()}"
        for attempt in range(100):
            path = Path(folder, f"{base}{f'-{attempt}' if attempt else ''}.jsonl")
            if not os.path.lexists(path):
                return cls.create(path)
        raise ConfigError(f"folder {folder} holds 100 journals named {base}: clean it up.")

    @classmethod
    def go_on(cls, path: str | os.PathLike[str]) -> tuple[Self, bool]:
        """A journal that was left off, or a new one; nobody else can go on with it until it is closed.

        A last line that was cut off is taken away: its writer died inside it, so nobody was told that it is kept.

        Returns:
            The journal, and whether its last line had to be repaired.

        Raises:
            Busy: another process goes on with it.
            ConfigError: there is something that is no journal, or it cannot be opened.
            GpuioError: a line other than a cut-off last one is corrupt.
        """
        path = Path(path)
        fd = _open_to_go_on(path)
        try:
            try:
                fcntl.fcntl(fd, fcntl.F_OFD_SETLK, _lock(fcntl.F_WRLCK))
            except (BlockingIOError, PermissionError):
                raise Busy(
                    f"another process is writing journal {path}: wait for it, look at it with "
                    f"`gpuio sweep status --journal {path}`, or name another journal."
                ) from None
            good = sound_bytes(path)
            size = os.fstat(fd).st_size
            if good < size:
                os.ftruncate(fd, good)
                os.fsync(fd)
            sync_directory(path.parent)
        except OSError as error:
            os.close(fd)
            raise GpuioError(f"journal {path} cannot be gone on with: {errno_text(error.errno or 0)}.") from None
        except BaseException:
            os.close(fd)
            raise
        return cls(path, fd, good), good < size

    @property
    def size(self) -> int:
        """Bytes."""
        return self._size

    def append(
        self,
        kind: str,
        body: Mapping[str, Any],
        *,
        key: str | None = None,
        at: float | None = None,
        sync: bool = True,
    ) -> None:
        """Writes one entry; when this returns, it is on the medium, and so are those before it.

        Args:
            kind: what kind of thing happened, small letters.
            body: what there is to say of it.
            key: what it happened to, hexadecimal digits.
            at: when, in seconds since 1970.
            sync: False = leave that to the next :meth:`sync`: the entry outlives this process, not yet a power cut.

        Raises:
            JsonError: the body holds a NaN, infinity or something JSON does not have; nothing is written.
            GpuioError: the line could not be written in full; what was written of it is taken back.
        """
        entry: dict[str, Any] = {"kind": kind}
        if key is not None:
            if not _KEY.fullmatch(key):
                raise ValueError(f"key {key!r} is not made of hexadecimal digits")
            entry["key"] = key
        if at is not None:
            entry["at"] = round(at, 6)
        data = strict_json.dumps(entry | {"body": body}, what="entry").encode("ascii")
        line = b'{"crc":"%08x","data":%b}\n' % (zlib.crc32(data), data)
        try:
            left = memoryview(line)
            while left:
                left = left[os.write(self._fd, left) :]
            self._unsynced = True
            if sync:
                self.sync()
        except OSError as error:
            # A torn line in the middle would spoil the good ones after it. The file is ours: only journals get here.
            os.ftruncate(self._fd, self._size)
            full = error.errno in (errno.ENOSPC, errno.EDQUOT)
            remedy = " Make room and go on: all entries before this one are kept." if full else ""
            raise GpuioError(f"journal {self.path} cannot be written: {error.strerror}.{remedy}") from error
        except KeyboardInterrupt:
            # It may have come before the whole line was written, and more lines may follow.
            os.ftruncate(self._fd, self._size)
            raise
        self._size += len(line)

    def sync(self) -> None:
        """Waits until every entry is on the medium; costs nothing when they are.

        Raises:
            OSError: as fsync.
        """
        if self._unsynced:
            os.fsync(self._fd)
            self._unsynced = False

    def lines(self) -> Iterator[Line]:
        """What was written so far, in memory for one line; also when somebody has removed the file's name meanwhile.

        Raises:
            GpuioError: as :func:`read`.
        """
        with _named_errors(str(self.path)), os.fdopen(os.dup(self._fd), "rb") as file:
            file.seek(0)  # of both descriptors; this class only appends
            for line, _ in _lines(file, str(self.path)):
                yield line

    def close(self) -> None:
        """Closes the file; a second call does nothing."""
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def read(path: str | os.PathLike[str]) -> Contents:
    """Everything a journal holds; a last line that was cut off is left out and reported as torn.

    Raises:
        GpuioError: it cannot be read, or a line other than a cut-off last one is corrupt; the text has its number.
    """
    entries = tuple(Entry(line.kind, line.body()) for line in scan(path))
    return Contents(entries, torn=sound_bytes(path) < Path(path).stat().st_size)


def scan(path: str | os.PathLike[str]) -> Iterator[Line]:
    """Line by line, in memory for one; a last line that was cut off is left out. Safe while another process appends.

    Raises:
        GpuioError: as :func:`read`.
    """
    for line, _ in _scan(path):
        yield line


def sound_bytes(path: str | os.PathLike[str]) -> int:
    """Bytes up to the end of the last complete line; all lines are checked.

    Raises:
        GpuioError: as :func:`read`.
    """
    return max((end for _, end in _scan(path)), default=0)


def _scan(path: str | os.PathLike[str]) -> Iterator[tuple[Line, int]]:
    with _named_errors(os.fspath(path)), Path(path).open("rb") as file:
        yield from _lines(file, os.fspath(path))


@contextmanager
def _named_errors(name: str) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise GpuioError(f"journal {name} cannot be read: {error.strerror}.") from None


def _lines(file: Iterable[bytes], name: str) -> Iterator[tuple[Line, int]]:
    """Each whole line, and the bytes up to its end."""
    good = 0
    for number, line in enumerate(file, start=1):
        if not line.endswith(b"\n"):
            return
        good += len(line)
        yield _line(line[:-1], f"{name}:{number}", number), good


def is_being_written(path: str | os.PathLike[str]) -> bool:
    """Whether some process goes on with the journal now.

    Raises:
        GpuioError: it cannot be opened.
    """
    try:
        with Path(path).open("rb") as file:
            found = fcntl.fcntl(file, fcntl.F_OFD_GETLK, _lock(fcntl.F_RDLCK))
            return bool(struct.unpack(_FLOCK, found)[0] != fcntl.F_UNLCK)
    except OSError as error:
        raise GpuioError(f"journal {os.fspath(path)} cannot be read: {error.strerror}.") from None


def sync_directory(folder: Path) -> None:
    """Makes names in a folder durable.

    Raises:
        OSError: as open and fsync.
    """
    fd = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)


def _lock(kind: int) -> bytes:
    """A lock on the whole file, as the kernel's open file descriptions own it: other descriptors do not drop it."""
    return struct.pack(_FLOCK, kind, os.SEEK_SET, 0, 0, 0)


def _open_to_go_on(path: Path) -> int:
    flags = os.O_RDWR | os.O_APPEND | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK
    try:
        try:
            fd = os.open(path, flags | os.O_CREAT | os.O_EXCL, 0o666)
        except FileExistsError:
            fd = os.open(path, flags)
    except OSError as error:
        raise ConfigError(f"journal {path} cannot be opened: {error.strerror}.") from None
    # What begins otherwise is no journal of ours, and is never written. One whose first line was cut off is.
    head = os.pread(fd, 8, 0) if stat.S_ISREG(os.fstat(fd).st_mode) else b"?"
    if head != b'{"crc":"'[: len(head)]:
        os.close(fd)
        raise ConfigError(f"{path} exists and is no journal: it is left as it is; name another file.")
    return fd


def _line(line: bytes, place: str, number: int) -> Line:
    match = _LINE.fullmatch(line)
    if match is None:
        raise GpuioError(f"{place}: corrupt journal line: not of the form of one ({len(line)} bytes).")
    data = match["data"]
    found = zlib.crc32(data)
    if found != int(match["crc"], 16):
        raise GpuioError(f"{place}: corrupt journal line: checksum is {found:08x}, not {match['crc'].decode()}.")
    head = _HEAD.match(data)
    if head is None:
        raise GpuioError(f"{place}: corrupt journal line: its data begin with none of kind, key, time and body.")
    key, at = head["key"] or b"", float(head["at"] or 0)
    return Line(head["kind"].decode(), key.decode(), at, number, data[head.end() : -1])
