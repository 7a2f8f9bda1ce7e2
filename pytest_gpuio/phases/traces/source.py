"""The lines of a trace file with their numbers, and what is wrong with them."""

from __future__ import annotations

import errno
import gzip
import os
import re
import stat
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import BinaryIO, Final, NoReturn, cast

from pytest_gpuio.core.errors import TraceError, errno_text

#: A line longer than this is no trace line but a binary file.
LONGEST_LINE: Final = 16 << 20
_REPORTED: Final = 10
_SHOWN_CHARS: Final = 60
_GZIP: Final = b"\x1f\x8b"
_ZSTD: Final = b"\x28\xb5\x2f\xfd"
_UTF8_BOM: Final = b"\xef\xbb\xbf"
_PROGRESS_EVERY: Final = 1 << 16
_DECIMAL: Final = re.compile(rb"\d{1,30}(\.\d{0,30})?([eE][+-]?\d{1,3})?")

#: Called now and then with the bytes of the file that were read and its size.
Progress = Callable[[int, int], None]


class Malformed(ValueError):
    """Why one line is not a record; its text follows ``path:line:`` in messages."""


class Source:
    """One trace file being read: hands out numbered lines and collects the malformed ones.

    Args:
        path: the file; gzip is read as it is.
        skip_malformed: leave malformed lines out (counted) instead of refusing the file.
        progress: told how far the reading is.

    Attributes:
        path: the file.
        skip_malformed: as given.
        malformed: number of malformed lines so far.
    """

    def __init__(
        self, path: str | os.PathLike[str], *, skip_malformed: bool = False, progress: Progress | None = None
    ) -> None:
        self.path = Path(path)
        self.skip_malformed = skip_malformed
        self.malformed = 0
        self._progress = progress
        self._told: list[str] = []

    def lines(self) -> Iterator[tuple[int, bytes]]:
        """Line numbers from 1 and lines without their end; empty lines are passed over.

        Raises:
            TraceError: it cannot be opened or read, is compressed in a way that is not read here, or is binary.
        """
        try:
            with self._open() as raw:
                yield from self._numbered(raw)
        except (EOFError, zlib.error, gzip.BadGzipFile) as error:
            raise TraceError(f"{self.path}: the gzip data is damaged ({error}): fetch the file again.") from None
        except OSError as error:
            raise TraceError(f"{self.path}: cannot be read: {errno_text(error.errno or errno.EIO)}.") from error

    def head(self, most: int) -> list[bytes]:
        """The first lines that are not empty, at most so many."""
        found = []
        for _, line in self.lines():
            found.append(line)
            if len(found) == most:
                break
        return found

    def refuse(self, number: int, why: str | Malformed) -> None:
        """Notes a malformed line.

        Raises:
            TraceError: enough of them were found, and they are not to be skipped.
        """
        self.malformed += 1
        if len(self._told) < _REPORTED:
            self._told.append(f"{self.path}:{number}: {why}")
        if not self.skip_malformed and len(self._told) == _REPORTED:
            self._give_up(" (and perhaps more)")

    def finish(self, records: int) -> tuple[str, ...]:
        """Ends the reading.

        Args:
            records: that were read.

        Returns:
            What was skipped, for people; empty when nothing was.

        Raises:
            TraceError: lines were malformed (and not to be skipped, or more than were good), or there is no record.
        """
        if self.malformed and (not self.skip_malformed or self.malformed > records):
            self._give_up(f", beside {records:,} good ones")
        if not records:
            raise TraceError(f"{self.path}: holds no record.")
        if not self.malformed:
            return ()
        return (f"{self.malformed:,} malformed lines were skipped; the first: {'; '.join(self._told)}",)

    def fail(self, why: str) -> NoReturn:
        """Raises :class:`TraceError` about the whole file."""
        raise TraceError(f"{self.path}: {why}")

    def _give_up(self, how_many: str) -> NoReturn:
        listed = "\n  ".join(self._told)
        remedy = (
            "Is it a trace of this format (--format)?"
            if self.skip_malformed
            else "Repair them, or leave them out with --skip-malformed."
        )
        raise TraceError(f"{self.malformed:,} malformed lines{how_many}:\n  {listed}\n{remedy}")

    def _open(self) -> BinaryIO:
        # Opening a pipe or a tty would wait for somebody who writes.
        found = self.path.stat()
        if not stat.S_ISREG(found.st_mode):
            self.fail("is not a regular file: name a trace file.")
        raw = self.path.open("rb")
        head = raw.read(4)
        raw.seek(0)
        if head == _ZSTD:
            raw.close()
            self.fail(f"is compressed by zstd, which Python cannot read: unpack it first (zstd -d {self.path.name}).")
        self._size = max(1, found.st_size)
        self._raw = raw
        return cast("BinaryIO", gzip.open(raw)) if head[:2] == _GZIP else raw

    def _numbered(self, raw: BinaryIO) -> Iterator[tuple[int, bytes]]:
        number = 0
        with self._raw:
            while line := raw.readline(LONGEST_LINE):
                number += 1
                if len(line) == LONGEST_LINE:
                    raise TraceError(f"{self.path}:{number}: line of over {LONGEST_LINE >> 20} MiB: not a trace.")
                if number == 1:
                    line = line.removeprefix(_UTF8_BOM)
                line = line.rstrip(b"\r\n")
                if self._progress is not None and number % _PROGRESS_EVERY == 0:
                    self._progress(self._raw.tell(), self._size)
                if line.strip():
                    yield number, line


def shown(text: bytes) -> str:
    """A part of a line for messages: printable and short."""
    cut = text if len(text) <= _SHOWN_CHARS else text[:_SHOWN_CHARS] + b"..."
    return ascii(cut.decode("ascii", "backslashreplace"))


def whole_number(text: bytes, what: str, most: int = (1 << 63) - 1) -> int:
    """A decimal number without a sign.

    Raises:
        Malformed: it is not one, or above ``most``.
    """
    if not (text.isdigit() and len(text) <= 20):
        raise Malformed(f"{what} {shown(text)} is not a whole number")
    value = int(text)
    if value > most:
        raise Malformed(f"{what} {value:,} is above {most:,}")
    return value


def decimal_number(text: bytes, what: str, most: float = 1e18) -> float:
    """A decimal number, not negative, with or without a fraction.

    Raises:
        Malformed: it is not one, or above ``most``.
    """
    if _DECIMAL.fullmatch(text) is None:
        raise Malformed(f"{what} {shown(text)} is not a number")
    value = float(text)
    if value > most:
        raise Malformed(f"{what} {value:g} is above {most:g}")
    return value
