"""Where an adaptive sweep's time goes, against simulated machines: their true levels are known, and clocks are fake."""

import math
import random
import statistics
from dataclasses import dataclass, field

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pytest_gpuio.core.cell import Cell
from pytest_gpuio.measure.stopping import effective_count
from pytest_gpuio.sweep.adaptive import Adaptive
from pytest_gpuio.sweep.costs import Costs
from pytest_gpuio.sweep.decisions import decide
from pytest_gpuio.sweep.expand import PlannedCell
from pytest_gpuio.sweep.levels import Sample, levels
from pytest_gpuio.sweep.questions import questions
from pytest_gpuio.sweep.terms import Terms

PATHS = ("psync", "libaio", "io_uring", "io_uring_sqpoll")
MARGIN = 0.03
FULL = 5


def forecast(_cell, windows):
    """Warm-up, windows of 250 ms, and what is between cells."""
    return 0.23 + 0.25 * windows


@dataclass
class Machine:
    """Cells of one workload whose true levels follow from a latency, a price of a request and the device's limit."""

    seed: int
    paths: tuple = PATHS
    sizes: tuple = (4096, 65536, 1 << 20)
    depths: tuple = (1, 4, 16, 64)
    jobs: tuple = (1, 2)
    between: float = 0.01
    overrun: float = 0.2
    workloads: tuple = ("micro/randread",)
    cells: list = field(default_factory=list)
    true: list = field(default_factory=list)

    def __post_init__(self):
        draw = self.draw = random.Random(self.seed)
        self.spread = []
        for workload in self.workloads:
            limit = draw.uniform(2e9, 6e9)
            for path in self.paths:
                latency, price, reach = (
                    draw.uniform(6e-5, 9e-5),
                    draw.uniform(3e-6, 8e-6),
                    math.exp(draw.gauss(0, 0.03)),
                )
                for bs in self.sizes:
                    for qd in self.depths if path != "psync" else (1,):
                        for jobs in self.jobs:
                            alone = qd * jobs * bs / (latency + bs / 2e9)
                            most = min(limit * reach, jobs * bs / price)
                            self.cells.append(
                                PlannedCell(Cell("sweep", path, "nvme_ssd", "default", workload, bs, qd, jobs))
                            )
                            self.true.append(-math.log(1 / alone + 1 / most))
                            self.spread.append(draw.uniform(0.02, 0.05))
        self.kinds = {n: (p.cell.workload, p.cell.datapath) for n, p in enumerate(self.cells)}
        self.asked = questions(self.cells)
        self.now, self.log = 0.0, []

    def adaptive(self, budget, confidence=0.95, first=2):
        def shuffled(numbers):
            return random.Random(self.seed).sample(numbers, len(numbers))

        costs = Costs(forecast, lambda cell: [self.kinds[cell], ()])
        return Adaptive(
            len(self.cells), self.asked, Terms(confidence, MARGIN, first), costs, full=FULL, budget_s=budget,
            order=shuffled, kinds=self.kinds,
        )  # fmt: skip

    def measure(self, cell, windows):
        """A sample, and the seconds it took."""
        draw = self.draw
        level = self.true[cell] + draw.gauss(0, self.between)
        logs = [level + draw.gauss(0, self.spread[cell]) for _ in range(windows)]
        took = 1.2 * forecast(cell, windows) * math.exp(draw.gauss(0, self.overrun))
        self.now += took
        self.log.append((cell, windows))
        return Sample(statistics.fmean(logs), statistics.variance(logs), effective_count(logs)), took

    def run(self, budget, adaptive=None, **more):
        adaptive = adaptive or self.adaptive(budget, **more)
        while (task := adaptive.next(budget - self.now)) is not None:
            sample, took = self.measure(task.cell, task.windows)
            adaptive.measured(task.cell, sample, task.windows, took)
        return adaptive

    def right(self, decision):
        """Exhaustive search over the true levels."""
        question, within = decision.question, math.log1p(MARGIN)
        if question.kind == "knee":
            curve = [self.true[cell] for _, cell in question.points]
            at = [cell for _, cell in question.points].index(decision.knee)
            edge = max(curve) + math.log(0.9)
            return curve[at] >= edge - within and all(value <= edge + within for value in curve[:at])
        for place, standing in zip(question.places, decision.standings, strict=True):
            best = {path: max(self.true[cell] for cell in cells) for path, cells in place.paths.items()}
            rivals = max(value for path, value in best.items() if path != standing.path)
            if rivals > self.true[standing.leader] + within or (standing.ahead and rivals > best[standing.path]):
                return False
        return True


@pytest.mark.parametrize("confidence", [0.9, 0.99])
def test_decisions_are_right_at_least_as_often_as_was_asked(confidence):
    decided = right = 0
    for seed in range(12):
        machine = Machine(seed)
        adaptive = machine.run(1000.0, confidence=confidence)
        for decision in adaptive.decisions():
            decided += decision.decided
            right += decision.decided and machine.right(decision)
    assert decided > 250, "nearly all of 12 x 23 questions are decided with so much time"
    assert right / decided >= confidence


def test_it_takes_far_less_time_than_measuring_every_cell_until_the_same_is_decided():
    shares = []
    for seed in range(4):
        machine = Machine(seed)
        adaptive = machine.run(5000.0)
        assert adaptive.ended == "decided"
        everything = Machine(seed)
        samples = {cell: [] for cell in range(len(everything.cells))}
        for windows in (2, 4, 8, *[16] * 30):
            for cell, own in samples.items():
                own.append(everything.measure(cell, windows)[0])
            known = levels(samples, everything.kinds)
            if all(decide(q, known, (), confidence=0.95, margin=MARGIN).decided for q in everything.asked):
                break
        shares.append(machine.now / everything.now)
    assert statistics.fmean(shares) < 0.4


