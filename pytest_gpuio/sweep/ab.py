"""Two sides measured by interleaved processes until their difference is decided."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from pytest_gpuio.analysis.across import allowed, without_axes
from pytest_gpuio.analysis.decision import LEAST_PAIRS
from pytest_gpuio.analysis.gate import GateReport, judge
from pytest_gpuio.analysis.policy import Policy
from pytest_gpuio.core.errors import ConfigError
from pytest_gpuio.results.runs import RunFile
from pytest_gpuio.sweep.pytest_process import Side, measure

#: Takes one line of progress.
Tell = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class Effort:
    """How many pairs.

    Attributes:
        pairs: of the first look. confirm: of the confirmation, measured only for cases that look changed.
        timeout_s: of one process; None = as long as it takes.
    """

    pairs: int = 10
    confirm: int = 10
    timeout_s: float | None = None


def run_ab(
    a: Side, b: Side, folder: Path, policy: Policy, effort: Effort, tell: Tell, across: Sequence[str] = ()
) -> GateReport:
    """Measures A and B in turns (A B B A A B ...), looks, and confirms what looks changed by fresh pairs.

    It stops early where every case is surely the same; looking more often for a difference would make false alarms.
    Interrupted, it judges the pairs that are complete.

    Args:
        a: the baseline.
        b: what is judged against it.
        folder: for results and logs; must exist and be empty.
        policy: what to judge.
        effort: number of pairs.
        tell: is given one line per finished process.
        across: axes the sides differ in on purpose.

    Raises:
        GpuioError: a side measured nothing.
        ConfigError: too few pairs, or cells that cannot be told apart.
        KeyboardInterrupt: before the first complete pair.
    """
    if effort.pairs < LEAST_PAIRS or effort.confirm < 1:
        raise ConfigError(f"{effort.pairs} and {effort.confirm} pairs: at least {LEAST_PAIRS} and 1 are needed.")
    policy = replace(policy, allow=policy.allow | allowed(across))
    first = _Stage("look", a, b, folder, effort, tell, across)
    first.pairs_until(effort.pairs, lambda: _same(first.judged(policy)))
    report = first.judged(policy)
    candidates = tuple(dict.fromkeys(found.case for found in report.findings if found.candidate))
    if not candidates or first.interrupted:
        return report
    cases = folder / "cases.txt"
    cases.write_text("".join(f"{case}\n" for case in first.full_names(candidates)), encoding="utf-8")
    tell(f"{len(candidates)} cases look changed: measuring them again")
    second = _Stage("confirm", a, b, folder, effort, tell, across, extra=(f"--gpuio-case=@{cases}",))
    second.pairs_until(effort.confirm, lambda: False)
    if not second.old:
        return report
    return judge(first.old, first.new, policy, confirm_baseline=second.old, confirm=second.new, mode="pairs")


def _same(report: GateReport) -> bool:
    return bool(report.findings) and all(found.verdict in ("SAME", "NEW") for found in report.findings)


class _Stage:
    """Pairs of one stage; ``old`` and ``new`` hold complete pairs only."""

    def __init__(
        self,
        name: str,
        a: Side,
        b: Side,
        folder: Path,
        effort: Effort,
        tell: Tell,
        across: Sequence[str],
        extra: Sequence[str] = (),
    ) -> None:
        self.old: list[RunFile] = []
        self.new: list[RunFile] = []
        self.interrupted = False
        self._name, self._sides, self._folder = name, (a, b), folder
        self._effort, self._tell, self._across, self._extra = effort, tell, across, tuple(extra)
        self._names: dict[str, set[str]] = {}

    def pairs_until(self, count: int, decided: Callable[[], bool]) -> None:
        """Measures pairs until there are so many, or enough to decide, or Ctrl-C."""
        for number in range(count):
            order = (0, 1) if number % 2 == 0 else (1, 0)
            pair: dict[int, RunFile] = {}
            try:
                for side in order:
                    pair[side] = self._one(side, number, count)
            except KeyboardInterrupt:
                if not self.old:
                    raise
                self.interrupted = True
                self._tell("interrupted: judging the pairs that are complete")
                return
            self.old.append(pair[0])
            self.new.append(pair[1])
            if LEAST_PAIRS < len(self.old) < count and decided():
                self._tell(f"decided after {len(self.old)} pairs")
                return

    def judged(self, policy: Policy) -> GateReport:
        """What the pairs so far say."""
        return judge(self.old, self.new, policy, mode="pairs")

    def full_names(self, cases: Sequence[str]) -> list[str]:
        """Names of the cells behind cases that were compared across axes."""
        return [name for case in cases for name in sorted(self._names[case])]

    def _one(self, side: int, number: int, count: int) -> RunFile:
        chosen = self._sides[side]
        results = self._folder / f"{self._name}-{number + 1:02}-{chosen.name}.json"
        run = measure(chosen, results, self._extra, timeout_s=self._effort.timeout_s)
        short = without_axes(run, self._across)
        for full, case in zip(run.cells, short.cells, strict=True):
            self._names.setdefault(case, set()).add(full)
        self._tell(f"{self._name} pair {number + 1}/{count} {chosen.name}: {len(run.cells)} cells")
        return short
