"""Text files that never replace anything: whole, or not there."""

from __future__ import annotations

import os
import secrets
from collections.abc import Iterable
from itertools import islice
from pathlib import Path
from typing import Final

from pytest_gpuio.core.errors import ConfigError, GpuioError
from pytest_gpuio.results.journal import sync_directory

_AT_ONCE: Final = 10_000


def check_new(path: str | os.PathLike[str]) -> None:
    """Refuses a name that is taken.

    Raises:
        ConfigError: something has this name already.
    """
    if os.path.lexists(path):
        raise ConfigError(f"{path} exists: name another path, or remove it first. Nothing is ever replaced.")


def write_lines(path: str | os.PathLike[str], lines: Iterable[str]) -> tuple[int, int]:
    """Writes lines into a new file, which appears when it is complete.

    Args:
        path: of the file.
        lines: without their ends.

    Returns:
        Lines and bytes.

    Raises:
        ConfigError: something has this name already; it is left alone.
        GpuioError: it cannot be written.
    """
    path = Path(path)
    check_new(path)
    temporary = path.with_name(f".{path.name}.{secrets.token_hex(4)}.tmp")
    count = 0
    rows = iter(lines)
    try:
        fd = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC | os.O_NOFOLLOW, 0o666)
        try:
            with os.fdopen(fd, "w", encoding="utf-8", newline="\n") as file:
                while part := list(islice(rows, _AT_ONCE)):
                    file.write("".join(f"{line}\n" for line in part))
                    count += len(part)
                file.flush()
                os.fsync(file.fileno())
                size = file.tell()
            # A link fails where a rename would replace what came in the meantime.
            os.link(temporary, path)
        finally:
            temporary.unlink(missing_ok=True)
        sync_directory(path.parent)
    except FileExistsError:
        check_new(path)
        raise
    except OSError as error:
        raise GpuioError(f"{path} cannot be written: {error.strerror}.") from error
    return count, size
