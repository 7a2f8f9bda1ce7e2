"""The runner of an adaptive sweep: measures what is asked for next, until all is decided or the budget ends."""

from __future__ import annotations

import contextlib
import math
import signal
import time
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Final, Literal

from pytest_gpuio import datapaths, phases
from pytest_gpuio.core.errors import GpuioError
from pytest_gpuio.media import Medium
from pytest_gpuio.report.duration import long_duration
from pytest_gpuio.results import journal as lines
from pytest_gpuio.results.record import CellRecord
from pytest_gpuio.sweep.adaptive import Adaptive
from pytest_gpuio.sweep.costs import Costs
from pytest_gpuio.sweep.decisions import Decision
from pytest_gpuio.sweep.estimate import ASSUMED, OVERHEAD_S, cell_cost, estimate, measured_seconds
from pytest_gpuio.sweep.expand import PlannedCell, Sweep, baseline_cell, writes
from pytest_gpuio.sweep.identity import key_of
from pytest_gpuio.sweep.journal import EndReason, SweepJournal
from pytest_gpuio.sweep.levels import sample_of
from pytest_gpuio.sweep.order import Step, arrange
from pytest_gpuio.sweep.questions import questions
from pytest_gpuio.sweep.run import Progress, Runner
from pytest_gpuio.sweep.stop import Stop
from pytest_gpuio.sweep.terms import Terms

#: Part of a cell's key: records of an adaptive sweep have fewer windows, or more, than the full grid's.
RUNG: Final = "adaptive"
#: Windows of the full grid where the profile's number depends on what is met.
_USUAL_WINDOWS: Final = 5
#: Share of the budget, and its bounds in seconds, kept for ending children and telling the answers.
_END: Final = (0.003, 0.1, 1.0)
#: Share of the budget by which a measurement may pass it before it is broken off.
_PASSED: Final = 0.005
#: A cell is broken off after this share of the budget, so many seconds, and so many times what it hardly ever takes.
_PATIENCE: Final = (0.02, 5.0, 10.0)


