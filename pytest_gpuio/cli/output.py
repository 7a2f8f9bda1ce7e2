"""Where a command's answers go: the terminal, standard output, files the user named, new folders."""

from __future__ import annotations

import os
import shutil
import sys
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from pytest_gpuio.core.errors import ConfigError
from pytest_gpuio.results import strict_json


def terminal() -> tuple[int, bool]:
    """Columns of the terminal (at least 80), and whether it shows colours."""
    return max(80, shutil.get_terminal_size((120, 24)).columns), sys.stdout.isatty() and "NO_COLOR" not in os.environ


def put(path: str, text: str, mode: str) -> None:
    """Writes a file the user named; ``-`` is standard output.

    Raises:
        ConfigError: it cannot be written.
    """
    if path == "-":
        sys.stdout.write(text)
        return
    try:
        with Path(path).open(mode, encoding="utf-8") as out:
            out.write(text)
    except OSError as error:
        raise ConfigError(f"{path} cannot be written: {error.strerror}.") from None


def put_json(path: str, content: Mapping[str, Any]) -> None:
    """Writes JSON where ``--json`` says; ``-`` is standard output.

    Raises:
        ConfigError: the file cannot be written.
    """
    put(path, strict_json.dumps(content, indent=1) + "\n", "w")


def progress() -> Callable[[str], None]:
    """Takes a line at a time and tells it on standard error, with the seconds since now."""
    begun = time.monotonic()

    def tell(line: str) -> None:
        sys.stderr.write(f"[{time.monotonic() - begun:6.0f} s] {line}\n")
        sys.stderr.flush()

    return tell


def new_folder(name: str | None, what: str) -> Path:
    """A new or empty folder for a command's runs and logs.

    Args:
        name: as the user gave it; None = one named by command and time.
        what: the command.

    Raises:
        ConfigError: it is not empty or cannot be made.
    """
    folder = Path(name or time.strftime(f"gpuio-{what}-%Y%m%d-%H%M%S")).absolute()
    try:
        folder.mkdir(parents=True, exist_ok=True)
        if any(folder.iterdir()):
            raise ConfigError(f"{folder} is not empty: name a new folder with --out.")
    except OSError as error:
        raise ConfigError(f"{folder} cannot be used: {os.strerror(error.errno or 0)}.") from None
    return folder
