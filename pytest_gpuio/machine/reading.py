"""Single values from /proc and /sys; what cannot be read is None, never an error."""

from __future__ import annotations

import re
from pathlib import Path


def slurp(path: str) -> str | None:
    """Content of a file of ``/proc`` or ``/sys`` as it stands; None when it cannot be read.

    For what is read at every cell: without a text file's layers it costs a third.
    """
    try:
        with open(path, "rb", buffering=0) as file:  # noqa: PTH123 - a Path would double the cost
            return file.read().decode(errors="replace")
    except OSError:
        return None


def read_text(path: Path) -> str | None:
    """Content without surrounding blanks; None when it cannot be read or is empty."""
    try:
        return path.read_text(errors="replace").strip("\0 \t\r\n") or None
    except OSError:
        return None


def read_int(path: Path) -> int | None:
    """Content as a whole number; None when it cannot be read or is something else."""
    text = read_text(path)
    try:
        return int(text) if text is not None else None
    except ValueError:
        return None


def bracketed(text: str | None) -> str | None:
    """The chosen word of ``always [madvise] never``; None when none is in brackets."""
    match = re.search(r"\[([^\]]+)\]", text or "")
    return match[1] if match else None


def parse_cpu_list(text: str | None) -> tuple[int, ...]:
    """Numbers of a kernel list such as ``0-3,8``; empty when it is not one."""
    numbers: list[int] = []
    for part in (text or "").split(","):
        match = re.fullmatch(r"(\d{1,6})(?:-(\d{1,6}))?", part.strip())
        if match is None:
            return ()
        numbers.extend(range(int(match[1]), int(match[2] or match[1]) + 1))
    return tuple(numbers)


def value_of(text: str | None, key: str) -> str | None:
    """The first ``key : value`` or ``key: value`` of a /proc file."""
    match = re.search(rf"^{re.escape(key)}[ \t]*:[ \t]*(.+?)[ \t]*$", text or "", re.MULTILINE)
    return match[1] if match else None