class AdaptiveRunner(Runner):
    """One run of an adaptive sweep.

    Args:
        sweep, media, journal, progress, stop, cells: as :class:`~pytest_gpuio.sweep.run.Runner` has them.
        terms: what it keeps to.
        used_s: seconds of the budget that are gone already.
        clock: seconds.
    """

    def __init__(
        self,
        sweep: Sweep,
        media: Mapping[str, Medium],
        journal: SweepJournal,
        progress: Progress,
        stop: Stop,
        cells: Sequence[PlannedCell],
        terms: Terms,
        used_s: float = 0.0,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        super().__init__(sweep, media, journal, progress, stop, cells)
        self._clock, self._used_s, self._terms = clock, used_s, terms
        #: Seconds of this run.
        self.budget_s = terms.budget_s or estimate(sweep, cells).seconds
        share, least, most = _END
        self._deadline = self.budget_s - min(max(share * self.budget_s, least), most)
        self._began = clock()
        self._effort = replace(sweep.effort, warm_up_s=sweep.effort.warm_up_s or sweep.effort.window_s)
        kinds = {
            number: (p.cell.target, p.cell.workload, p.cell.datapath, p.environment)
            for number, p in enumerate(self._cells)
        }
        self.adaptive = Adaptive(
            len(self._cells), questions(self._cells), terms, Costs(self._forecast, self._alike),
            full=sweep.effort.windows or _USUAL_WINDOWS, budget_s=self.budget_s, order=self._ordered, kinds=kinds,
            before=self._before,
        )  # fmt: skip
        self._numbers = {planned.cell.case: number for number, planned in enumerate(self._cells)}
        self._by_key: dict[str, int] = {}
        self._begun: set[Hashable] = set()
        self._ready: set[str] = set()
        self._since: dict[str, int] = {}
        self._cell_began = 0.0
        self._clean = True
        self._over = self._laid = False
        self._patience_s = math.inf

    def decisions(self) -> list[Decision]:
        """The state of each question."""
        return self.adaptive.decisions()

    @property
    def cells(self) -> Sequence[PlannedCell]:
        """The cells; questions and decisions name them by their place."""
        return self._cells

    def used_s(self) -> float:
        """Seconds of the budget that are gone."""
        return self._used_s + self._clock() - self._began

    def _forecast(self, number: int, windows: int) -> float:
        cell = self._cells[number].cell
        if not isinstance(phases.get(cell.workload), phases.Workload):
            # A window of a model is one pass over its records, however long that takes.
            return self._effort.max_time * (1 + windows) / (1 + _USUAL_WINDOWS) + OVERHEAD_S
        return cell_cost(cell, replace(self._effort, windows=windows))[0] + OVERHEAD_S

    def _alike(self, number: int) -> list[Hashable]:
        """Cells whose windows are stretched alike: by the requests in flight, by their size, by the target."""
        cell = self._cells[number].cell
        here = (cell.target, cell.workload)
        in_flight = cell.qd * cell.workers
        return [
            (*here, cell.datapath, cell.bs, in_flight), (*here, cell.bs, in_flight), (*here, "in flight", in_flight),
            (*here, "bs", cell.bs), here, cell.target, (),
        ]  # fmt: skip

    def _before(self, number: int) -> float:
        """Seconds of layout, precondition and baseline if this cell is next."""
        plan, cell = self._sweep.plan, self._cells[number].cell
        seconds = 0.0
        if not datapaths.get(cell.datapath).moves_data or cell.target not in self._sweep.targets:
            return seconds
        if ("file", cell.target, writes(cell)) not in self._begun:
            seconds += self._effort.region_bytes / ASSUMED[cell.medium][0]
        if plan.precondition is not None and writes(cell) and cell.target not in self._ready:
            seconds += plan.precondition.seconds + OVERHEAD_S
        if self._baseline_due(cell.target):
            seconds += measured_seconds(self._effort) + OVERHEAD_S
        return seconds

    def _ordered(self, numbers: Sequence[int]) -> list[int]:
        plan = self._sweep.plan
        found = arrange([self._cells[n] for n in numbers], seed=plan.seed + self.adaptive.round, block=plan.block)
        return [self._numbers[planned.cell.case] for planned in found]

    def _key(self, planned: PlannedCell) -> str:
        return key_of(self.series, planned, self._environment(planned), RUNG)

    def _pending(self) -> list[PlannedCell]:
        """The cells without a record; takes in what the journal holds of this series, plain runs' records too."""
        state, tally = self._journal.state, self.tally
        if state.starts:
            self._read_journal()
        for number, planned in enumerate(self._cells):
            key = self._key(planned)
            self._by_key[key] = number
            if key not in state.finished and (kind := self._given_up(key)) is not None:
                self.adaptive.drop(number, f"{kind} in an earlier run")
                self._count(kind)
        tally.measured, tally.left = self.adaptive.seen, self.adaptive.left
        self._used_s = self.used_s()
        return [self._cells[number] for number in self.adaptive.unseen()]

    def _read_journal(self) -> None:
        here = False
        for line in lines.scan(self._journal.path):
            if line.kind == "start":
                here = line.key == self.series
            elif here and line.kind == "cell":
                record = line.own_body()
                number = self._numbers.get(record["case"])
                if number is not None:
                    self.adaptive.measured(number, sample_of(record), record["windows"]["count"])

    def _begin(self) -> None:
        super()._begin()
        # Waiting for the host's lock is nobody's measuring time.
        self._began = self._clock()
        terms, say = self._terms, self._progress.say
        say(
            f"adaptive: budget {long_duration(self.budget_s)} of this run, confidence {terms.confidence:.4g}, "
            f"differences below {terms.margin:.1%} do not matter"
        )
        first = self.adaptive.first_look_s()
        left = self._deadline - self.used_s()
        if first > left:
            say(
                f"the budget is too small for a first look at each of {self.adaptive.left:,} cells: that takes about "
                f"{long_duration(first)}. What is not measured stays open: raise --budget, narrow the axes, or run the "
                "same command again: it goes on."
            )

    def _all(self, pending: Sequence[PlannedCell]) -> EndReason:  # noqa: ARG002 - what is next depends on results
        told = 0
        while not self._stop.asked:
            task = self.adaptive.next(self._deadline - self.used_s())
            if task is None:
                return "stopped" if self.adaptive.left else "complete"
            if self.adaptive.round != told:
                told = self.adaptive.round
                self._tell(told)
            planned = self._cells[task.cell]
            entries = self._journal.state.entries
            try:
                self._between(planned)
                self._windows = task.windows
                self._patience_s = self._patience(task.cell, task.windows)
                self._step(Step("cell", planned))
            except KeyboardInterrupt:
                if not self._over:
                    raise
                self._over = False
                if self.used_s() >= self._deadline:
                    self._progress.say(f"broken off at the end of the budget, and lost: {planned.cell.case}")
                    return "stopped" if self.adaptive.left else "complete"
                took = self._clock() - self._cell_began
                self._progress.say(f"broken off after {took:.1f} s, far longer than was foretold: {planned.cell.case}")
                self.adaptive.drop(
                    task.cell, f"took far longer than was foretold and was broken off after {took:.0f} s"
                )
            finally:
                self._windows, self._patience_s = None, math.inf
            if self._journal.state.entries == entries and task.cell not in self.adaptive.out:
                self.adaptive.drop(task.cell, f"target {planned.cell.target} was left alone")
            self.tally.left = self.adaptive.left
        return "stopped"

    def _tell(self, number: int) -> None:
        asked, is_open = self.adaptive.asked, self.adaptive.open
        self._progress.say(
            f"round {number}: {asked - is_open:,} of {asked:,} questions decided, {is_open:,} open, "
            f"{long_duration(max(self._deadline - self.used_s(), 0.0))} of the budget left"
        )

    def _between(self, planned: PlannedCell) -> None:
        """What stands before a cell: the baseline of its target when it is due, a state before its first write."""
        plan, cell = self._sweep.plan, planned.cell
        # The first of its kind starts a child and lays files out, which is learned from by nobody.
        firsts = {("file", cell.target, writes(cell)), ("child", planned.environment, cell.datapath, cell.destination)}
        self._clean = firsts <= self._begun
        self._laid = ("file", cell.target, writes(cell)) in self._begun
        self._begun |= firsts
        if plan.baseline is not None and self._baseline_due(cell.target):
            self._since[cell.target] = 0
            self._step(Step("baseline", baseline_cell(plan.baseline, cell.target, cell.medium)))
        if plan.precondition is not None and cell.target not in self._ready and writes(cell):
            self._ready.add(cell.target)
            self._step(Step("precondition", planned))
        self._since[cell.target] = self._since.get(cell.target, 0) + 1

    def _baseline_due(self, target: str) -> bool:
        baseline = self._sweep.plan.baseline
        return baseline is not None and self._since.get(target, baseline.every) >= baseline.every

    def _measure(self, planned: PlannedCell) -> CellRecord:
        self._cell_began = self._clock()
        left = self._deadline + _PASSED * self.budget_s - self.used_s()
        with self._alarm(min(left, self._patience_s)):
            return super()._measure(planned)

    def _patience(self, number: int, windows: int) -> float:
        """Seconds after which a cell is broken off, so that a starved one does not use up what all have."""
        if not self._laid:
            return math.inf
        share, least, times = _PATIENCE
        return max(share * self.budget_s, least, times * self.adaptive.most_s(number, windows))

    @contextlib.contextmanager
    def _alarm(self, seconds: float) -> Iterator[None]:
        """Breaks off what a stalled device or a starved machine would draw out past the budget, as Ctrl-C twice does.

        It rings only inside a measurement: never while the journal is written.
        """

        def ring(_number: int, _frame: object) -> None:
            self._over = True
            raise KeyboardInterrupt

        before = signal.signal(signal.SIGALRM, ring)
        signal.setitimer(signal.ITIMER_REAL, max(seconds, 0.001))
        try:
            yield
        finally:
            signal.setitimer(signal.ITIMER_REAL, 0.0)
            signal.signal(signal.SIGALRM, before)

    def _kept(self, step: Step, key: str, record: CellRecord) -> None:  # noqa: ARG002 - of all runners
        self._journal.cell(key, record)
        took = self._clock() - self._cell_began
        number = self._by_key[key]
        count = record["windows"]["count"]
        self.adaptive.measured(number, sample_of(record), count, took if self._clean else None)
        self.tally.measured, self.tally.new = self.adaptive.seen, self.tally.new + 1

    def _not_measured(
        self, step: Step, key: str, kind: Literal["void", "failure"], text: str, error: GpuioError
    ) -> None:
        super()._not_measured(step, key, kind, text, error)
        if step.kind == "cell" and self._given_up(key) is not None:
            self.adaptive.drop(self._by_key[key], f"{kind}: {text}")

    def _skipped(self, step: Step, key: str, reason: str) -> None:
        super()._skipped(step, key, reason)
        self.adaptive.drop(self._by_key[key], reason)
