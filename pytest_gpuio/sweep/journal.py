"""A sweep's journal: what is finished, what was tried how often, and what a run adds to it."""

from __future__ import annotations

import os
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, Literal, Self

from pytest_gpuio.core.errors import ConfigError
from pytest_gpuio.machine import describe
from pytest_gpuio.results import journal
from pytest_gpuio.results.record import CellRecord
from pytest_gpuio.results.run_file import Failure, Skip, Void, start

#: Kinds of entries that are about one cell of the plan.
FATES: Final = ("cell", "void", "failure", "skip")
EndReason = Literal["complete", "stopped", "interrupted", "error"]


@dataclass(slots=True)
class State:
    """What a journal says, as far as a run needs it.

    Attributes:
        finished: keys of measured cells. attempts: of keys that never were, by kind ``void`` and ``failure``.
        skipped: reasons by key.
        series: id of the last series, None = there is none. identity: of it. starts: runs so far.
        entries: number of lines.
    """

    finished: set[str] = field(default_factory=set)
    attempts: dict[str, dict[str, int]] = field(default_factory=dict)
    skipped: dict[str, str] = field(default_factory=dict)
    series: str | None = None
    identity: Mapping[str, Any] = field(default_factory=dict)
    starts: int = 0
    entries: int = 0


def read_state(path: str | os.PathLike[str]) -> State:
    """What a journal says; bodies of cells are not looked into.

    Raises:
        ConfigError: it is the journal of a pytest run. GpuioError: it cannot be read, or a line is corrupt.
    """
    state = State()
    for line in journal.scan(path):
        state.entries += 1
        match line.kind:
            case "start":
                sweep = line.body()["settings"].get("sweep")
                if sweep is None:
                    raise ConfigError(
                        f"{os.fspath(path)} is the journal of a pytest run, not of a sweep: name another file."
                    )
                state.series, state.identity = line.key, sweep["identity"]
                state.starts += 1
            case "cell":
                state.finished.add(line.key)
                state.attempts.pop(line.key, None)
                state.skipped.pop(line.key, None)
            case "void" | "failure":
                tried = state.attempts.setdefault(line.key, {"void": 0, "failure": 0})
                tried[line.kind] += 1
            case "skip":
                state.skipped[line.key] = line.body()["reason"]
    return state


class SweepJournal:
    """A sweep's journal open for one run; nobody else can write it meanwhile.

    Args:
        path: of the file; made when it is not there.

    Raises:
        Busy: another run writes it.
        ConfigError: the file is something else.
        GpuioError: a line is corrupt; it is left as it is.
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self._journal, self.repaired = journal.Journal.go_on(path)
        try:
            self.state = read_state(path)
        except BaseException:
            self._journal.close()
            raise

    @property
    def path(self) -> Path:
        """Of the file."""
        return self._journal.path

    @property
    def size(self) -> int:
        """Bytes."""
        return self._journal.size

    def start(self, series: str, identity: Mapping[str, Any], plan: Mapping[str, Any]) -> None:
        """A run begins.

        Args:
            series: its id.
            identity: what it stands for.
            plan: ``name``, ``text``, ``cells`` (number), and whatever else helps a reader.

        Raises:
            GpuioError: the journal cannot be written; as all that follow.
        """
        settings = {"sweep": {"identity": dict(identity), "plan": dict(plan), "pid": os.getpid()}}
        self._add("start", start(machine=describe(), settings=settings), series)
        self.state.series, self.state.identity = series, identity

    def cell(self, key: str, record: CellRecord) -> None:
        """A cell was measured."""
        self._add("cell", record, key)
        self.state.finished.add(key)
        self.state.attempts.pop(key, None)

    def void(self, key: str, void: Void) -> None:
        """A cell's result cannot be true."""
        self._add("void", void, key)
        self._tried(key, "void")

    def failure(self, key: str, failure: Failure) -> None:
        """A cell ended in an error."""
        self._add("failure", failure, key)
        self._tried(key, "failure")

    def skip(self, key: str, skip: Skip) -> None:
        """This machine cannot measure a cell; told once for each reason."""
        if self.state.skipped.get(key) != skip["reason"]:
            self._add("skip", skip, key, sync=False)
            self.state.skipped[key] = skip["reason"]

    def between(self, kind: Literal["baseline", "precondition"], record: CellRecord) -> None:
        """Something was measured between cells."""
        self._add(kind, record)

    def rest(self, target: str, *, before: float, after: float, seconds: float) -> None:
        """A target rested: degrees Celsius before and after."""
        self._add("rest", {"target": target, "before": before, "after": after, "seconds": seconds})

    def end(self, reason: EndReason) -> None:
        """A run ends in order."""
        self._add("end", {"reason": reason})

    def sync(self) -> None:
        """Waits until all entries are on the medium, so that nothing of it is written inside a window."""
        self._journal.sync()

    def close(self) -> None:
        """Closes the file, and lets others write it."""
        self._journal.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _add(self, kind: str, body: Mapping[str, Any], key: str = "", *, sync: bool = True) -> None:
        self._journal.append(kind, body, key=key, at=time.time(), sync=sync)
        self.state.entries += 1

    def _tried(self, key: str, kind: str) -> None:
        self.state.attempts.setdefault(key, {"void": 0, "failure": 0})[kind] += 1
