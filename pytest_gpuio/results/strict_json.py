"""JSON without the extensions of Python's json module: no NaN, no infinities, no duplicate keys."""

from __future__ import annotations

import json
import math
import os
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from pytest_gpuio.core.errors import GpuioError

_TOKEN: Final = re.compile(
    r'"(?:[^"\\]|\\.)*"|[{}\[\]:,]|NaN|-?Infinity|-?\d+(?:\.\d+)?(?:[eE][+-]?\d+)?', re.DOTALL | re.ASCII
)

#: Digits of a whole number; no field of ours needs more, and Python refuses very long ones with a bare ValueError.
_LONGEST_INT: Final = 40


class JsonError(GpuioError):
    """A text that is not strict JSON, or a value that cannot be written as such."""


def dumps(value: object, *, indent: int | None = None, what: str = "value") -> str:
    """JSON text, ASCII only, without blanks when ``indent`` is None.

    Raises:
        JsonError: a NaN or infinity (the text names where), or an object that JSON does not have.
    """
    separators = (",", ":") if indent is None else None
    try:
        return json.dumps(value, allow_nan=False, indent=indent, separators=separators)
    except (ValueError, TypeError, RecursionError) as error:
        try:
            place = _find_unwritable(value, what) or what
        except RecursionError:
            place = what
        raise JsonError(f"{place} cannot be written as JSON: {error}.") from error


def loads(text: str, *, source: str) -> Any:
    """The value of a JSON text.

    Args:
        text: the whole document.
        source: file name for messages.

    Raises:
        JsonError: not JSON, or a NaN, infinity, number out of range, or duplicate key; with line and column.
    """
    try:
        return json.loads(
            text, parse_constant=_refuse, parse_float=_finite, parse_int=_whole, object_pairs_hook=_without_duplicates
        )
    except json.JSONDecodeError as error:
        raise JsonError(f"{source}:{error.lineno}:{error.colno}: not JSON: {error.msg}.") from None
    except RecursionError:
        raise JsonError(f"{source}: nested too deeply to be one of our files.") from None
    except _RefusedError:
        position, problem = _locate(text)
        line = text.count("\n", 0, position) + 1
        column = position - text.rfind("\n", 0, position)
        raise JsonError(f"{source}:{line}:{column}: {problem}.") from None


def read(path: str | os.PathLike[str]) -> Any:
    """The value of a JSON file (UTF-8).

    Raises:
        JsonError: as :func:`loads`, or not UTF-8.
        GpuioError: the file cannot be read.
    """
    source = os.fspath(path)
    try:
        raw = Path(path).read_bytes()
    except OSError as error:
        raise GpuioError(f"{source} cannot be read: {error.strerror or error}.") from None
    try:
        text = raw.decode("utf-8")
    except UnicodeDecodeError as error:
        raise JsonError(f"{source}: byte {error.start} is not UTF-8: not a JSON file.") from None
    return loads(text, source=source)


class _RefusedError(Exception):
    """Valid for Python's json, not for us; the position is looked up afterwards."""


def _refuse(_: str) -> Any:
    raise _RefusedError


def _finite(text: str) -> float:
    value = float(text)
    if math.isinf(value):
        raise _RefusedError
    return value


def _whole(text: str) -> int:
    if len(text) > _LONGEST_INT:
        raise _RefusedError
    return int(text)


def _without_duplicates(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    result = dict(pairs)
    if len(result) != len(pairs):
        raise _RefusedError
    return result


def _locate(text: str) -> tuple[int, str]:
    """Position and description of the first refused token of a text that is JSON otherwise."""
    seen: list[set[str] | None] = []  # keys of each open object; None for an open array
    key: tuple[int, str] | None = None
    for match in _TOKEN.finditer(text):
        token = match[0]
        if token == "{":
            seen.append(set())
        elif token == "[":
            seen.append(None)
        elif token in "}]":
            seen.pop()
        elif token == ":" and key is not None and seen and (keys := seen[-1]) is not None:
            if key[1] in keys:
                return key[0], f"duplicate key {key[1]!r}"
            keys.add(key[1])
        elif token[0] == '"':
            key = match.start(), json.loads(token, strict=False)
            continue
        elif token in ("NaN", "Infinity", "-Infinity"):
            return match.start(), f"{token} is not JSON"
        elif token not in ":," and _out_of_range(token):
            return match.start(), f"number {token[:20]}... is out of range"
        key = None
    return 0, "not strict JSON"


def _out_of_range(number: str) -> bool:
    whole = number.lstrip("-").isdigit()
    return len(number) > _LONGEST_INT if whole else math.isinf(float(number))


def _find_unwritable(value: object, place: str) -> str | None:
    """Where the first value that JSON does not have sits: ``record.cpu.seconds``."""
    if isinstance(value, Mapping):
        found = (_find_unwritable(item, f"{place}.{key}") for key, item in value.items())
        return next((hit for hit in found if hit), None)
    if isinstance(value, (list, tuple)):
        found = (_find_unwritable(item, f"{place}[{index}]") for index, item in enumerate(value))
        return next((hit for hit in found if hit), None)
    fine = value is None or isinstance(value, (str, int)) or (isinstance(value, float) and math.isfinite(value))
    return None if fine else place
