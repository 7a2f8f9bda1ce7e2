"""Journals of a plan's shards as one journal, unless they contradict one another."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from pytest_gpuio.core.errors import ConfigError
from pytest_gpuio.machine import describe
from pytest_gpuio.results import journal
from pytest_gpuio.results.run_file import start
from pytest_gpuio.sweep.export import Series, choose, read_series
from pytest_gpuio.sweep.identity import changes, series_of

#: What tells hosts apart and may differ between shards: which machine, and which drive of a model.
_OWN: Final = ("id",)
_OWN_OF_TARGET: Final = "which"
#: Conflicts that are shown.
_SHOWN: Final = 5


@dataclass(slots=True)
class Merged:
    """What became of journals.

    Attributes:
        cells, voids, failures, skips: of all shards, each cell once. plan_cells: of the whole plan.
        missing: numbers of shards that no journal holds. unfinished: journals whose run has not ended in order.
        series: id of the merged one.
    """

    cells: int = 0
    voids: int = 0
    failures: int = 0
    skips: int = 0
    plan_cells: int = 0
    missing: list[int] = field(default_factory=list)
    unfinished: list[str] = field(default_factory=list)
    series: str = ""

    @property
    def complete(self) -> bool:
        """Every cell of the plan has a fate."""
        return self.cells + self.voids + self.failures + self.skips >= self.plan_cells


@dataclass(frozen=True, slots=True)
class _Part:
    path: Path
    series: Series

    @property
    def sweep(self) -> Mapping[str, Any]:
        found: Mapping[str, Any] = self.series.start["settings"]["sweep"]
        return found

    @property
    def shard(self) -> Mapping[str, Any]:
        found: Mapping[str, Any] | None = self.sweep["plan"].get("shard")
        if found is None:
            raise ConfigError(f"{self.path} is the journal of a whole plan, not of a shard: there is nothing to merge.")
        return found


def merge(out: str | os.PathLike[str], paths: Sequence[str | os.PathLike[str]], *, mixed: bool = False) -> Merged:
    """Writes a new journal with the newest series of each shard's journal.

    Args:
        out: of the new journal.
        paths: of the shards' journals; they are read only, and may still be written.
        mixed: shards may come from hosts that differ in kernel, versions or devices.

    Raises:
        ConfigError: they are of different plans, two of them hold the same cell, or their hosts differ; the text says
            in what. Nothing is written then. Or ``out`` exists.
        GpuioError: a journal cannot be read, or a line is corrupt.
    """
    if len(paths) < 2:
        raise ConfigError("name at least two journals to merge: gpuio sweep merge OUT SHARD SHARD...")
    parts = [_Part(Path(path), choose(read_series(path), None)) for path in paths]
    _check_plan(parts)
    _check_cells(parts)
    _check_hosts(parts, mixed=mixed)
    found = Merged(plan_cells=int(parts[0].shard["plan_cells"]))
    found.unfinished = [str(part.path) for part in parts if part.series.ended != "complete"]
    identity = {"merged": sorted(part.series.id for part in parts)}
    found.series = series_of(identity)
    with journal.Journal.create(out) as made:
        made.append("start", _start(parts, identity), key=found.series, sync=False)
        for part in parts:
            _copy(part, made, found)
        if not found.complete:
            held = {int(part.shard["number"]) for part in parts}
            found.missing = [number for number in range(1, int(parts[0].shard["of"]) + 1) if number not in held]
        made.append("end", {"reason": "complete" if found.complete else "stopped"})
    return found


def _check_plan(parts: Sequence[_Part]) -> None:
    first = parts[0]
    for part in parts[1:]:
        for name, what in (("of", "shards"), ("digest", "cells")):
            if part.shard[name] != first.shard[name]:
                raise ConfigError(
                    f"{part.path} and {first.path} are not of one plan: {what} {part.shard[name]} and "
                    f"{first.shard[name]}. Every host must expand the same plan to the same cells: compare "
                    "`gpuio sweep plan PLAN --cells`."
                )
    seen: dict[int, _Part] = {}
    for part in parts:
        other = seen.setdefault(int(part.shard["number"]), part)
        if other is not part:
            raise ConfigError(
                f"{part.path} and {other.path} both hold shard {part.shard['number']}/{part.shard['of']}: "
                "merge one of them."
            )


def _check_cells(parts: Sequence[_Part]) -> None:
    """Shards are disjoint, so a cell in two of them is a sign that something was renamed or mixed up."""
    seen: dict[str, _Part] = {}
    twice = []
    for part in parts:
        for case in (*part.series.lines, *part.series.fates):
            other = seen.setdefault(case, part)
            if other is not part:
                twice.append(f"{case} ({other.path} and {part.path})")
    if twice:
        more = f" and {len(twice) - _SHOWN} more" if len(twice) > _SHOWN else ""
        raise ConfigError(f"{len(twice)} cells are in two journals: {'; '.join(twice[:_SHOWN])}{more}.")


def _check_hosts(parts: Sequence[_Part], *, mixed: bool) -> None:
    first = parts[0]
    for part in parts[1:]:
        differ = changes(_comparable(first.sweep["identity"]), _comparable(part.sweep["identity"]))
        if differ and not mixed:
            raise ConfigError(
                f"{part.path} comes from another kind of host than {first.path}: {'; '.join(differ)}. Figures of both "
                "in one table mislead: measure on equal hosts, or merge with --mixed if you know what you compare."
            )


def _comparable(identity: Mapping[str, Any]) -> dict[str, Any]:
    found = {name: value for name, value in identity.items() if name not in _OWN}
    for name, value in found.items():
        if name.startswith("target ") and isinstance(value, dict):
            devices = [{k: v for k, v in device.items() if k != _OWN_OF_TARGET} for device in value["devices"]]
            found[name] = value | {"devices": devices}
    return found


def _start(parts: Sequence[_Part], identity: Mapping[str, Any]) -> dict[str, Any]:
    """The first line: of the machine that merges, with what each journal said of its own."""
    plan = {name: value for name, value in parts[0].sweep["plan"].items() if name != "shard"}
    plan |= {"cells": int(parts[0].shard["plan_cells"]), "left": 0, "measured": 0}
    shards = [
        {
            "journal": part.path.name,
            "shard": dict(part.shard),
            "series": part.series.id,
            "machine": part.series.start["machine"],
        }
        for part in parts
    ]
    sweep = {"identity": dict(identity), "plan": plan, "pid": os.getpid(), "shards": shards}
    return dict(start(machine=describe(), settings={"sweep": sweep}))


def _copy(part: _Part, made: journal.Journal, found: Merged) -> None:
    wanted = dict.fromkeys(part.series.lines.values(), "cell")
    wanted |= {number: kind for kind, number in part.series.fates.values()}
    for line in journal.scan(part.path):
        kind = wanted.get(line.number)
        if kind is None:
            continue
        made.append(kind, line.own_body(), key=line.key, at=line.at, sync=False)
        match kind:
            case "cell":
                found.cells += 1
            case "void":
                found.voids += 1
            case "failure":
                found.failures += 1
            case _:
                found.skips += 1
