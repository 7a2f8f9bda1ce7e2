"""The journal: one checksummed, fsynced line per fate of a cell, so that no crash loses what was found out."""

from __future__ import annotations

import os
import re
import zlib
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final, Self

from pytest_gpuio.core.errors import ConfigError, GpuioError
from pytest_gpuio.results import strict_json

_LINE: Final = re.compile(rb'\{"crc":"(?P<crc>[0-9a-f]{8})","data":(?P<data>.*)\}', re.DOTALL)


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
class Contents:
    """What a journal holds.

    Attributes:
        entries: in the order written.
        torn: the last line was cut off (the writer died inside it) and is left out.
    """

    entries: tuple[Entry, ...]
    torn: bool


class Journal:
    """A journal open for appending; made new by :meth:`create` or :meth:`create_in`, never opened again."""

    def __init__(self, path: Path, fd: int) -> None:
        self.path = path
        self._fd = fd
        self._size = 0
        self._unsynced = False

    @classmethod
    def create(cls, path: str | os.PathLike[str]) -> Self:
        """A new, empty journal.

        Raises:
            ConfigError: something of this name exists already, or it cannot be made.
        """
        path = Path(path)
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_APPEND | os.O_CLOEXEC | os.O_NOFOLLOW
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

    def append(self, kind: str, body: Mapping[str, Any], *, sync: bool = True) -> None:
        """Writes one entry; when this returns, it is on the medium, and so are those before it.

        Args:
            kind: of the entry.
            body: of the entry.
            sync: False = leave that to the next :meth:`sync`: the entry outlives this process, not yet a power cut.

        Raises:
            JsonError: the body holds a NaN, infinity or something JSON does not have; nothing is written.
            GpuioError: the line could not be written in full; what was written of it is taken back.
        """
        data = strict_json.dumps({"kind": kind, "body": body}, what="entry").encode("ascii")
        line = b'{"crc":"%08x","data":%b}\n' % (zlib.crc32(data), data)
        try:
            left = memoryview(line)
            while left:
                left = left[os.write(self._fd, left) :]
            self._unsynced = True
            if sync:
                self.sync()
        except OSError as error:
            # A torn line in the middle would spoil the good ones after it. The file is ours: create() made it.
            os.ftruncate(self._fd, self._size)
            raise GpuioError(f"journal {self.path} cannot be written: {error.strerror}.") from error
        self._size += len(line)

    def sync(self) -> None:
        """Waits until every entry is on the medium; costs nothing when they are.

        Raises:
            OSError: as fsync.
        """
        if self._unsynced:
            os.fsync(self._fd)
            self._unsynced = False

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
    try:
        lines = Path(path).read_bytes().split(b"\n")
    except OSError as error:
        raise GpuioError(f"journal {os.fspath(path)} cannot be read: {error.strerror}.") from None
    rest = lines.pop()  # empty when the last line is complete
    entries = [_entry(line, f"{os.fspath(path)}:{number}") for number, line in enumerate(lines, start=1)]
    return Contents(tuple(entries), torn=bool(rest))


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


def _entry(line: bytes, place: str) -> Entry:
    match = _LINE.fullmatch(line)
    if match is None:
        raise GpuioError(f"{place}: corrupt journal line: not of the form of one ({len(line)} bytes).")
    found = zlib.crc32(match["data"])
    if found != int(match["crc"], 16):
        raise GpuioError(f"{place}: corrupt journal line: checksum is {found:08x}, not {match['crc'].decode()}.")
    data = strict_json.loads(match["data"].decode("ascii"), source=place)
    return Entry(data["kind"], data["body"])