@pytest.mark.parametrize("overrun", [0.0, 0.2, 0.4])
@pytest.mark.parametrize("budget", [100.0, 150.0, 200.0])
def test_a_budget_is_kept_within_two_percent_though_cells_overrun(budget, overrun):
    for seed in range(5):
        machine = Machine(seed, overrun=overrun)
        adaptive = machine.run(budget)
        assert machine.now <= 1.02 * budget
        if adaptive.ended != "decided":
            assert machine.now >= 0.98 * budget


def test_an_hour_ends_after_an_hour():
    machine = Machine(1, jobs=(1, 2, 4), workloads=("micro/randread", "micro/seqread", "micro/randwrite"), between=0.03)
    adaptive = machine.run(3600.0, confidence=0.999)
    assert adaptive.ended == "budget"
    assert 0.98 * 3600 <= machine.now <= 1.02 * 3600


def test_time_goes_to_contenders():
    machine = Machine(3)
    adaptive = machine.run(400.0)
    windows = {cell: sum(w for c, w in machine.log if c == cell) for cell in range(len(machine.cells))}
    assert set(windows.values()) >= {2}, "what is far behind had its first look and nothing more"
    most = max(windows, key=windows.get)
    assert windows[most] >= 8 * min(windows.values())
    assert adaptive.left == 0


def test_what_a_recommendation_will_name_gets_the_windows_of_the_full_grid():
    machine = Machine(0)
    adaptive = machine.run(5000.0)
    (best,) = [one for one in adaptive.decisions() if one.question.kind == "best"]
    last = dict(machine.log)
    standing = best.standings[0]
    assert last[standing.leader] >= FULL
    assert last[standing.runner_up] >= FULL


def test_what_is_decided_first_is_the_best_path():
    shares = {"best": [], "knee": []}
    for seed in range(12):
        machine = Machine(seed, between=0.0)
        for one in machine.run(110.0).decisions():
            if one.question.kind in shares:
                shares[one.question.kind].append(one.decided)
    assert statistics.fmean(shares["best"]) >= 0.5


def test_a_new_run_goes_on_with_what_is_known():
    machine = Machine(5)
    machine.run(60.0)
    first = list(machine.log)
    again = Machine(5)
    adaptive = again.adaptive(2000.0)
    known = Machine(5)
    for cell, windows in first:
        adaptive.measured(cell, known.measure(cell, windows)[0], windows)
    again.run(2000.0, adaptive)
    looks = [cell for cell, _ in again.log[: len(machine.cells) - len({cell for cell, _ in first})]]
    assert not set(looks) & {cell for cell, _ in first}, "only what was not seen yet gets a first look"
    assert adaptive.ended == "decided"


def test_cells_that_cannot_be_measured_keep_nothing_open():
    machine = Machine(2)
    adaptive = machine.adaptive(3000.0)
    for number, planned in enumerate(machine.cells):
        if planned.cell.datapath == "io_uring_sqpoll":
            adaptive.drop(number, "needs liburing: not found")
    machine.run(3000.0, adaptive)
    assert adaptive.ended == "decided"
    assert all(machine.cells[cell].cell.datapath != "io_uring_sqpoll" for cell, _ in machine.log)
    leaders = [s.path for one in adaptive.decisions() for s in one.standings]
    assert "io_uring_sqpoll" not in leaders


def test_what_can_never_be_told_apart_ends_too():
    machine = Machine(0, sizes=(4096,), jobs=(1,))
    machine.true = [0.0] * len(machine.true)
    machine.between = 0.5
    adaptive = machine.run(1e9)
    assert adaptive.ended == "spent"
    assert any(not one.decided for one in adaptive.decisions())


@settings(deadline=None, max_examples=40)
@given(
    seed=st.integers(0, 10**6),
    budget=st.floats(1.0, 200.0),
    sizes=st.integers(1, 3),
    depths=st.integers(1, 4),
    first=st.integers(2, 4),
    overrun=st.sampled_from([0.0, 0.2]),
)
def test_properties(seed, budget, sizes, depths, first, overrun):
    machine = Machine(seed, sizes=(4096, 16384, 65536)[:sizes], depths=(1, 4, 16, 64)[:depths], overrun=overrun)
    adaptive = machine.adaptive(budget, first=first)
    seen = {}
    while (task := adaptive.next(budget - machine.now)) is not None:
        left = budget - machine.now
        costs = adaptive._costs
        assert costs.expected(task.cell, task.windows) <= left, "never starts what would pass the budget"
        assert task.windows >= seen.get(task.cell, first), "the newest record is the longest"
        if task.cell in seen:
            fits = [cell for cell in adaptive.unseen() if costs.most(cell, first) <= left]
            assert not fits, "all are seen before any is seen twice, unless they do not fit"
        seen[task.cell] = task.windows
        sample, took = machine.measure(task.cell, task.windows)
        adaptive.measured(task.cell, sample, task.windows, took)
    assert adaptive.ended is not None
    if overrun == 0.0:
        assert machine.now <= 1.001 * budget or len(machine.log) == 1
    if adaptive.ended == "decided":
        assert adaptive.left == 0
        assert all(one.decided for one in adaptive.decisions())
