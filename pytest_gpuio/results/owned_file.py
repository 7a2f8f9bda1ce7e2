"""JSON files of ours that replace earlier ones of their kind, and never anything else."""

from __future__ import annotations

import os
import re
import secrets
import stat
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from pytest_gpuio.core.errors import ConfigError, GpuioError
from pytest_gpuio.results import strict_json
from pytest_gpuio.results.journal import sync_directory


def check_replaceable(path: str | os.PathLike[str], kind: str, what: str) -> None:
    """Refuses to replace what is not a file of ours of this kind; an empty file counts as ours.

    Args:
        path: the file.
        kind: value of its key ``kind``.
        what: it is called so in messages.

    Raises:
        ConfigError: something else has this name.
        OSError: it cannot be looked at.
    """
    path = Path(path)
    try:
        mode = path.lstat().st_mode
    except FileNotFoundError:
        return
    if stat.S_ISREG(mode):
        with path.open("rb") as file:
            head = file.read(128)
        if not head or _head(kind).match(head):
            return
    raise ConfigError(f"{path} exists and is not a {what}: name another path.")


def write(path: str | os.PathLike[str], content: Mapping[str, Any], *, what: str) -> None:
    """Writes JSON that starts with ``schema`` and ``kind``: whoever reads it sees the old file or the complete new one.

    Args:
        path: the file.
        content: JSON-able; its key ``kind`` says which files may be replaced.
        what: it is called so in messages.

    Raises:
        ConfigError: something that is not such a file has this name; it is left alone.
        JsonError: the content holds a NaN or the like; the old file is left alone.
        GpuioError: it cannot be written.
    """
    text = _text(content, what)
    _write(Path(path), content["kind"], (text, b"\n"), what)


def write_with_list(
    path: str | os.PathLike[str], content: Mapping[str, Any], name: str, values: Iterable[bytes], *, what: str
) -> None:
    """As :func:`write`, with one more key, the last one: a list that need not fit into memory.

    Args:
        path: the file.
        content: JSON-able; its key ``kind`` says which files may be replaced.
        name: of the key.
        values: of the list, each as JSON text without line ends; each gets a line of its own.
        what: it is called so in messages.

    Raises:
        ConfigError, JsonError, GpuioError: as :func:`write`; what ``values`` raises. The old file is left alone then.
    """
    text = _text(content, what)
    _write(Path(path), content["kind"], _with_list(text, name, values), what)


def _text(content: Mapping[str, Any], what: str) -> bytes:
    kind = content["kind"]
    text = strict_json.dumps(content, indent=1, what=kind).encode("ascii")
    if not _head(kind).match(text):
        raise ValueError(f"a {what} must start with its schema and kind, or the next run would refuse to replace it")
    return text


def _write(path: Path, kind: str, pieces: Iterable[bytes], what: str) -> None:
    try:
        check_replaceable(path, kind, what)
        _replace(path, pieces)
    except OSError as error:
        raise GpuioError(f"{what.removeprefix('gpuio ')} {path} cannot be written: {error.strerror}.") from error


def _with_list(text: bytes, name: str, values: Iterable[bytes]) -> Iterable[bytes]:
    yield b'%b,\n "%b": [' % (text.removesuffix(b"\n}"), name.encode("ascii"))
    between = b"\n  "
    for value in values:
        yield between
        yield value
        between = b",\n  "
    yield b"\n ]\n}\n" if between != b"\n  " else b"]\n}\n"


def _head(kind: str) -> re.Pattern[bytes]:
    return re.compile(rb'\{\s*"schema":\s*\d+,\s*"kind":\s*"' + re.escape(kind.encode()) + rb'"')


def _replace(path: Path, pieces: Iterable[bytes]) -> None:
    temporary = path.with_name(f".{path.name}.{secrets.token_hex(4)}.tmp")
    fd = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC | os.O_NOFOLLOW, 0o666)
    try:
        with os.fdopen(fd, "wb") as file:
            file.writelines(pieces)
            file.flush()
            os.fsync(file.fileno())
        temporary.replace(path)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise
    sync_directory(path.parent)
