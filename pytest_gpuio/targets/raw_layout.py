"""Our header and pattern on a raw space, however it is reached: written, found again, or told to have changed."""

from __future__ import annotations

import mmap
import os
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Final, Protocol, TypeGuard

from pytest_gpuio import engine
from pytest_gpuio.core.errors import ConfigError, TargetError, errno_text
from pytest_gpuio.core.sizes import describe_size
from pytest_gpuio.targets.geometry import round_up
from pytest_gpuio.targets.header import HEADER_BYTES, HEADER_RECORD, Header, decode
from pytest_gpuio.targets.layout import DATA_MULTIPLE, LayoutStopped, Progress, Stop, TargetFile

_PIECE: Final = 8 << 20
#: So many places of a space that is to be reused are read, evenly spread, both ends among them.
SAMPLES: Final = 64
_SAMPLE_BYTES: Final = DATA_MULTIPLE

#: Told once, before the first byte is overwritten, what the space holds.
Announce = Callable[[str], None]


class RawSpace(Protocol):
    """Bytes without a file system. Its ``str`` is what messages call it.

    Attributes:
        path: what cells open.
    """

    path: str

    def read(self, length: int, offset: int) -> bytes | bytearray:
        """Bytes as they lie on the medium; fewer at the end.

        Raises:
            TargetError, EngineError: it cannot be read.
        """

    def write(self, content: memoryview, offset: int) -> None:
        """All of it; the memory begins at a page.

        Raises:
            OSError, EngineError: it cannot be written.
        """

    def flush(self) -> None:
        """What was written is durable afterwards.

        Raises:
            OSError, EngineError: it is not.
        """


@dataclass(frozen=True, slots=True)
class FoundContent:
    """A raw space that is read as it is.

    Attributes:
        path: what cells open.
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


def data_region(data_bytes: int) -> int:
    """The length of the data region for so many bytes.

    Raises:
        ConfigError: none are asked for.
    """
    if data_bytes <= 0:
        raise ConfigError(f"a target of {data_bytes} bytes: the size must be above zero (--gpuio-size).")
    return round_up(data_bytes, DATA_MULTIPLE)


def check_room(space: object, size: int, wanted: int) -> None:
    """Refuses a space of ``size`` bytes that is too small for our header and ``wanted`` bytes.

    Raises:
        ConfigError: it is.
    """
    if HEADER_BYTES + wanted > size:
        most = max(size - HEADER_BYTES, 0) // DATA_MULTIPLE * DATA_MULTIPLE
        remedy = f"use --gpuio-size={most >> 10}K or less" if most else "name another --gpuio-target"
        raise ConfigError(
            f"{space} has {size:,} bytes, and {describe_size(wanted)} of data with a header of {HEADER_BYTES:,} bytes "
            f"need {HEADER_BYTES + wanted:,}: {remedy}."
        )


def check_readable(space: object, size: int, wanted: int) -> None:
    """Refuses a space of ``size`` bytes of which ``wanted`` are to be read.

    Raises:
        ConfigError: it is too small.
    """
    if wanted > size:
        raise ConfigError(
            f"{space} has {size:,} bytes, and {describe_size(wanted)} are to be read: use "
            f"--gpuio-size={size // DATA_MULTIPLE * DATA_MULTIPLE >> 10}K or less."
        )


def header_in(head: bytes | bytearray, path: str) -> Header | None:
    """Our header in the first bytes of a space; None where there is none, or a damaged one."""
    try:
        return decode(bytes(head[:HEADER_RECORD]), path)
    except TargetError:  # damaged: nothing proves what follows it, and overwriting was allowed
        return None


def covers(header: Header | None, data_bytes: int) -> TypeGuard[Header]:
    """Whether there is a complete layout of ours with so many bytes, if its data is still there."""
    return header is not None and header.state == "complete" and header.data_bytes >= data_bytes


def first_changed(space: RawSpace, header: Header, length: int) -> int | None:
    """Offset of the first sampled place, of ``length`` bytes of data, that lost the pattern; None when none did."""
    for place in _sampled(length // _SAMPLE_BYTES):
        offset = HEADER_BYTES + place * _SAMPLE_BYTES
        found = space.read(_SAMPLE_BYTES, offset)
        if len(found) < _SAMPLE_BYTES:
            return offset + len(found)
        bad, first = engine.pattern_check(found, offset, header.pattern_seed)
        if bad:
            return first
    return None


def intact(space: RawSpace, header: Header | None, data_bytes: int, length: int | None = None) -> TargetFile | None:
    """Our layout as it was found, if it has so many bytes and its data is still there; None if not.

    Args:
        space: where it was found.
        header: in front of it.
        data_bytes: wanted.
        length: bytes of data within reach of ``space``; None = all.
    """
    if not covers(header, data_bytes):
        return None
    length = header.data_bytes if length is None else length
    if first_changed(space, header, length) is not None:
        return None
    return TargetFile(space.path, HEADER_BYTES, length, header.pattern_seed, reused=True)


def zero_share(space: RawSpace, length: int) -> float:
    """Of sampled places in the first ``length`` bytes, those that hold only zeros; 0 to 1."""
    chosen = _sampled(length // _SAMPLE_BYTES)
    return sum(not any(space.read(_SAMPLE_BYTES, place * _SAMPLE_BYTES)) for place in chosen) / len(chosen)


def _sampled(places: int) -> list[int]:
    return sorted({index * (places - 1) // (SAMPLES - 1) for index in range(SAMPLES)})


def write_layout(space: RawSpace, wanted: int, progress: Progress | None, stop: Stop | None) -> TargetFile:
    """Our header and ``wanted`` bytes of a new pattern; the header says until the end that it is not complete.

    Raises:
        LayoutStopped: ``stop`` said so. TargetError: an I/O error.
    """
    # 48 random bits: targets never share their content, and any JSON reader keeps the number exact.
    seed = int.from_bytes(os.urandom(6), "big")
    created = datetime.now(UTC).isoformat(timespec="seconds")
    done = 0
    with mmap.mmap(-1, _PIECE) as buffer, memoryview(buffer) as piece:

        def put(header: Header, size: int) -> None:
            with piece[:size] as part:
                part[:] = header.encode().ljust(size, b"\0")
                space.write(part, 0)
            space.flush()

        try:
            # The whole of the header's room: marks of what was there before must not outlive it.
            put(Header("laying_out", wanted, seed, created), HEADER_BYTES)
            while done < wanted:
                if stop is not None and stop():
                    raise LayoutStopped(
                        f"laying out {space} was stopped after {done:,} of {wanted:,} bytes: what it held there is "
                        f"gone, and the next run begins anew."
                    )
                with piece[: min(_PIECE, wanted - done)] as part:
                    engine.pattern_fill(part, HEADER_BYTES + done, seed)
                    space.write(part, HEADER_BYTES + done)
                    done += len(part)
                if progress is not None:
                    progress(done, wanted)
            space.flush()
            put(Header("complete", wanted, seed, created), HEADER_RECORD)
        except OSError as error:
            raise TargetError(
                f"laying out {space} failed after {done:,} of {wanted:,} bytes: {errno_text(error.errno or 0)}: see "
                f"the kernel's log, or name another --gpuio-target."
            ) from error
    return TargetFile(space.path, HEADER_BYTES, wanted, seed, reused=False)
