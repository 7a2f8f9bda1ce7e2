"""Where the time of an adaptive sweep goes: a short look at every cell, then more where a decision is still open."""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, Literal

from pytest_gpuio.sweep.costs import Costs
from pytest_gpuio.sweep.decisions import Decision, decide
from pytest_gpuio.sweep.levels import Level, Sample, levels
from pytest_gpuio.sweep.questions import KINDS, Question
from pytest_gpuio.sweep.terms import Terms

EndReason = Literal["decided", "budget", "spent"]

#: Most of the time left that is given away before everything is looked at again.
_ROUND: Final = 0.25
#: Most of the budget that one measurement takes, so that one which overruns cannot pass it by much.
_ONE: Final = 0.01
#: Share of the budget by which an unlucky measurement may pass the end.
_PASSED: Final = 0.01
#: A measurement has at most so many times the windows of the one before.
_GROWTH: Final = 4
#: A cell gets at most so many times the windows of the full grid in all, and this share of it at a time: what is open
#: then stays open.
_SPENT: Final = 40
_AT_A_TIME: Final = 4


@dataclass(frozen=True, slots=True)
class Task:
    """The next measurement: so many windows of a cell."""

    cell: int
    windows: int


class Adaptive:
    """Decides what is measured next, and for how long. It measures nothing and knows no clock.

    Args:
        cells: number of them; each is known by its place.
        asked: questions about them.
        terms: confidence, margin, windows of a first look.
        costs: seconds of measurements.
        full: windows that the plan's full grid gives each cell.
        budget_s: seconds there are in all.
        order: the order in which cells of one round are measured.
        kinds: of cells that scatter alike.
        before: seconds that something else takes first when a cell is measured now: files laid out, a precondition.
    """

    def __init__(
        self,
        cells: int,
        asked: Sequence[Question],
        terms: Terms,
        costs: Costs,
        *,
        full: int,
        budget_s: float,
        order: Callable[[Sequence[int]], Sequence[int]],
        kinds: Mapping[int, Hashable],
        before: Callable[[int], float] = lambda _: 0.0,
    ) -> None:
        self._asked, self._terms, self._costs = asked, terms, costs
        self._full, self._budget_s, self._order, self._kinds, self._before = full, budget_s, order, kinds, before
        self._samples: dict[int, list[Sample]] = {}
        self._windows: dict[int, int] = {}
        self._last: dict[int, int] = {}
        self._unseen = set(range(cells))
        #: Cells that cannot be measured, with why.
        self.out: dict[int, str] = {}
        self._queue: list[Task] | None = None
        self._open: list[Decision] = []
        self._cheapest = math.inf
        #: Number of the round; 0 = the first look at every cell.
        self.round = 0
        #: Why nothing more is measured.
        self.ended: EndReason | None = None

    @property
    def seen(self) -> int:
        """Cells that were measured at least once."""
        return len(self._windows)

    def unseen(self) -> list[int]:
        """Cells that were not measured yet and can be."""
        return sorted(self._unseen)

    @property
    def left(self) -> int:
        """How many those are."""
        return len(self._unseen)

    @property
    def asked(self) -> int:
        """Number of questions."""
        return len(self._asked)

    @property
    def open(self) -> int:
        """How many of them were open when the round began."""
        return len(self._open)

    def most_s(self, cell: int, windows: int) -> float:
        """Seconds that a measurement hardly ever takes more than."""
        return self._costs.most(cell, windows)

    def first_look_s(self) -> float:
        """Seconds of a first look at what was not seen yet."""
        return math.fsum(self._costs.expected(cell, self._terms.first) for cell in self.unseen())

    def measured(self, cell: int, sample: Sample | None, windows: int, seconds: float | None = None) -> None:
        """A cell was measured.

        Args:
            cell: which.
            sample: None = the record has no figure that decides.
            windows: how many.
            seconds: it took, everything counted; None = by an earlier run, or with something else in it.
        """
        self._unseen.discard(cell)
        self._windows[cell] = self._windows.get(cell, 0) + windows
        self._last[cell] = windows
        if seconds is not None:
            self._costs.learn(cell, windows, seconds)
        if sample is not None:
            self._samples.setdefault(cell, []).append(sample)
            return
        if cell not in self._samples:
            self.drop(cell, "its record has no figure that decides")

    def drop(self, cell: int, reason: str) -> None:
        """A cell cannot be measured (any more)."""
        self._unseen.discard(cell)
        self.out.setdefault(cell, reason)

    def levels(self) -> dict[int, Level]:
        """What is known of each cell."""
        return levels(self._samples, self._kinds)

    def decisions(self) -> list[Decision]:
        """The state of each question."""
        known = self.levels()
        gone = {cell for cell in self.out if cell not in known}
        terms = self._terms
        return [
            decide(question, known, gone, confidence=terms.confidence, margin=terms.margin) for question in self._asked
        ]

    def next(self, left_s: float) -> Task | None:
        """The next measurement that ends within the time left; None = nothing more is to be done, see ``ended``."""
        if self._queue is None:
            self._queue = [Task(cell, self._terms.first) for cell in self._order(self.unseen())]
        while True:
            task = self._fitting(left_s)
            if task is not None:
                return task
            if self.round and any(task.cell not in self._unseen for task in self._queue):
                # Nothing of the round fits any more: perhaps something shorter does that is open, too.
                self._queue = []
                return self._short(left_s)
            if not self._plan_round(left_s):
                return None

    def _fitting(self, left_s: float) -> Task | None:
        """Takes the first task of the queue that fits, shortened if need be; what can never fit stays in the queue."""
        assert self._queue is not None
        for place, task in enumerate(self._queue):
            if task.cell in self.out:
                continue
            fitted = self._fitted(task, left_s)
            if fitted is not None:
                # What did not fit is passed over: later there is less time still.
                del self._queue[: place + 1]
                return fitted
        self._queue = [task for task in self._queue if task.cell not in self.out]
        return None

    def _fitted(self, task: Task, left_s: float) -> Task | None:
        left_s -= self._before(task.cell)
        least = self._least(task.cell)
        if not self._fits(task.cell, least, left_s):
            return None
        windows = task.windows
        if not self._fits(task.cell, windows, left_s):
            return Task(task.cell, self._most_windows(task.cell, least, windows, left_s))
        if self.round and left_s - self._costs.expected(task.cell, windows) < self._cheapest:
            # Nothing fits behind it: it takes what is left.
            windows = self._most_windows(task.cell, windows, windows + self._full * _AT_A_TIME, left_s)
        return Task(task.cell, windows)

    def _most_windows(self, cell: int, low: int, high: int, left_s: float) -> int:
        """The largest number from ``low``, which fits, to ``high`` that fits."""
        while low < high:
            middle = (low + high + 1) // 2
            if self._fits(cell, middle, left_s):
                low = middle
            else:
                high = middle - 1
        return low

    def _fits(self, cell: int, windows: int, left_s: float) -> bool:
        """It should end in time, and even if it takes as long as hardly ever it passes the end by next to nothing."""
        return (
            self._costs.expected(cell, windows) <= left_s
            and self._costs.most(cell, windows) <= left_s + self._budget_s * _PASSED
        )

    def _least(self, cell: int) -> int:
        """Windows that a measurement has at least: the newest record of a cell is never its poorest."""
        return self._last.get(cell, self._terms.first)

    def _critical(self, decisions: Iterable[Decision]) -> list[int]:
        found = dict.fromkeys(cell for one in decisions for cell in (*one.needs, *sorted(one.unseen)))
        return [cell for cell in found if self._can(cell)]

    def _can(self, cell: int) -> bool:
        return cell not in self.out and self._windows.get(cell, 0) < _SPENT * self._full

    def _short(self, left_s: float) -> Task | None:
        cells = self._critical(self._open)
        for cell in sorted(cells, key=lambda cell: self._costs.expected(cell, self._least(cell))):
            task = self._fitted(Task(cell, self._least(cell)), left_s)
            if task is not None:
                return task
        self.ended = "budget"
        return None

    def _plan_round(self, left_s: float) -> bool:
        """Fills the queue with what is open, the most wanted first; False when there is nothing, or no time."""
        self.round += 1
        decisions = self.decisions()
        self._open = [one for one in decisions if not one.decided]
        critical = self._critical(self._open)
        self._cheapest = min((self._costs.expected(cell, self._least(cell)) for cell in critical), default=math.inf)
        # What was void is looked at again, and what did not fit, if it does now.
        wanted = dict.fromkeys(self.unseen(), self._terms.first) | dict(self._confirming(decisions))
        spent = self._seconds(wanted)
        for one in self._ranked():
            own = {cell: self._wanted(cell, one.needs.get(cell, 1.0)) for cell in self._critical([one])}
            more = {cell: windows for cell, windows in own.items() if windows > wanted.get(cell, 0)}
            cost = self._seconds(more)
            if wanted and spent + cost > left_s * _ROUND:
                continue
            wanted |= more
            spent += cost
        if not wanted:
            self.ended = "spent" if self._open else "decided"
            return False
        self._queue = [Task(cell, wanted[cell]) for cell in self._order(list(wanted))]
        if all(self._fitted(task, left_s) is None for task in self._queue):
            self.ended = "budget"
            return False
        return True

    def _confirming(self, decisions: Iterable[Decision]) -> Iterable[tuple[int, int]]:
        """What a recommendation will name is measured as in the full grid: a first look is flagged as unsettled."""
        for one in decisions:
            if one.question.kind != "best" or not one.decided:
                continue
            for standing in one.standings:
                for cell in (standing.leader, standing.runner_up):
                    if cell is not None and self._can(cell) and self._last.get(cell, 0) < self._full:
                        yield cell, self._full

    def _ranked(self) -> list[Decision]:
        """Open questions: by kind, and of one kind those first that the least time decides."""

        def time(one: Decision) -> float:
            return math.fsum(
                self._costs.expected(cell, math.ceil(self._windows[cell] * factor))
                for cell, factor in one.needs.items()
                if cell in self._windows
            )

        return sorted(self._open, key=lambda one: (KINDS.index(one.question.kind), time(one)))

    def _wanted(self, cell: int, factor: float) -> int:
        """Windows of a cell's next measurement."""
        least = self._least(cell)
        if cell not in self._windows:
            return least
        more = math.ceil(self._windows[cell] * (factor - 1.0))
        most = min(_GROWTH * least, max(_AT_A_TIME * self._full, least))
        windows = max(least, min(more, most))
        return self._most_windows(cell, least, windows, self._budget_s * _ONE)

    def _seconds(self, wanted: Mapping[int, int]) -> float:
        return math.fsum(self._costs.expected(cell, windows) for cell, windows in wanted.items())
