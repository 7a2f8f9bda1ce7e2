"""Where a sweep stands, read from its journal while it may be running."""

from __future__ import annotations

import os
import time
from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from pytest_gpuio.core.drift import find
from pytest_gpuio.core.errors import ConfigError
from pytest_gpuio.results import journal

_RECENT: Final = 100


@dataclass(slots=True)
class SeriesStatus:
    """One series.

    Attributes:
        id: of it. plan: name. cells: of the plan, as its newest run had it. runs: how many there were.
        measured, void, failed, skipped: cells by their fate so far, those of earlier versions of the plan included.
        dropped: measured ones that the newest run's plan has no more. left: cells which that run has still to measure.
        seconds: that cells took lately, each; None = unknown.
        last: case of the cell that was finished last. last_s: how long ago, seconds.
        ended: how the newest run ended; None = it runs, or was cut off.
        baselines: seconds per request of the baseline by target, in order.
    """

    id: str
    plan: str = ""
    cells: int = 0
    runs: int = 0
    measured: int = 0
    void: int = 0
    failed: int = 0
    skipped: int = 0
    dropped: int = 0
    left: int = 0
    seconds: float | None = None
    last: str = ""
    last_s: float | None = None
    ended: str | None = None
    baselines: dict[str, list[float]] = field(default_factory=dict)

    def drift(self) -> Mapping[str, float | None]:
        """Relative change of each target's baseline from first to last by a robust line, None = too few."""
        return {
            target: find(costs).first_to_last if len(costs) > 2 else None for target, costs in self.baselines.items()
        }


@dataclass(slots=True)
class Status:
    """A journal: its series, its size in bytes, and whether some process writes it now."""

    series: list[SeriesStatus]
    size: int
    running: bool


def read_status(path: str | os.PathLike[str]) -> Status:
    """Where the sweep stands.

    Raises:
        ConfigError: the file is no sweep's journal.
        GpuioError: it cannot be read, or a line is corrupt.
    """
    running = journal.is_being_written(path)
    found: dict[str, SeriesStatus] = {}
    fates: dict[str, dict[str, str]] = {}
    runs: dict[str, _Run] = {}
    now: SeriesStatus | None = None
    times: deque[float] = deque(maxlen=_RECENT)
    newest: journal.Line | None = None
    for line in journal.scan(path):
        if line.kind == "start":
            now = _started(found, line, os.fspath(path))
            runs[now.id] = _Run.of(line, fates.get(now.id, {}))
            times = deque([line.at], maxlen=_RECENT)
            continue
        if now is None:
            raise ConfigError(f"{os.fspath(path)} is no sweep's journal: it does not begin with a start.")
        own = fates.setdefault(now.id, {})
        match line.kind:
            case "cell" | "void" | "failure" | "skip":
                runs[now.id].met(line, own.get(line.key))
                if own.get(line.key) != "cell":
                    own[line.key] = line.kind
                if line.kind != "skip":
                    times.append(line.at)
                    newest = line
            case "baseline":
                record: Mapping[str, Any] = line.own_body()
                now.baselines.setdefault(record["axes"]["target"], []).append(1.0 / record["iops"])
            case "end":
                now.ended = line.body()["reason"]
    if now is None:
        raise ConfigError(f"{os.fspath(path)} holds no run of a sweep.")
    for one in found.values():
        kinds = list(fates.get(one.id, {}).values())
        one.measured, one.void = kinds.count("cell"), kinds.count("void")
        one.failed, one.skipped = kinds.count("failure"), kinds.count("skip")
        one.left = 0 if one.ended == "complete" else runs[one.id].left
        one.dropped = max(one.measured - runs[one.id].measured, 0)
    if len(times) > 1:
        now.seconds = (times[-1] - times[0]) / (len(times) - 1)
    if newest is not None:
        now.last, now.last_s = str(newest.own_body()["case"]), max(time.time() - newest.at, 0.0)
    return Status(list(found.values()), os.stat(path).st_size, running)  # noqa: PTH116 - any path


@dataclass(slots=True)
class _Run:
    """What the newest run of a series had before it, and what became of it.

    Attributes:
        todo: cells that it was to measure. measured: of its plan, so far.
        known: keys that were skipped before, which is not told again. ended: keys with a fate since.
    """

    todo: int
    measured: int
    known: set[str]
    ended: set[str] = field(default_factory=set)

    @classmethod
    def of(cls, line: journal.Line, before: Mapping[str, str]) -> _Run:
        plan = line.body()["settings"]["sweep"]["plan"]
        skipped = {key for key, kind in before.items() if kind == "skip"}
        return cls(plan.get("left", plan["cells"]), plan.get("measured", 0), skipped)

    def met(self, line: journal.Line, before: str | None) -> None:
        self.ended.add(line.key)
        if line.kind == "cell" and before != "cell":
            self.measured += 1

    @property
    def left(self) -> int:
        return max(self.todo - len(self.ended | self.known), 0)


def _started(found: dict[str, SeriesStatus], line: journal.Line, name: str) -> SeriesStatus:
    sweep = line.body()["settings"].get("sweep")
    if sweep is None:
        raise ConfigError(f"{name} is the journal of a pytest run, not of a sweep.")
    # Written last stands last.
    one = found[line.key] = found.pop(line.key, SeriesStatus(line.key))
    one.plan, one.cells, one.ended = sweep["plan"]["name"], sweep["plan"]["cells"], None
    one.runs += 1
    return one
