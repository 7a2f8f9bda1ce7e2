"""What a gate found: a terminal table, Markdown for pull requests, JUnit XML, and plain data."""

from __future__ import annotations

import dataclasses
import xml.etree.ElementTree as ET
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from rich.text import Text

from pytest_gpuio.analysis.decision import Decision
from pytest_gpuio.analysis.gate import ORDER, Finding, GateReport, Mode
from pytest_gpuio.report.labels import short_case
from pytest_gpuio.report.tables import new_table, render

_HOW: Final[Mapping[Mode, str]] = {
    "pairs": "interleaved pairs, exact sign-flip test",
    "lookback": "look-back, exact permutation test",
}
_COLOURS: Final = {"SLOWER": "red", "VOID": "red", "MISSING": "red", "FASTER": "green", "SAME": "dim"}
_MARKS: Final = {
    "SLOWER": ":x:",
    "VOID": ":x:",
    "MISSING": ":x:",
    "INCOMPARABLE": ":grey_question:",
    "AMBIGUOUS": ":grey_question:",
    "FASTER": ":rocket:",
    "NEW": ":new:",
    "SAME": ":white_check_mark:",
}
#: Verdicts that say nothing either way.
_SKIPPED: Final = frozenset({"AMBIGUOUS", "INCOMPARABLE"})
_HEADS: Final = ("verdict", "case", "metric", "change", "95 % interval", "p", "counts from", "why")
#: What a gate amounts to, by exit status.
HEADLINES: Final[Mapping[int, str]] = {
    0: "passed",
    1: "FAILED",
    3: "not decided: measure the cases named below once more",
    4: "nothing could be compared",
}


def gate_text(report: GateReport, width: int = 120, *, colour: bool = False, everything: bool = False) -> str:
    """The findings as a table, what they sum up to, and what to do next.

    Args:
        report: of a gate.
        width: columns of the terminal.
        colour: with ANSI escapes.
        everything: SAME and NEW rows, too.

    Returns:
        Lines that end in a newline.
    """
    shown = [finding for finding in _ordered(report) if everything or finding.verdict not in ("SAME", "NEW")]
    lines = ""
    if shown:
        table = new_table()
        for head in _HEADS:
            table.add_column(head, no_wrap=head not in ("case", "why"), overflow="fold")
        for finding in shown:
            verdict, *rest = _cells(finding)
            table.add_row(Text(verdict, style=_COLOURS.get(finding.verdict, "yellow")), *map(Text, rest))
        lines = render(table, width, colour=colour)
    return lines + "\n".join(_summary(report)) + "\n"


def gate_markdown(report: GateReport) -> str:
    """GitHub-flavoured Markdown: a headline, the rows that matter, the others folded away."""
    rows = [(finding, _cells(finding)) for finding in _ordered(report)]
    loud = [row for row in rows if row[0].verdict not in ("SAME", "NEW")]
    quiet = [row for row in rows if row[0].verdict in ("SAME", "NEW")]
    status = report.status()
    parts = [f"### gpuio gate: {HEADLINES[status]}", ""]
    parts += _summary(report)[1:]
    if loud:
        parts += ["", *_markdown_table(loud)]
    if quiet:
        parts += ["", "<details>", f"<summary>{len(quiet)} unchanged or new</summary>", ""]
        parts += [*_markdown_table(quiet), "", "</details>"]
    return "\n".join(parts) + "\n"


def gate_junit(report: GateReport) -> str:
    """JUnit XML: one test case per finding; SLOWER, MISSING and VOID fail, what is undecided is skipped."""
    failures = sum(map(report.fails, report.findings))
    skipped = sum(finding.verdict in _SKIPPED and not report.fails(finding) for finding in report.findings)
    # Attributes are those that the schema of Jenkins' xunit plug-in (which pytest's tests use) asks for.
    suite = ET.Element(
        "testsuite",
        name="gpuio-gate",
        tests=str(len(report.findings)),
        failures=str(failures),
        errors="0",
        skipped=str(skipped),
    )
    for finding in report.findings:
        case = ET.SubElement(suite, "testcase", classname=finding.case, name=finding.metric or "case")
        verdict, _, _, change, *_ = _cells(finding)
        text = f"{verdict} {change}: {finding.reason}".replace(" -:", ":")
        if report.fails(finding):
            ET.SubElement(case, "failure", type=finding.verdict, message=text)
        elif finding.verdict in _SKIPPED:
            ET.SubElement(case, "skipped", message=text)
        else:
            ET.SubElement(case, "system-out").text = text
    ET.indent(suite)
    return f'<?xml version="1.0" encoding="utf-8"?>\n{ET.tostring(suite, encoding="unicode")}\n'


def gate_data(report: GateReport) -> dict[str, Any]:
    """The report as a JSON-able map, with the exit status under ``status``."""
    content = dataclasses.asdict(report)
    return {
        "kind": "gpuio-gate",
        "status": report.status(),
        "counts": report.counts(),
        "reruns": list(report.reruns()),
        **content,
    }


def _ordered(report: GateReport) -> list[Finding]:
    return sorted(report.findings, key=lambda finding: ORDER.index(finding.verdict))


def _cells(finding: Finding) -> tuple[str, ...]:
    verdict = f"{finding.verdict} ({finding.candidate}?)" if finding.candidate else finding.verdict
    case = short_case(finding.axes) if finding.axes else finding.case
    decision = finding.decision
    if decision is None:
        return verdict, case, finding.metric or "-", "-", "-", "-", "-", finding.reason
    return (verdict, case, finding.metric or "-", *_figures(decision), finding.reason)


def _figures(decision: Decision) -> tuple[str, ...]:
    change = "-" if decision.change is None else _change(decision.change)
    interval = "-" if decision.interval is None else " .. ".join(map(_change, decision.interval))
    p = "-" if decision.p is None else f"{decision.p:.2g}"
    floor = decision.noise_floor
    noisy = floor is not None and decision.least_effect == floor
    return change, interval, p, f"{decision.least_effect:.1%}{' (noise)' if noisy else ''}"


def _change(value: float) -> str:
    return f"{value:+.1%}" if value < 1.0 else f"x{1.0 + value:.3g}"


def _summary(report: GateReport) -> list[str]:
    counts = ", ".join(f"{number} {verdict}" for verdict, number in report.counts().items()) or "no case"
    lines = [f"gate {HEADLINES[report.status()]}: {counts}"]
    runs = f"{len(report.baseline)} baseline and {len(report.new)} new run{'s' * (len(report.new) != 1)}"
    if report.confirm:
        runs += f", {len(report.confirm)} of a confirmation"
    lines.append(f"{runs}; {_HOW[report.mode]}")
    if report.ignored:
        lines.append(f"{len(report.ignored)} cases ignored by the policy")
    reruns = report.reruns()
    if reruns:
        lines.append(f"to be measured once more ({len(reruns)}), then gate again with --confirm FILE...:")
        lines += [f"    {case}" for case in reruns]
    return lines


def _markdown_table(rows: Sequence[tuple[Finding, tuple[str, ...]]]) -> list[str]:
    clean: Callable[[str], str] = lambda text: text.replace("|", "\\|").replace("\n", " ")  # noqa: E731
    lines = [f"| {' | '.join(_HEADS)} |", f"|{' --- |' * len(_HEADS)}"]
    for finding, cells in rows:
        lines.append(f"| {_MARKS[finding.verdict]} {' | '.join(map(clean, cells))} |")
    return lines
