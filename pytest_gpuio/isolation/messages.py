"""The lines of JSON that a parent and its measuring child exchange over pipes."""

from __future__ import annotations

import json
import math

from pytest_gpuio.core.errors import GpuioError

TYPE_CHECKING = False  # typing's import would cost a child's start 4 ms
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any, Final

#: Longest line in bytes, newline included. A histogram is one string of some 10 KB, so this is a guard and no limit.
MAX_LINE: Final = 16 * 1024 * 1024


class MessageError(GpuioError):
    """Something that cannot be sent as a message, or bytes that are none."""


def encode(message: Mapping[str, Any], *, limit: int = MAX_LINE) -> bytes:
    """One line of ASCII JSON with its newline.

    Raises:
        MessageError: a value has no JSON form (NaN and infinities have none), or the line is over ``limit`` bytes.
    """
    try:
        text = json.dumps(message, allow_nan=False, separators=(",", ":"))
    except (TypeError, ValueError, RecursionError) as error:
        raise MessageError(f"a message cannot be written as JSON: {error}.") from error
    if len(text) >= limit:
        raise MessageError(f"a message of {len(text) + 1:,} bytes is over the limit of {limit:,} bytes.")
    return text.encode("ascii") + b"\n"


def decode(line: bytes) -> dict[str, Any]:
    """The JSON object of one line without its newline.

    Raises:
        MessageError: not UTF-8, not JSON (NaN, infinities and numbers that overflow included), or not an object.
    """
    try:
        message = json.loads(line.decode("utf-8"), parse_constant=_refuse, parse_float=_finite)
    except (ValueError, RecursionError) as error:
        raise MessageError(f"a line is not JSON ({error}): {_quote(line)}") from error
    if not isinstance(message, dict):
        raise MessageError(f"a line is not a JSON object: {_quote(line)}")
    return message


class LineBuffer:
    """Cuts the bytes of a pipe into lines.

    Args:
        limit: longest line in bytes, newline included.
    """

    def __init__(self, limit: int = MAX_LINE) -> None:
        self._limit = limit
        self._data = bytearray()
        self._scanned = 0

    @property
    def pending(self) -> int:
        """Bytes of a line whose newline has not come; above zero at end-of-file means a torn line."""
        return len(self._data)

    def feed(self, data: bytes) -> None:
        """Appends what was read."""
        self._data += data

    def pop(self) -> bytes | None:
        """The next whole line without its newline, None when there is none yet.

        Raises:
            MessageError: the line is longer than the limit; the buffer is of no use after that.
        """
        end = self._data.find(b"\n", self._scanned)
        if (end if end >= 0 else len(self._data)) >= self._limit:
            raise MessageError(f"a line is over the limit of {self._limit:,} bytes: {_quote(bytes(self._data[:100]))}")
        if end < 0:
            self._scanned = len(self._data)
            return None
        line = bytes(memoryview(self._data)[:end])
        del self._data[: end + 1]
        self._scanned = 0
        return line


def request(number: int, op: str, params: Mapping[str, Any]) -> dict[str, Any]:
    """What a parent asks: run the handler of ``op`` with ``params``."""
    return {"id": number, "op": op, "params": params}


def event(number: int, name: str, data: Mapping[str, Any]) -> dict[str, Any]:
    """What a child says while it works on request ``number``."""
    return {"id": number, "event": name, "data": data}


def reply(number: int, result: Any) -> dict[str, Any]:
    """The good end of request ``number``."""
    return {"id": number, "ok": True, "result": result}


def refusal(number: int, error: Mapping[str, Any]) -> dict[str, Any]:
    """The bad end of request ``number``; ``error`` comes from :mod:`pytest_gpuio.isolation.failures`."""
    return {"id": number, "ok": False, "error": error}


def _refuse(constant: str) -> float:
    raise ValueError(f"{constant} is not JSON")


def _finite(digits: str) -> float:
    value = float(digits)
    if not math.isfinite(value):
        raise ValueError(f"{digits} overflows a double")
    return value


def _quote(line: bytes, limit: int = 100) -> str:
    return f"{line[:limit]!r}{'...' if len(line) > limit else ''}"
