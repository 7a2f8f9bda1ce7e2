"""The results file of a run, and the block that goes into pytest-benchmark's JSON."""

from __future__ import annotations

import os
import re
import secrets
import stat
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final, Literal, TypedDict

from pytest_gpuio import __version__
from pytest_gpuio.core.errors import ConfigError, GpuioError
from pytest_gpuio.results import strict_json
from pytest_gpuio.results.journal import sync_directory
from pytest_gpuio.results.record import SCHEMA, CellRecord

KIND: Final = "gpuio-results"
#: How every file of this kind begins, in any version; nothing else is ever replaced.
_HEAD: Final = re.compile(rb'\{\s*"schema":\s*\d+,\s*"kind":\s*"gpuio-results"')


class Void(TypedDict):
    """A cell whose result cannot be true: the gate that found it, why, and the evidence in sentences."""

    case: str
    axes: dict[str, str | int]
    gate: str
    reason: str
    evidence: list[str]


class Skip(TypedDict):
    """A cell this machine or target cannot run; ``case`` is null when the item never became a cell."""

    nodeid: str
    case: str | None
    reason: str


class Failure(TypedDict):
    """A cell that ended in an error other than a void."""

    nodeid: str
    case: str | None
    reason: str


class Block(TypedDict):
    """Everything about a run except its cells."""

    schema: int
    kind: Literal["gpuio-results"]
    gpuio_version: str
    created: str
    interrupted: bool
    machine: dict[str, Any]
    voids: list[Void]
    skips: list[Skip]
    failures: list[Failure]
    settings: dict[str, Any]


class Results(Block):
    """A whole run."""

    cells: list[CellRecord]


def benchmark_block(
    *,
    interrupted: bool,
    machine: Mapping[str, Any],
    voids: Sequence[Void] = (),
    skips: Sequence[Skip] = (),
    failures: Sequence[Failure] = (),
    settings: Mapping[str, Any],
    created: datetime | None = None,
) -> Block:
    """The top-level ``gpuio`` block of pytest-benchmark's JSON.

    Args:
        interrupted: the run was ended before its last cell.
        machine: fingerprint of the host.
        voids: impossible results.
        skips: cells that could not run here.
        failures: other errors.
        settings: options in effect.
        created: aware; now by default.
    """
    return {
        "schema": SCHEMA,
        "kind": KIND,
        "gpuio_version": __version__,
        "created": (created or datetime.now(UTC)).astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ"),
        "interrupted": interrupted,
        "machine": dict(machine),
        "voids": list(voids),
        "skips": list(skips),
        "failures": list(failures),
        "settings": dict(settings),
    }


def results(block: Block, cells: Sequence[CellRecord]) -> Results:
    """The content of a results file: the block of a run and its measured cells."""
    return {**block, "cells": list(cells)}


def write_results(path: str | os.PathLike[str], content: Results) -> None:
    """Writes ``gpuio-results.json``: whoever reads it sees the old file or the complete new one.

    Raises:
        ConfigError: something that is not a results file of ours has this name; it is left alone.
        JsonError: the content holds a NaN or the like; the old file is left alone.
        GpuioError: it cannot be written.
    """
    path = Path(path)
    text = (strict_json.dumps(content, indent=1, what="results") + "\n").encode("ascii")
    if not _HEAD.match(text):
        raise ValueError("results start with their schema and kind, or the next run would refuse to replace the file")
    try:
        _refuse_foreign(path)
        _replace(path, text)
    except OSError as error:
        raise GpuioError(f"results file {path} cannot be written: {error.strerror}.") from error


def _refuse_foreign(path: Path) -> None:
    try:
        mode = path.lstat().st_mode
    except FileNotFoundError:
        return
    if stat.S_ISREG(mode):
        with path.open("rb") as file:
            head = file.read(128)
        if not head or _HEAD.match(head):
            return
    raise ConfigError(f"{path} exists and is not a gpuio results file: name another path.")


def _replace(path: Path, text: bytes) -> None:
    temporary = path.with_name(f".{path.name}.{secrets.token_hex(4)}.tmp")
    fd = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC | os.O_NOFOLLOW, 0o666)
    try:
        with os.fdopen(fd, "wb") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        temporary.replace(path)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise
    sync_directory(path.parent)
