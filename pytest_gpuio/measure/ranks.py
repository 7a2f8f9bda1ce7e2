"""One process per rank: each replays its own records between two barriers, as the ranks of a distributed job do."""

from __future__ import annotations

import multiprocessing
import os
import time
from array import array
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from functools import reduce
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any, Final, Protocol, Self

from pytest_gpuio.core.errors import EngineError, GpuioError
from pytest_gpuio.engine import NEVER, Histogram, Run, Sweep, Window, results_for
from pytest_gpuio.engine.replay import RESULTS
from pytest_gpuio.isolation.serve import die_with
from pytest_gpuio.measure.plan import Plan, RankPart

#: Seconds from the message that names the start to the start itself: every rank must have read it by then.
_NOTICE_S: Final = 0.005
_OPEN_S: Final = 60.0
_END_S: Final = 5.0


class RankRun(Protocol):
    """What makes the windows of one rank: a run of the compiled engine, or of a framework."""

    def replay(self, first: int, count: int, results: array[int]) -> Window:
        """All groups of the rank."""

    def histograms(self) -> dict[str, Histogram]:
        """Of the last window."""

    def sweep(self) -> Sweep:
        """Of the last window."""

    def close(self) -> None:
        """Give everything back."""

    @property
    def facts(self) -> str:
        """What it says of how it was opened."""

    @property
    def slots(self) -> int:
        """Requests of each worker."""

    @property
    def effective_knobs(self) -> frozenset[str]:
        """Knobs that it really has."""

    @property
    def knob_reason(self) -> str:
        """Why one that was asked for is off."""


#: Opens what runs a rank's part, in the process of that rank; what must be closed after it goes on the stack.
OpenRank = Callable[[int, ExitStack], RankRun]

#: Sums over ranks; times and CPU, which every process counts for itself, are not among them.
_SUMS: Final = (
    "ios", "reads", "writes", "bytes", "errors", "short_ios", "syncs", "sync_ns", "verified", "bad", "steady_ios",
    "steady_lat_ns", "max_in_flight", "scheduled", "late", "total_ios", "total_lat_ns", "max_total", "copies",
    "copied_bytes",
)  # fmt: skip


def merge_windows(windows: Sequence[Window]) -> Window:
    """Several ranks' windows as one, from the first start to the last end; CPU figures are those of the first."""

    def merge(one: Window, other: Window) -> Window:
        steady, total = max(one.steady_ns, other.steady_ns), max(one.total_ns, other.total_ns)
        weighed = one.mean_in_flight * one.steady_ns + other.mean_in_flight * other.steady_ns
        weighed_total = one.total_in_flight * one.total_ns + other.total_in_flight * other.total_ns
        sums = {name: getattr(one, name) + getattr(other, name) for name in _SUMS}
        failed = one if one.errors else other
        wrong = one if one.bad else other
        return one._replace(
            **sums,
            start_ns=min(one.start_ns, other.start_ns),
            end_ns=max(one.end_ns, other.end_ns),
            stopped=max(one.stopped, other.stopped),
            first_error=failed.first_error,
            first_error_op=failed.first_error_op,
            first_error_offset=failed.first_error_offset,
            first_bad_offset=wrong.first_bad_offset,
            steady_ns=steady,
            mean_in_flight=weighed / steady if steady else 0.0,
            steady_rate=sums["steady_ios"] * 1e9 / steady if steady else 0.0,
            total_ns=total,
            total_in_flight=weighed_total / total if total else 0.0,
            total_rate=sums["total_ios"] * 1e9 / total if total else 0.0,
            clock_ppm=max(one.clock_ppm, other.clock_ppm),
            workers=one.workers + other.workers,
        )

    return reduce(merge, windows)


def scatter(results: array[int], part: array[int], numbers: Sequence[int], shift_ns: int) -> None:
    """Put one rank's group results where its groups are among all, counted from the common start."""
    for index, group in enumerate(numbers):
        for column in range(RESULTS - 1):
            value = part[RESULTS * index + column]
            results[RESULTS * group + column] = value if value == NEVER else value + shift_ns
        # The last one is a length of time.
        results[RESULTS * (group + 1) - 1] = part[RESULTS * (index + 1) - 1]


class Ranks:
    """The processes of all ranks but the first, which is this process; forked before anything is opened here."""

    def __init__(self, plan: Plan, open_rank: OpenRank) -> None:
        assert plan.replay is not None
        self._processes: list[Any] = []
        self._pipes: list[Connection] = []
        context = multiprocessing.get_context("fork")
        for rank in range(1, len(plan.replay.parts)):
            here, there = context.Pipe()
            process = context.Process(
                target=_serve,
                args=(there, plan.replay.parts[rank], rank, open_rank, os.getpid()),
                daemon=True,
            )
            process.start()
            there.close()
            self._processes.append(process)
            self._pipes.append(here)

    @property
    def pids(self) -> tuple[int, ...]:
        """Process ids."""
        return tuple(int(process.pid) for process in self._processes)

    def ask(self, message: Any, deadline_s: float) -> list[Any]:
        """Every rank's answer.

        Raises:
            EngineError: one did not answer in time, has died, or failed.
        """
        self.tell(message)
        return self.answers(deadline_s)

    def tell(self, message: Any) -> None:
        """Send a message to every rank."""
        for rank, pipe in enumerate(self._pipes, start=1):
            try:
                pipe.send(message)
            except OSError as error:
                raise EngineError(f"rank {rank} has died: {error}") from error

    def answers(self, deadline_s: float) -> list[Any]:
        """One answer of each.

        Raises:
            EngineError: as :meth:`ask`.
        """
        until, found = time.monotonic() + deadline_s, []
        for rank, pipe in enumerate(self._pipes, start=1):
            try:
                if not pipe.poll(max(until - time.monotonic(), 0.0)):
                    raise EngineError(f"rank {rank} did not answer within {deadline_s:.0f} s")
                answer = pipe.recv()
            except (EOFError, OSError) as error:
                raise EngineError(f"rank {rank} has died") from error
            if isinstance(answer, str):
                raise EngineError(f"rank {rank}: {answer}")
            found.append(answer)
        return found

    def close(self) -> None:
        """End every rank; bounded."""
        for pipe in self._pipes:
            pipe.close()
        until = time.monotonic() + _END_S
        for process in self._processes:
            process.join(max(until - time.monotonic(), 0.0))
            if process.is_alive():
                process.kill()
                process.join(1.0)
        self._processes.clear()
        self._pipes.clear()


