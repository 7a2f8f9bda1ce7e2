"""The regression gate: runs against a baseline, case by case and metric by metric, with the process as the sample."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any, Final, Literal

from pytest_gpuio.analysis import comparable
from pytest_gpuio.analysis.decision import LEAST_BASELINE, LEAST_NEW, LEAST_PAIRS, Decision, Sessions, decide
from pytest_gpuio.analysis.metrics import metric
from pytest_gpuio.analysis.policy import Policy, Terms
from pytest_gpuio.core.errors import ConfigError
from pytest_gpuio.results.runs import RunFile

Mode = Literal["pairs", "lookback"]
Verdict = Literal["SLOWER", "FASTER", "SAME", "AMBIGUOUS", "NEW", "MISSING", "VOID", "INCOMPARABLE"]

#: Verdicts that make the gate fail.
FAILING: Final[frozenset[Verdict]] = frozenset({"SLOWER", "MISSING", "VOID"})
#: Those that make a strict gate fail as well.
_UNDECIDED: Final[frozenset[Verdict]] = frozenset({"AMBIGUOUS", "INCOMPARABLE"})
#: Most telling first, the order of tables.
ORDER: Final[tuple[Verdict, ...]] = (
    "SLOWER", "VOID", "MISSING", "INCOMPARABLE", "AMBIGUOUS", "FASTER", "NEW", "SAME",
)  # fmt: skip
#: Exit statuses of ``gpuio gate``; 2 is wrong usage, as everywhere.
PASSED: Final = 0
FAILED: Final = 1
RERUN: Final = 3
NOTHING_COMPARED: Final = 4


@dataclass(frozen=True, slots=True)
class Finding:
    """The verdict on one metric of one case, or on the case (``metric`` is then None).

    Attributes:
        case: history key. axes: of the cell.
        metric: name, or None.
        verdict: see the how-to on gates.
        candidate: what a confirmed re-run would make of an AMBIGUOUS one; None where a re-run promises nothing.
        reason: one sentence.
        decision: figures the verdict was made from; None where nothing could be computed.
    """

    case: str
    axes: Mapping[str, Any]
    metric: str | None
    verdict: Verdict
    reason: str
    candidate: Literal["SLOWER", "FASTER"] | None = None
    decision: Decision | None = None


@dataclass(frozen=True, slots=True)
class GateReport:
    """All findings of a gate.

    Attributes:
        mode: how sessions were compared.
        baseline, new, confirm: paths of the runs.
        findings: in order of cases and metrics.
        ignored: cases the policy leaves out.
        strict: what could not be decided or compared fails, too.
    """

    mode: Mode
    baseline: tuple[str, ...]
    new: tuple[str, ...]
    confirm: tuple[str, ...]
    findings: tuple[Finding, ...]
    ignored: tuple[str, ...] = ()
    strict: bool = False

    def fails(self, finding: Finding) -> bool:
        """Whether this finding makes the gate fail."""
        return finding.verdict in FAILING or (self.strict and finding.verdict in _UNDECIDED)

    def status(self) -> int:
        """Exit status: 0 passed, 1 failed, 3 cases are to be run again, 4 nothing could be compared."""
        verdicts = {finding.verdict for finding in self.findings}
        if any(map(self.fails, self.findings)):
            return FAILED
        if self.reruns():
            return RERUN
        return NOTHING_COMPARED if verdicts and verdicts <= {"INCOMPARABLE", "NEW"} else PASSED

    def reruns(self) -> tuple[str, ...]:
        """Cases that look slower and must be measured once more before anybody is alarmed."""
        found = (finding.case for finding in self.findings if finding.candidate == "SLOWER")
        return tuple(dict.fromkeys(found))

    def counts(self) -> dict[str, int]:
        """Findings by verdict, in the order of tables, without zeros."""
        verdicts = [finding.verdict for finding in self.findings]
        return {verdict: verdicts.count(verdict) for verdict in ORDER if verdict in verdicts}


def judge(
    baseline: Sequence[RunFile],
    new: Sequence[RunFile],
    policy: Policy,
    *,
    confirm_baseline: Sequence[RunFile] = (),
    confirm: Sequence[RunFile] = (),
    mode: Mode | None = None,
) -> GateReport:
    """Compares new runs with a baseline.

    Args:
        baseline: oldest first.
        new: oldest first.
        policy: what to judge, and how strictly.
        confirm_baseline: the re-run's baseline, when sessions are pairs.
        confirm: the re-run.
        mode: how to compare; by default pairs when the runs alternate in time (ABBA), else a look-back.

    Raises:
        ConfigError: no runs, or pairs that are none.
    """
    if not baseline or not new:
        raise ConfigError("a gate needs at least one baseline run and one new run.")
    mode = mode or ("pairs" if len(new) >= LEAST_PAIRS and alternate(baseline, new) else "lookback")
    if mode == "pairs":
        for old, fresh, what in ((baseline, new, "runs"), (confirm_baseline, confirm, "runs of the confirmation")):
            if len(old) != len(fresh):
                raise ConfigError(f"{len(old)} baseline and {len(fresh)} new {what} are no pairs: give one for each.")
    elif confirm_baseline:
        raise ConfigError("a look-back has one baseline: leave --confirm-baseline out, or say --pairs.")
    findings: list[Finding] = []
    ignored: list[str] = []
    for case in _cases(baseline, new):
        record = _record(case, new) or _record(case, baseline)
        terms = policy.terms(record) if record else Policy().terms({"axes": {}, "case": case, "phase": ""})
        if terms.ignore:
            ignored.append(case)
            continue
        judged = _Case(case, record, terms, policy, mode)
        findings += judged.findings(baseline, new, confirm_baseline, confirm)
    paths = [tuple(run.path for run in runs) for runs in (baseline, new, (*confirm_baseline, *confirm))]
    return GateReport(mode, paths[0], paths[1], paths[2], tuple(findings), tuple(ignored))


def alternate(baseline: Sequence[RunFile], new: Sequence[RunFile]) -> bool:
    """Whether the runs were taken in turns (AB, ABBA, ...): in order of time, each two hold one of both."""
    if len(baseline) != len(new):
        return False
    order = sorted([(run.created, 0) for run in baseline] + [(run.created, 1) for run in new])
    times = [time for time, _ in order]
    if any(a == b for a, b in pairwise(times)):
        return False
    sides = [side for _, side in order]
    return all({sides[i], sides[i + 1]} == {0, 1} for i in range(0, len(sides), 2))


@dataclass(frozen=True, slots=True)
class _Case:
    """One case on its way to its findings."""

    case: str
    record: Mapping[str, Any] | None
    terms: Terms
    policy: Policy
    mode: Mode

    def findings(
        self,
        baseline: Sequence[RunFile],
        new: Sequence[RunFile],
        confirm_baseline: Sequence[RunFile],
        confirm: Sequence[RunFile],
    ) -> Iterable[Finding]:
        for run in (*new, *confirm):
            if (void := run.voids.get(self.case)) is not None:
                found = self._say("VOID", f"{void['gate']}: {void['reason']} ({run.path})")
                return [found if found.axes else replace(found, axes=void.get("axes") or {})]
        if not any(self.case in run.cells for run in new):
            if not self.terms.missing:
                return []
            return [self._say("MISSING", self._why_missing(new))]
        if not any(self.case in run.cells for run in baseline):
            voids = any(self.case in run.voids for run in baseline)
            return [self._say("NEW", "void in every baseline run" if voids else "in no baseline run")]
        old, fresh = self._paired(baseline, new) if self.mode == "pairs" else (list(baseline), list(new))
        latest = next(run for run in reversed(fresh or list(new)) if self.case in run.cells)
        same, problem = self._comparable(old, latest)
        again_old, again = self._paired(confirm_baseline, confirm) if self.mode == "pairs" else ([], list(confirm))
        others = [run for run in (*fresh, *again) if self.case in run.cells]
        for run in others:
            problem = problem or self._difference(latest, run)
        if problem is not None and (
            not same or self.mode == "pairs" or any(self._difference(latest, r) for r in others)
        ):
            return [self._say("INCOMPARABLE", problem)]
        return [self._metric(name, same, fresh, again_old, again) for name in self.terms.metrics]

    def _say(self, verdict: Verdict, reason: str, name: str | None = None) -> Finding:
        axes = {} if self.record is None else self.record["axes"]
        return Finding(self.case, axes, name, verdict, reason)

    def _why_missing(self, new: Sequence[RunFile]) -> str:
        for run in reversed(new):
            if self.case in run.skips:
                return f"skipped: {run.skips[self.case]}"
            if self.case in run.failures:
                return f"failed: {run.failures[self.case]}"
        stopped = [run.path for run in new if run.interrupted]
        return f"in no new run ({stopped[0]} was interrupted)" if stopped else "in no new run"

    def _paired(self, old: Sequence[RunFile], new: Sequence[RunFile]) -> tuple[list[RunFile], list[RunFile]]:
        both = [(a, b) for a, b in zip(old, new, strict=True) if self.case in a.cells and self.case in b.cells]
        return [a for a, _ in both], [b for _, b in both]

    def _difference(self, old: RunFile, new: RunFile) -> str | None:
        return comparable.difference(
            (old.machine, old.cells[self.case]), (new.machine, new.cells[self.case]), self.policy.allow
        )

    def _comparable(self, old: Sequence[RunFile], latest: RunFile) -> tuple[list[RunFile], str | None]:
        """The baseline runs that may be compared with the latest new one, and why the newest of the others may not."""
        same, problem = [], None
        for run in old:
            if self.case not in run.cells:
                continue
            found = self._difference(run, latest)
            if found is None:
                same.append(run)
            else:
                problem = found
        return same, problem

    def _metric(
        self,
        name: str,
        old: Sequence[RunFile],
        new: Sequence[RunFile],
        again_old: Sequence[RunFile],
        again: Sequence[RunFile],
    ) -> Finding:
        logs = metric(name).logs

        def sessions(runs: Sequence[RunFile]) -> Sessions:
            return [logs(run.cells[self.case]) for run in runs if self.case in run.cells]

        before, after, before_again, after_again = map(sessions, (old, new, again_old, again))
        lacking = [sum(not values for values in group) for group in (before, after)]
        if lacking[1]:
            if lacking[1] == len(after) and lacking[0] == len(before):
                return self._say("AMBIGUOUS", "neither side has this metric", name)
            return self._say("MISSING", f"{lacking[1]} of {len(after)} new runs do not have this metric", name)
        if self.mode == "pairs":
            keep = [i for i, values in enumerate(before) if values]
            before, after = [before[i] for i in keep], [after[i] for i in keep]
            keep = [i for i, both in enumerate(zip(before_again, after_again, strict=True)) if all(both)]
            before_again, after_again = [before_again[i] for i in keep], [after_again[i] for i in keep]
        else:
            before = [values for values in before if values]
            after_again = [values for values in after_again if values]
        if not before:
            return self._say("NEW", "no baseline run has this metric", name)
        decision = decide(
            before, after, before_again, after_again,
            paired=self.mode == "pairs", higher_is_better=metric(name).better == "higher",
            min_effect=self.terms.effect(name),
        )  # fmt: skip
        axes = {} if self.record is None else self.record["axes"]
        return Finding(self.case, axes, name, decision.verdict, decision.reason, decision.candidate, decision)


def _cases(baseline: Sequence[RunFile], new: Sequence[RunFile]) -> list[str]:
    """Every case, those of the newest run first, each group in the order it ran."""
    cases: dict[str, None] = {}
    for run in (*reversed(new), *reversed(baseline)):
        cases.update(dict.fromkeys(run.cells))
    for run in new:
        cases.update(dict.fromkeys(run.voids))
    return list(cases)


def _record(case: str, runs: Sequence[RunFile]) -> Mapping[str, Any] | None:
    return next((run.cells[case] for run in reversed(runs) if case in run.cells), None)


#: Said where more sessions are needed.
NEEDS: Final[Mapping[Mode, str]] = {
    "pairs": f"{LEAST_PAIRS} pairs",
    "lookback": f"{LEAST_BASELINE} baseline runs and {LEAST_NEW} new ones",
}
