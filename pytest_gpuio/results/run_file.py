"""The results file of a run, and the block that goes into pytest-benchmark's JSON."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any, Final, Literal, TypedDict

from pytest_gpuio import __version__
from pytest_gpuio.results import owned_file, strict_json
from pytest_gpuio.results.record import SCHEMA, CellRecord

KIND: Final = "gpuio-results"


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


class Start(TypedDict):
    """What is known of a run when it begins: the first line of its journal."""

    schema: int
    kind: Literal["gpuio-results"]
    gpuio_version: str
    created: str
    machine: dict[str, Any]
    settings: dict[str, Any]


class Block(Start):
    """Everything about a run except its cells."""

    interrupted: bool
    voids: list[Void]
    skips: list[Skip]
    failures: list[Failure]


class Results(Block):
    """A whole run."""

    cells: list[CellRecord]


def start(*, machine: Mapping[str, Any], settings: Mapping[str, Any], created: datetime | None = None) -> Start:
    """The first line of a run's journal.

    Args:
        machine: fingerprint of the host.
        settings: options in effect.
        created: aware; now by default.
    """
    return {
        "schema": SCHEMA,
        "kind": KIND,
        "gpuio_version": __version__,
        "created": (created or datetime.now(UTC)).astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ"),
        "machine": dict(machine),
        "settings": dict(settings),
    }


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
        **start(machine=machine, settings=settings, created=created),
        "interrupted": interrupted,
        "voids": list(voids),
        "skips": list(skips),
        "failures": list(failures),
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
    block = {name: value for name, value in content.items() if name != "cells"}
    write_cells(path, block, (strict_json.dumps(cell, what="cell").encode("ascii") for cell in content["cells"]))


def write_cells(path: str | os.PathLike[str], block: Mapping[str, Any], cells: Iterable[bytes]) -> None:
    """As :func:`write_results`, for cells that need not fit into memory.

    Args:
        path: the file.
        block: the run's :class:`Block`.
        cells: each :class:`~pytest_gpuio.results.record.CellRecord` as JSON text, as journals hold it.

    Raises:
        ConfigError, JsonError, GpuioError: as :func:`write_results`; what ``cells`` raises.
    """
    owned_file.write_with_list(path, block, "cells", cells, what="gpuio results file")
