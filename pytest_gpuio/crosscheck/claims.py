"""Claims about our own overhead: what is claimed, and what a run of the suite says to it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from pytest_gpuio.crosscheck.lab import Lab
from pytest_gpuio.crosscheck.verdict import Spread, Target, Verdict, judge_figure, judge_ratio


@dataclass(frozen=True, slots=True)
class Row:
    """A claim's line in the table.

    Attributes:
        claim: the claim. figure: what was measured, in its unit; None = nothing. low, high: of the repetitions.
        verdict: see :mod:`pytest_gpuio.crosscheck.verdict`. reason: sentences below the table.
        details: everything else, JSON-able.
        compared: it is a ratio of two tools, judged with the strangers of its own runs.
    """

    claim: Claim
    figure: float | None
    low: float | None
    high: float | None
    verdict: Verdict
    reason: str
    details: Mapping[str, Any] = field(default_factory=dict)
    compared: bool = False

    def to_json(self) -> dict[str, Any]:
        """JSON-able values."""
        return {
            "name": self.claim.name,
            "title": self.claim.title,
            "unit": self.claim.unit,
            "target": None if self.claim.target is None else str(self.claim.target),
            "figure": self.figure,
            "low": self.low,
            "high": self.high,
            "verdict": self.verdict,
            "reason": self.reason,
            "details": dict(self.details),
        }

    def excused(self, disturbed: str | None) -> Row:
        """This line when strangers disturbed the whole of its measurement: what was missed then is not decided.

        What was reached in spite of them is reached all the same: none of these figures gets better by disturbance.
        """
        if disturbed is None or self.compared or self.verdict != "missed":
            return self
        reason = "; ".join(part for part in (disturbed, self.reason) if part)
        return replace(self, verdict="not decided", reason=reason)


@dataclass(frozen=True, slots=True)
class Claim:
    """One line of a suite.

    Attributes:
        name: for ``--only``. title: for people. unit: of the figure. target: None = reported only.
    """

    name: str
    title: str
    unit: str
    target: Target | None

    def not_measurable(self, reason: str) -> Row:
        """The line when this machine cannot say."""
        return Row(self, None, None, None, "not measurable here", reason)

    def failed(self, reason: str) -> Row:
        """The line when the measurement itself went wrong."""
        return Row(self, None, None, None, "not decided", reason)

    def of_ratio(
        self,
        ratio: Spread | None,
        noise: tuple[float, float] | None,
        notes: Sequence[str] = (),
        details: Mapping[str, Any] | None = None,
        *,
        disturbed: str | None = None,
    ) -> Row:
        """The line of a ratio of two tools.

        Args:
            ratio: of the pairs.
            noise: floor of the other tool against itself.
            notes: further sentences.
            details: JSON-able.
            disturbed: why the machine was not quiet enough; None = it was.
        """
        if self.target is None:
            raise ValueError(f"the claim {self.name} compares with nothing")
        verdict, why = judge_ratio(ratio, self.target, noise, disturbed=disturbed)
        reason = "; ".join((why, *notes))
        return replace(self._row(ratio, verdict, reason, details), compared=True)

    def of_figures(
        self, spread: Spread | None, reason: str = "", details: Mapping[str, Any] | None = None, *, judged: bool = True
    ) -> Row:
        """The line of repeated figures that stand for themselves; the median is judged.

        Args:
            spread: of the repetitions.
            reason: sentences.
            details: JSON-able.
            judged: False = too few or too short for a verdict.
        """
        verdict: Verdict = "reported only" if self.target is None else "not decided"
        if self.target is not None and judged:
            verdict = judge_figure(None if spread is None else spread.median, self.target)
        return self._row(spread, verdict, reason, details)

    def _row(self, spread: Spread | None, verdict: Verdict, reason: str, details: Mapping[str, Any] | None) -> Row:
        if spread is None:
            return Row(self, None, None, None, verdict, reason, details or {})
        return Row(self, spread.median, spread.low, spread.high, verdict, reason, details or {})


@dataclass(frozen=True, slots=True)
class Experiment:
    """What measures one or several claims at once."""

    claims: tuple[Claim, ...]
    run: Callable[[Lab], Sequence[Row]]
