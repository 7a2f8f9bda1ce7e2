"""One process per rank: each replays its own records between two barriers, as the ranks of a distributed job do."""

from __future__ import annotations

import multiprocessing
import os
import time
from array import array
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import replace
from functools import reduce
from multiprocessing.connection import Connection
from pathlib import Path
from types import TracebackType
from typing import Any, Final, Self

from pytest_gpuio.core.errors import EngineError, GpuioError
from pytest_gpuio.engine import NEVER, Clock, Histogram, Pool, Run, RunSpec, Sweep, Window, results_for
from pytest_gpuio.engine.replay import RESULTS
from pytest_gpuio.isolation.serve import die_with
from pytest_gpuio.measure.plan import Plan, RankPart
from pytest_gpuio.measure.replay import load_part, opened_files

#: Seconds from the message that names the start to the start itself: every rank must have read it by then.
_NOTICE_S: Final = 0.005
_OPEN_S: Final = 60.0
_END_S: Final = 5.0

#: From the plan of one rank to the engine's view of it.
MakeSpec = Callable[[Plan], RunSpec]

#: Sums over ranks; times and CPU, which every process counts for itself, are not among them.
_SUMS: Final = (
    "ios", "reads", "writes", "bytes", "errors", "short_ios", "syncs", "sync_ns", "verified", "bad", "steady_ios",
    "steady_lat_ns", "max_in_flight", "scheduled", "late", "total_ios", "total_lat_ns", "max_total", "copies",
    "copied_bytes",
)  # fmt: skip


def rank_plan(plan: Plan, rank: int) -> Plan:
    """What one of the ranks does: an equal share of the jobs, on CPUs of its own."""
    assert plan.replay is not None
    each = plan.jobs // len(plan.replay.parts)
    mine = slice(rank * each, (rank + 1) * each)
    return replace(plan, jobs=each, cpus=plan.cpus[mine], sq_cpus=plan.sq_cpus[mine], gpus=plan.gpus[mine])


def merge_windows(windows: Sequence[Window]) -> Window:
    """Several ranks' windows as one, from the first start to the last end; CPU figures are those of the first."""

    def merge(one: Window, other: Window) -> Window:
        steady, total = max(one.steady_ns, other.steady_ns), max(one.total_ns, other.total_ns)
        weighed = one.mean_in_flight * one.steady_ns + other.mean_in_flight * other.steady_ns
        weighed_total = one.total_in_flight * one.total_ns + other.total_in_flight * other.total_ns
        sums = {name: getattr(one, name) + getattr(other, name) for name in _SUMS}
        failed = one if one.errors else other
        wrong = one if one.bad else other
        return replace(
            one,
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

    def __init__(self, plan: Plan, make_spec: MakeSpec, clock: Clock, stop: memoryview) -> None:
        assert plan.replay is not None
        self._plan = plan
        self._processes: list[Any] = []
        self._pipes: list[Connection] = []
        context = multiprocessing.get_context("fork")
        for rank in range(1, len(plan.replay.parts)):
            here, there = context.Pipe()
            process = context.Process(
                target=_serve,
                args=(there, rank_plan(plan, rank), rank, make_spec, clock, stop, os.getpid()),
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


class RankedRun(Run):
    """A run of the first rank's records here, with all other ranks at the same time; windows are those of all."""

    def __init__(
        self,
        plan: Plan,
        ranks: Ranks,
        make_spec: MakeSpec,
        fds: tuple[int, ...],
        clock: Clock,
        pool: Pool,
        stop: memoryview,
    ) -> None:
        assert plan.replay is not None
        self._ranks = ranks
        self._parts = plan.replay.parts
        self._numbers = [_numbers(part) for part in self._parts]
        self._timeout_s = plan.timeout_s
        self._merged: dict[str, Histogram] = {}
        super().__init__(_spec(rank_plan(plan, 0), make_spec, self._parts[0], plan, fds), clock, pool, stop)
        ranks.answers(_OPEN_S)  # ready

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
        windows = [super().replay(0, len(self._numbers[0]), mine)]
        histograms, parts = super().histograms(), [mine]
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

    def histograms(self) -> dict[str, Histogram]:
        """Of the last window, merged over ranks."""
        return self._merged

    def sweep(self) -> Sweep:
        """Of every rank's last window.

        Raises:
            EngineError: as :meth:`Run.sweep`.
        """
        found = [super().sweep(), *self._ranks.ask("sweep", _OPEN_S)]
        wrong = next((one for one in found if one.bad), found[0])
        return Sweep(sum(one.checked for one in found), sum(one.bad for one in found), wrong.first_bad_offset)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            super().__exit__(kind, error, trace)
        finally:
            self._ranks.close()


def _numbers(part: RankPart) -> array[int]:
    return array("I", Path(part.numbers).read_bytes())


def _sleep_until(at: float) -> None:
    time.sleep(max(at - time.monotonic(), 0.0))


def _spec(mine: Plan, make_spec: MakeSpec, part: RankPart, plan: Plan, fds: tuple[int, ...]) -> RunSpec:
    assert plan.replay is not None
    return replace(make_spec(mine), fd=-1, replay=load_part(plan.replay, part, fds))


def _serve(
    pipe: Connection, plan: Plan, rank: int, make_spec: MakeSpec, clock: Clock, stop: memoryview, parent: int
) -> None:
    """Life of a rank's process: opens, and replays when it is told a time, until its pipe closes."""
    die_with(parent)
    assert plan.replay is not None
    part, pool = plan.replay.parts[rank], Pool()
    groups = len(_numbers(part))
    try:
        with ExitStack() as stack:
            fds = stack.enter_context(opened_files(plan, plan.replay))
            run = stack.enter_context(Run(_spec(plan, make_spec, part, plan, fds), clock, pool, stop))
            pipe.send(True)
            results = results_for(groups)
            while True:
                message = pipe.recv()
                if message == "sweep":
                    pipe.send(run.sweep())
                    continue
                _sleep_until(message)
                window = run.replay(0, groups, results)
                encoded = {name: histogram.to_bytes() for name, histogram in run.histograms().items()}
                pipe.send((window, encoded, results.tobytes()))
    except EOFError:
        pass
    except GpuioError as error:
        pipe.send(str(error))