class RankedRun:
    """The first rank's run, which is here, with all other ranks at the same time; windows are those of all."""

    def __init__(self, plan: Plan, ranks: Ranks, mine: RankRun) -> None:
        assert plan.replay is not None
        self._ranks = ranks
        self._mine = mine
        self._parts = plan.replay.parts
        self._numbers = [_numbers(part) for part in self._parts]
        self._timeout_s = plan.timeout_s
        self._merged: dict[str, Histogram] = {}
        ranks.answers(_OPEN_S)  # ready

    def prepare(self) -> None:
        """Have every rank do what comes before a window.

        Raises:
            EngineError: as :meth:`replay`.
        """
        if hasattr(self._mine, "prepare"):
            self._ranks.tell("prepare")
            self._mine.prepare()
            self._ranks.answers(self._timeout_s + _OPEN_S)

    def replay(self, first: int, count: int, results: array[int]) -> Window:
        """All groups of all ranks; ``first`` and ``count`` must name them all.

        Raises:
            EngineError: as :meth:`Run.replay`, here or in another rank.
        """
        if (first, count) != (0, sum(map(len, self._numbers))):
            raise EngineError(f"groups {first} to {first + count}: ranks replay all they have")
        at = time.monotonic() + _NOTICE_S
        self._ranks.tell(at)
        mine = results_for(len(self._numbers[0]))
        _sleep_until(at)
        windows = [self._mine.replay(0, len(self._numbers[0]), mine)]
        histograms, parts = self._mine.histograms(), [mine]
        for window, encoded, part in self._ranks.answers(self._timeout_s + _OPEN_S):
            windows.append(window)
            for name, data in encoded.items():
                histograms[name].merge(Histogram.from_bytes(data))
            parts.append(array("Q", part))
        self._merged = histograms
        merged = merge_windows(windows)
        for window, part, numbers in zip(windows, parts, self._numbers, strict=True):
            scatter(results, part, numbers, window.start_ns - merged.start_ns)
        return merged

    def compute_alone(self, ns: int, times: int, *, tune: bool = False) -> float:
        """What a kernel takes on the first rank's GPU while the others do nothing; see :meth:`Run.compute_alone`."""
        assert isinstance(self._mine, Run), "no framework computes"
        return self._mine.compute_alone(ns, times, tune=tune)

    def histograms(self) -> dict[str, Histogram]:
        """Of the last window, merged over ranks."""
        return self._merged

    def sweep(self) -> Sweep:
        """Of every rank's last window.

        Raises:
            EngineError: as :meth:`Run.sweep`.
        """
        found = [self._mine.sweep(), *self._ranks.ask("sweep", _OPEN_S)]
        wrong = next((one for one in found if one.bad), found[0])
        return Sweep(sum(one.checked for one in found), sum(one.bad for one in found), wrong.first_bad_offset)

    @property
    def facts(self) -> str:
        """Of the first rank."""
        return self._mine.facts

    @property
    def slots(self) -> int:
        """Of the first rank."""
        return self._mine.slots

    @property
    def effective_knobs(self) -> frozenset[str]:
        """Of the first rank."""
        return self._mine.effective_knobs

    @property
    def knob_reason(self) -> str:
        """Of the first rank."""
        return self._mine.knob_reason

    def library_values(self) -> dict[str, Any] | None:
        """Of the first rank, where it is a framework's; None elsewhere."""
        told = getattr(self._mine, "library_values", None)
        return None if told is None else dict(told())

    def close(self) -> None:
        """End the other ranks; the first one's run is its opener's."""
        self._ranks.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def _numbers(part: RankPart) -> array[int]:
    return array("I", Path(part.numbers).read_bytes())


def _nothing() -> None:
    """What comes before a window of the compiled engine: the cell itself does it."""


def _sleep_until(at: float) -> None:
    time.sleep(max(at - time.monotonic(), 0.0))


def _serve(pipe: Connection, part: RankPart, rank: int, open_rank: OpenRank, parent: int) -> None:
    """Life of a rank's process: opens, and replays when it is told a time, until its pipe closes."""
    die_with(parent)
    groups = len(_numbers(part))
    try:
        with ExitStack() as stack:
            run = open_rank(rank, stack)
            pipe.send(True)
            results = results_for(groups)
            while True:
                message = pipe.recv()
                if message == "sweep":
                    pipe.send(run.sweep())
                    continue
                if message == "prepare":
                    getattr(run, "prepare", _nothing)()
                    pipe.send(True)
                    continue
                _sleep_until(message)
                window = run.replay(0, groups, results)
                encoded = {name: histogram.to_bytes() for name, histogram in run.histograms().items()}
                pipe.send((window, encoded, results.tobytes()))
    except EOFError:
        pass
    except GpuioError as error:
        pipe.send(str(error))
