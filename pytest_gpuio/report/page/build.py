"""Assembling the page from rows, charts, tables and the chart library's bundle."""

from __future__ import annotations

import html
import json
from collections.abc import Iterable, Mapping, Sequence
from importlib import resources
from typing import Any, Final

from pytest_gpuio.analysis.recommend import Recommendation
from pytest_gpuio.core.errors import CapabilityMissing
from pytest_gpuio.report import numbers
from pytest_gpuio.report.labels import short_case
from pytest_gpuio.report.page.charts import Chart, charts
from pytest_gpuio.report.page.rows import PageData, page_data
from pytest_gpuio.report.recommend import HEADS, cheat_sheet_rows
from pytest_gpuio.results.runs import RunFile

_VEGA_LITE: Final = "6.4"
_SCHEMA: Final = "https://vega.github.io/schema/vega-lite/v6.json"
#: Charts that take a row of the page.
_WIDE: Final = frozenset({"history", "cpu"})
_COLUMNS: Final = (
    ("workload", "workload", "text"), ("label", "cell", "text"), ("gbs", "GB/s", "number"), ("iops", "IOPS", "number"),
    ("p50", "p50", "ns"), ("p99", "p99", "ns"), ("p999", "p99.9", "ns"), ("reserved", "cores", "number"),
    ("per_core", "GB/s/core", "number"), ("deciding", "deciding", "text"), ("flags", "flags", "text"),
)  # fmt: skip


def build_page(
    runs: Sequence[RunFile], found: Sequence[Recommendation], title: str, gates: Sequence[Mapping[str, Any]] = ()
) -> str:
    """The whole page as text.

    Args:
        runs: oldest first.
        found: recommendations for the cheat sheet.
        title: of the page.
        gates: what ``gpuio gate --json`` wrote.

    Raises:
        CapabilityMissing: vl-convert, which brings the chart library, is not installed.
    """
    data = page_data(runs)
    drawn = charts(data)
    sections = [
        ("cheat-sheet", "Cheat sheet", _cheat_sheet(found)),
        ("plots", "Charts", _figures(drawn)),
        ("cells-section", "Cells", _cells_table()),
        ("gates", "Gate verdicts", _gates(gates)),
        ("voids", "Voided", _voids(runs)),
        ("skips", "Skipped and failed", _skips(runs)),
        ("machine", "Machine and runs", _machine(runs)),
    ]
    kept = [(name, heading, body) for name, heading, body in sections if body]
    parts = {
        "title": html.escape(title),
        "what": html.escape(_what(runs, data)),
        "nav": "".join(f'<a href="#{name}">{heading}</a>' for name, heading, _ in kept),
        "sections": "\n".join(
            f'<section id="{name}" aria-labelledby="{name}-h"><h2 id="{name}-h">{heading}</h2>\n{body}\n</section>'
            for name, heading, body in kept
        ),
        "css": _resource("page.css"),
        "data": _embedded(data, drawn),
        "vega": _vega(),
        "js": _resource("page.js"),
    }
    page = _resource("template.html")
    # One pass over the template, so that data which looks like a placeholder stays data.
    head, *rest = page.split("{{")
    return head + "".join(parts[name] + tail for name, _, tail in (piece.partition("}}") for piece in rest))


def export_charts(runs: Sequence[RunFile], kind: str) -> dict[str, bytes]:
    """Every chart as a picture, by file name.

    Args:
        runs: oldest first.
        kind: ``png`` or ``svg``.

    Raises:
        CapabilityMissing: vl-convert is not installed.
    """
    converter = _converter()
    data = page_data(runs)
    pictures: dict[str, bytes] = {}
    for chart in charts(data):
        rows = getattr(data, chart.dataset)
        spec = json.dumps(
            {"$schema": _SCHEMA, "title": chart.title, "background": "white", **chart.spec, "data": {"values": rows}}
        )
        if kind == "png":
            pictures[f"{chart.name}.png"] = converter.vegalite_to_png(spec, vl_version=_VEGA_LITE, scale=2)
        else:
            pictures[f"{chart.name}.svg"] = converter.vegalite_to_svg(spec, vl_version=_VEGA_LITE).encode()
    return pictures


def _converter() -> Any:
    try:
        import vl_convert
    except ImportError:
        raise CapabilityMissing(
            "the page's charts need vl-convert: pip install 'pytest-gpuio[report]' (tables need nothing: "
            "gpuio recommend, --markdown)."
        ) from None
    return vl_convert


def _vega() -> str:
    """Vega, Vega-Lite and vega-embed as one script that needs no network."""
    bundle: str = _converter().javascript_bundle(vl_version=_VEGA_LITE)
    return bundle.replace("</script", "<\\/script")


def _resource(name: str) -> str:
    return resources.files("pytest_gpuio.report.page").joinpath(name).read_text(encoding="utf-8")


def _embedded(data: PageData, drawn: Sequence[Chart]) -> str:
    content = {
        "schema": _SCHEMA,
        "cells": data.cells,
        "latency": data.latency,
        "cpu": data.cpu,
        "history": data.history,
        "total": data.total,
        "columns": [{"key": key, "title": title, "kind": kind} for key, title, kind in _COLUMNS],
        "charts": [{"name": chart.name, "dataset": chart.dataset, "spec": chart.spec} for chart in drawn],
    }
    # "</script>" or "<!--" in a path's name would end the element.
    return json.dumps(content, allow_nan=False, separators=(",", ":")).replace("<", "\\u003c")


