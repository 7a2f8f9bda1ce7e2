"""The header that proves that a file is ours to overwrite, and says what it holds."""

from __future__ import annotations

import json
import os
import zlib
from dataclasses import dataclass
from typing import Final, Literal

from pytest_gpuio.core.errors import TargetError

#: Data begins here; the space before it holds the header and zeros, and keeps data aligned to 2 MiB.
HEADER_BYTES: Final = 2 << 20
#: The header itself, padded with zeros.
HEADER_RECORD: Final = 4096
VERSION: Final = 1
_MAGIC: Final = "pytest-gpuio target"
_START: Final = f'{{"magic": "{_MAGIC}"'.encode()

State = Literal["laying_out", "complete"]


@dataclass(frozen=True, slots=True)
class Header:
    """What a target file says about itself.

    Attributes:
        state: ``laying_out`` until every byte of data is on the medium.
        data_bytes: length of the data region.
        pattern_seed: of the data pattern.
        created: UTC time of the laying out, ISO 8601.
        version: of the header's format and of the pattern.
    """

    state: State
    data_bytes: int
    pattern_seed: int
    created: str
    version: int = VERSION

    def encode(self) -> bytes:
        """The record of :data:`HEADER_RECORD` bytes. The text fits in one 512-byte sector, so it cannot be torn."""
        fields = {
            "magic": _MAGIC,
            "version": self.version,
            "state": self.state,
            "data_bytes": self.data_bytes,
            "pattern_seed": self.pattern_seed,
            "created": self.created,
        }
        return json.dumps(fields | {"checksum": _checksum(fields)}).encode().ljust(HEADER_RECORD, b"\0")


def decode(record: bytes, path: str) -> Header | None:
    """The header in a file's first :data:`HEADER_RECORD` bytes; None when the file is not ours.

    A header of another version proves that the file is ours but promises nothing about its data: it reads as
    ``laying_out`` with no data.

    Args:
        record: the bytes; may be shorter than the record when the file is.
        path: for messages.

    Raises:
        TargetError: it begins like ours, but is damaged, so that nothing proves whose the file is.
    """
    if not record.startswith(_START):
        return None
    damaged = TargetError(
        f"{path} begins like a gpuio target, but its header is damaged: if you do not need the file, remove it."
    )
    try:
        fields = json.loads(record.rstrip(b"\0"))
        checksum = fields.pop("checksum")
    except (ValueError, KeyError) as error:
        raise damaged from error
    if checksum != _checksum(fields):
        raise damaged
    if fields.get("version") != VERSION:
        return Header("laying_out", 0, 0, "", version=0)
    try:
        state: State = "complete" if fields["state"] == "complete" else "laying_out"
        return Header(state, int(fields["data_bytes"]), int(fields["pattern_seed"]), str(fields["created"]))
    except (KeyError, TypeError, ValueError) as error:
        raise damaged from error


def read_header(fd: int, path: str) -> Header | None:
    """The header of an open file; see :func:`decode`.

    Raises:
        TargetError: damaged header.
    """
    return decode(os.pread(fd, HEADER_RECORD, 0), path)


def _checksum(fields: dict[str, object]) -> str:
    return f"{zlib.crc32(json.dumps(fields, sort_keys=True).encode()):08x}"
