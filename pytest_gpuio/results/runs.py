"""Finished runs read back: pytest-benchmark JSON with our records, our results files, and journals."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

from pytest_gpuio.core.errors import ConfigError
from pytest_gpuio.results import fio_import, journal, strict_json
from pytest_gpuio.results.run_file import KIND

_FATES: Final = ("cell", "void", "skip", "failure")
_EPOCH: Final = datetime.fromtimestamp(0, UTC)


@dataclass(frozen=True, slots=True)
class RunFile:
    """One run, which is one pytest process.

    Attributes:
        path: where it was read from.
        created: when it was written, aware.
        machine: fingerprint of the host; empty when the file does not say.
        cells: records of measured cells by case.
        voids: impossible results by case, each with ``gate`` and ``reason``.
        skips: reasons by case, of cells the machine or target could not run.
        failures: reasons by case.
        interrupted: it ended before its last cell.
    """

    path: str
    created: datetime
    machine: Mapping[str, Any]
    cells: Mapping[str, Mapping[str, Any]]
    voids: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    skips: Mapping[str, str] = field(default_factory=dict)
    failures: Mapping[str, str] = field(default_factory=dict)
    interrupted: bool = False

    @property
    def machine_id(self) -> str:
        """Fingerprint id of the host; ``unknown`` when the file does not say."""
        return str(self.machine.get("id") or "unknown")


def read_run(path: str | os.PathLike[str]) -> RunFile:
    """A run from a file of any of the three kinds, told by its content.

    Raises:
        GpuioError: it cannot be read, or a journal line is corrupt.
        ConfigError: none of the three, or without any record of ours.
    """
    name = os.fspath(path)
    if name.endswith(".jsonl"):
        return _from_journal(name)
    content = strict_json.read(name)
    if isinstance(content, dict) and content.get("kind") in (KIND, fio_import.KIND):
        return _from_block(name, content, content.get("cells", []))
    if isinstance(content, dict) and isinstance(content.get("benchmarks"), list):
        return _from_benchmarks(name, content)
    raise ConfigError(
        f"{name} is no run: give what --benchmark-json or --benchmark-save wrote, gpuio-results.json, or a journal."
    )


def read_runs(paths: Iterable[str | os.PathLike[str]]) -> list[RunFile]:
    """Runs of files and of folders (a pytest-benchmark storage: every ``*.json`` below), oldest first.

    Files of a folder that hold no record of ours are passed over; a file named itself must hold some.

    Raises:
        ConfigError: a path that does not exist, a folder without runs, a run named twice.
        GpuioError: as :func:`read_run`.
    """
    runs: dict[str, RunFile] = {}
    for path in paths:
        place = Path(path)
        if place.is_dir():
            found = [run for file in sorted(place.rglob("*.json")) if (run := _if_ours(file)) is not None]
            if not found:
                raise ConfigError(f"folder {place} holds no run with gpuio cells.")
        elif place.exists():
            found = [read_run(place)]
        else:
            raise ConfigError(f"{place} does not exist.")
        for run in found:
            key = os.path.realpath(run.path)
            if key in runs:
                raise ConfigError(f"run {run.path} is named twice.")
            runs[key] = run
    return sorted(runs.values(), key=lambda run: run.created)


def newest(runs: Iterable[RunFile]) -> dict[tuple[str, str], Mapping[str, Any]]:
    """The newest record of each case, by machine and case: cases of two machines never hide each other.

    Args:
        runs: oldest first.
    """
    found: dict[tuple[str, str], Mapping[str, Any]] = {}
    for run in runs:
        found.update({(run.machine_id, case): record for case, record in run.cells.items()})
    return found


def _if_ours(path: Path) -> RunFile | None:
    try:
        return read_run(path)
    except ConfigError:
        return None


def _from_benchmarks(name: str, content: Mapping[str, Any]) -> RunFile:
    cells = [
        record
        for bench in content["benchmarks"]
        if isinstance(bench, dict) and isinstance(record := (bench.get("extra_info") or {}).get("gpuio"), dict)
    ]
    block = content.get("gpuio")
    if not cells and not isinstance(block, dict):
        raise ConfigError(f"{name} holds no gpuio cell: it is a run of other benchmarks.")
    told = block if isinstance(block, dict) else {}
    info = (content.get("machine_info") or {}).get("gpuio") or {}
    machine = told.get("machine") or info.get("machine") or {}
    return _from_block(name, {"created": content.get("datetime"), **told, "machine": machine}, cells)


def _from_journal(name: str) -> RunFile:
    """A run cut off, or the series of a sweep that was written last: there a cell's newest record counts."""
    start: Mapping[str, Any] = {}
    key, complete = "", False
    # By series; cells of a sweep are known by keys, so that none is there twice.
    bodies: dict[str, dict[str, list[Any]]] = {}
    newest: dict[str, dict[str, int]] = {}
    for line in journal.scan(name):
        if line.kind == "start":
            start, key, complete = line.own_body(), line.key, False
        complete = complete or (line.kind == "end" and line.own_body().get("reason", "complete") == "complete")
        if line.kind not in _FATES:
            continue
        body, kinds = line.own_body(), bodies.setdefault(key, {kind: [] for kind in _FATES})
        if line.kind == "cell":
            places = newest.setdefault(key, {})
            place = places.setdefault(str(body.get("case")), len(kinds["cell"]))
            if line.key and place < len(kinds["cell"]):
                kinds["cell"][place] = body
                continue
        kinds[line.kind].append(body)
    kinds = bodies.get(key, {})
    block = {
        "created": start.get("created"),
        "machine": start.get("machine") or {},
        "voids": [body for body in kinds.get("void", []) if body["case"] not in newest.get(key, {})],
        "skips": kinds.get("skip", []),
        "failures": [body for body in kinds.get("failure", []) if body["case"] not in newest.get(key, {})],
        "interrupted": not complete,
    }
    return _from_block(name, block, kinds.get("cell", []))


def _from_block(name: str, block: Mapping[str, Any], cells: Iterable[Any]) -> RunFile:
    records: dict[str, Mapping[str, Any]] = {}
    for record in cells:
        case = record.get("case") if isinstance(record, dict) else None
        if not isinstance(case, str):
            raise ConfigError(f"{name}: a cell without a case: not written by this plugin (gpuio validate tells more).")
        if case in records:
            raise ConfigError(f"{name}: case {case} is there twice: one run measures a case once.")
        records[case] = record
    return RunFile(
        path=name,
        created=_time(block.get("created")),
        machine=block.get("machine") or {},
        cells=records,
        voids={void["case"]: void for void in block.get("voids") or [] if void.get("case")},
        skips={skip["case"]: skip["reason"] for skip in block.get("skips") or [] if skip.get("case")},
        failures={failure["case"]: failure["reason"] for failure in block.get("failures") or [] if failure.get("case")},
        interrupted=bool(block.get("interrupted")),
    )


def _time(text: Any) -> datetime:
    try:
        time = datetime.fromisoformat(str(text))
    except ValueError:
        return _EPOCH
    return time if time.tzinfo is not None else time.replace(tzinfo=UTC)