def _what(runs: Sequence[RunFile], data: PageData) -> str:
    voids = sum(len(run.voids) for run in runs)
    days = sorted({run.created.date().isoformat() for run in runs})
    when = days[0] if len(days) == 1 else f"{days[0]} to {days[-1]}"
    shown = "" if data.total == len(data.cells) else f" (the best {len(data.cells):,} of their groups are shown)"
    return f"{data.total:,} cells of {len(runs)} runs{shown}, {voids} voided results; {when}"


def _table(heads: Iterable[str], rows: Iterable[Iterable[str]]) -> str:
    head = "".join(f'<th scope="col">{html.escape(text)}</th>' for text in heads)
    body = "".join(f"<tr>{''.join(f'<td>{html.escape(text)}</td>' for text in row)}</tr>\n" for row in rows)
    return f'<div class="scroll" tabindex="0"><table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table></div>'


def _cheat_sheet(found: Sequence[Recommendation]) -> str:
    if not found:
        return ""
    note = (
        "<p class='dim'>Which path to use, by the phase's deciding metric. Relative gain is against psync (else "
        "libaio), absolute is the same as a share of the most any path reached on that target.</p>"
    )
    return note + _table(
        (*HEADS, "because"), [(*row, one.reason) for row, one in zip(cheat_sheet_rows(found), found, strict=True)]
    )


def _figures(drawn: Sequence[Chart]) -> str:
    if not drawn:
        return ""
    figures = [
        f'<figure class="{"wide" if chart.name in _WIDE else ""}"><h3>{html.escape(chart.title)}</h3>'
        f'<div id="chart-{chart.name}" role="img" aria-label="{html.escape(chart.title)}"></div>'
        f"<figcaption>{html.escape(chart.caption)}</figcaption></figure>"
        for chart in drawn
    ]
    return f'<div class="charts">{"".join(figures)}</div>'


def _cells_table() -> str:
    return (
        '<p class="dim">Newest result of each case. Flags name unsettled gates and warnings; + shows the evidence.</p>'
        '<div class="pages"><button id="previous" type="button">previous</button><span id="range"></span>'
        '<button id="next" type="button">next</button></div>'
        '<div class="scroll"><table id="cells"><thead><tr></tr></thead><tbody></tbody></table></div>'
    )


def _gates(gates: Sequence[Mapping[str, Any]]) -> str:
    rows = []
    for gate in gates:
        for finding in gate["findings"]:
            decision = finding.get("decision") or {}
            change = decision.get("change")
            rows.append(
                (finding["verdict"], finding["case"], finding["metric"] or "-",
                 "-" if change is None else f"{change:+.1%}", finding["reason"])
            )  # fmt: skip
    return _table(("verdict", "case", "metric", "change", "why"), rows) if rows else ""


def _voids(runs: Sequence[RunFile]) -> str:
    counted: dict[tuple[str, str, str], int] = {}
    for run in runs:
        for case, void in run.voids.items():
            axes = void.get("axes")
            key = (short_case(axes) if axes else case, str(void["gate"]), str(void["reason"]))
            counted[key] = counted.get(key, 0) + 1
    note = '<p class="dim">Results that cannot be true: failed tests, in no chart and no table above.</p>'
    rows = [(*key, str(count)) for key, count in counted.items()]
    return note + _table(("case", "gate", "why", "runs"), rows) if rows else ""


def _skips(runs: Sequence[RunFile]) -> str:
    counted: dict[tuple[str, str], int] = {}
    for run in runs:
        for what, reasons in (("skipped", run.skips), ("failed", run.failures)):
            for reason in reasons.values():
                counted[what, reason] = counted.get((what, reason), 0) + 1
    rows = [(what, str(count), reason) for (what, reason), count in sorted(counted.items(), key=lambda item: -item[1])]
    return _table(("what", "cells", "why"), rows) if rows else ""


def _machine(runs: Sequence[RunFile]) -> str:
    machines: dict[str, Mapping[str, Any]] = {}
    for run in runs:
        machines[str(run.machine.get("id", "unknown"))] = run.machine
    facts = []
    for name, machine in machines.items():
        cpu = machine.get("cpu") or {}
        memory = machine.get("memory_bytes")
        facts.append(
            (name, str(cpu.get("model") or "unknown"), str(cpu.get("cores") or "-"), str(machine.get("kernel") or "-"),
             "-" if memory is None else f"{numbers.si(float(memory))}B", str(machine.get("hypervisor") or "none seen"))
        )  # fmt: skip
    targets: dict[tuple[str, ...], None] = {}
    for run in runs:
        for record in run.cells.values():
            target = record["target"]
            devices = ", ".join(
                " ".join(str(device[key]) for key in ("name", "model", "firmware") if device.get(key))
                for device in target.get("devices", [])
            )
            evidence = "; ".join(target.get("medium_evidence", []))
            targets[str(target["name"]), str(target["medium"]), str(target.get("file_system")), devices, evidence] = (
                None
            )
    listed = [
        (run.path, run.created.isoformat(), str(len(run.cells)), "yes" if run.interrupted else "") for run in runs
    ]
    return (
        _table(("machine", "CPU", "CPUs", "kernel", "memory", "hypervisor"), facts)
        + "<p></p>"
        + _table(("target", "medium", "file system", "devices", "evidence"), list(targets))
        + "<p></p>"
        + _table(("run", "written", "cells", "interrupted"), listed)
    )
