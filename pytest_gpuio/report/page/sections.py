"""The page's plain tables: gate verdicts, voids, skips, machines, targets and runs."""

from __future__ import annotations

import html
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

from pytest_gpuio.analysis.gate import FAILING, ORDER
from pytest_gpuio.report import numbers
from pytest_gpuio.report.gate import HEADLINES
from pytest_gpuio.report.labels import short_case
from pytest_gpuio.results.runs import RunFile

#: Verdicts that nobody has to look at.
_QUIET: Final = frozenset({"SAME", "NEW"})
_GATE_HEADS: Final = ("verdict", "case", "metric", "change", "95 % interval", "why")


def table(heads: Iterable[str], rows: Iterable[Iterable[str]], label: str) -> str:
    """A table that scrolls by itself where it is too wide; everything is escaped."""
    head = "".join(f'<th scope="col">{html.escape(text)}</th>' for text in heads)
    body = "".join(f"<tr>{''.join(f'<td>{html.escape(text)}</td>' for text in row)}</tr>\n" for row in rows)
    return (
        f'<div class="scroll" tabindex="0" role="region" aria-label="{html.escape(label)}"><table><thead><tr>{head}'
        f"</tr></thead><tbody>{body}</tbody></table></div>"
    )


def gate_verdicts(gates: Sequence[Mapping[str, Any]]) -> str:
    """What ``gpuio gate --json`` wrote: what matters first, the unchanged folded away."""
    parts = []
    for gate in gates:
        found = sorted(gate["findings"], key=lambda one: ORDER.index(one["verdict"]))
        counts = gate.get("counts") or {}
        told = ", ".join(f"{number} {verdict}" for verdict, number in counts.items())
        headline = HEADLINES.get(gate.get("status", -1))
        if headline:
            parts.append(f"<p><strong>{html.escape(headline)}</strong>: {html.escape(told or 'no case')}</p>")
        loud = [one for one in found if one["verdict"] not in _QUIET]
        quiet = [one for one in found if one["verdict"] in _QUIET]
        if loud:
            parts.append(_gate_table(loud, "gate verdicts"))
        if quiet:
            parts.append(
                f"<details{' open' if not loud else ''}><summary>{len(quiet)} unchanged or new</summary>"
                f"{_gate_table(quiet, 'unchanged or new')}</details>"
            )
    return "".join(parts)


def _gate_table(found: Sequence[Mapping[str, Any]], label: str) -> str:
    head = "".join(f'<th scope="col">{text}</th>' for text in _GATE_HEADS)
    rows = []
    for one in found:
        decision = one.get("decision") or {}
        change, interval = decision.get("change"), decision.get("interval")
        verdict = str(one["verdict"])
        css = "bad" if verdict in FAILING else "good" if verdict in ("FASTER", "SAME") else "unsure"
        texts = (
            short_case(one["axes"]) if one.get("axes") else one["case"], one["metric"] or "-",
            "-" if change is None else f"{change:+.1%}",
            "-" if interval is None else " .. ".join(f"{end:+.1%}" for end in interval), one["reason"],
        )  # fmt: skip
        cells = "".join(f"<td>{html.escape(text)}</td>" for text in texts)
        rows.append(f'<tr><td><span class="badge {css}">{html.escape(verdict)}</span></td>{cells}</tr>')
    return (
        f'<div class="scroll" tabindex="0" role="region" aria-label="{label}"><table><thead><tr>{head}</tr></thead>'
        f"<tbody>{''.join(rows)}</tbody></table></div>"
    )


def voids(runs: Sequence[RunFile]) -> str:
    """Impossible results with gate and reason; how often each was seen."""
    counted: dict[tuple[str, str, str], int] = {}
    for run in runs:
        for case, void in run.voids.items():
            axes = void.get("axes")
            key = (short_case(axes) if axes else case, str(void["gate"]), str(void["reason"]))
            counted[key] = counted.get(key, 0) + 1
    if not counted:
        return '<p class="dim">No validity gate found an impossible result.</p>'
    note = '<p class="dim">Results that cannot be true: failed tests, in no chart and no table above.</p>'
    rows = [(*key, str(count)) for key, count in counted.items()]
    return note + table(("case", "gate", "why", "runs"), rows, "voided results")


def skips(runs: Sequence[RunFile]) -> str:
    """Why cells were not measured, the most frequent reason first; empty without any."""
    counted: dict[tuple[str, str], int] = {}
    for run in runs:
        for what, reasons in (("skipped", run.skips), ("failed", run.failures)):
            for reason in reasons.values():
                counted[what, reason] = counted.get((what, reason), 0) + 1
    rows = [(what, str(count), reason) for (what, reason), count in sorted(counted.items(), key=lambda item: -item[1])]
    return table(("what", "cells", "why"), rows, "skipped and failed cells") if rows else ""


def machines(runs: Sequence[RunFile]) -> str:
    """Hosts, targets with the evidence for their media, and the runs."""
    found = {run.machine_id: run.machine for run in runs}
    facts = [_machine(name, machine) for name, machine in found.items()]
    targets: dict[tuple[str, ...], None] = {}
    for run in runs:
        for record in run.cells.values():
            targets[_target(record["target"])] = None
    listed = [
        (run.path, run.created.strftime("%Y-%m-%d %H:%M:%S %Z"), str(len(run.cells)), "yes" if run.interrupted else "")
        for run in runs
    ]
    return (
        table(("machine", "CPU", "CPUs", "kernel", "memory", "hypervisor"), facts, "machines")
        + table(("target", "medium", "file system", "devices", "evidence"), list(targets), "targets")
        + f"<details{' open' * (len(runs) <= 12)}><summary>{len(runs)} run{'s' * (len(runs) != 1)}</summary>"
        + table(("run", "written", "cells", "interrupted"), listed, "runs")
        + "</details>"
    )


def _machine(name: str, machine: Mapping[str, Any]) -> tuple[str, ...]:
    if not machine:
        return name, "not told: imported from another tool", "-", "-", "-", "-"
    cpu = machine.get("cpu") or {}
    memory = machine.get("memory_bytes")
    return (
        name, str(cpu.get("model") or "unknown"), str(cpu.get("cores") or "-"), str(machine.get("kernel") or "-"),
        "-" if memory is None else f"{memory / 2**30:.4g} GiB", str(machine.get("hypervisor") or "none seen"),
    )  # fmt: skip


def _target(target: Mapping[str, Any]) -> tuple[str, ...]:
    devices = ", ".join(
        " ".join(str(device[key]) for key in ("name", "model", "firmware") if device.get(key))
        + (f" (link {numbers.rate(device['link_bytes_per_s'] / 1e9)} GB/s)" if device.get("link_bytes_per_s") else "")
        for device in target.get("devices", [])
    )
    evidence = "; ".join(target.get("medium_evidence", []))
    return str(target["name"]), str(target["medium"]), str(target.get("file_system")), devices or "-", evidence or "-"
