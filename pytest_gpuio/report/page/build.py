"""Assembling the page from rows, charts, tables and the chart library's bundle."""

from __future__ import annotations

import html
import json
from collections.abc import Mapping, Sequence
from importlib import resources
from typing import Any, Final

from pytest_gpuio.analysis.recommend import Recommendation
from pytest_gpuio.core.errors import CapabilityMissing
from pytest_gpuio.report.page import sections
from pytest_gpuio.report.page.charts import Chart, charts, path_colours, rows_of
from pytest_gpuio.report.page.overview import cheat_sheet, tiles
from pytest_gpuio.report.page.rows import PageData, Row, page_data
from pytest_gpuio.results.runs import RunFile

_VEGA_LITE: Final = "6.4"
_SCHEMA: Final = "https://vega.github.io/schema/vega-lite/v6.json"
#: Charts that take a row of the page.
_WIDE: Final = frozenset({"history", "cpu"})
_COLUMNS: Final = (
    ("machine", "machine", "text"),
    ("workload", "workload", "text"), ("label", "cell", "text"), ("gbs", "GB/s", "number"), ("iops", "IOPS", "number"),
    ("p50", "p50", "ns"), ("p99", "p99", "ns"), ("p999", "p99.9", "ns"), ("reserved", "cores", "number"),
    ("per_core", "GB/s/core", "number"), ("deciding", "deciding", "text"), ("flags", "flags", "text"),
)  # fmt: skip


def build_page(
    runs: Sequence[RunFile],
    found: Mapping[str, Sequence[Recommendation]],
    title: str,
    gates: Sequence[Mapping[str, Any]] = (),
) -> str:
    """The whole page as text.

    Args:
        runs: oldest first.
        found: recommendations for the cheat sheet, by machine.
        title: of the page.
        gates: what ``gpuio gate --json`` wrote.

    Raises:
        CapabilityMissing: vl-convert, which brings the chart library, is not installed.
    """
    data = page_data(runs)
    drawn = charts(data)
    parts_of_page = [
        ("overview", "Overview", tiles(runs, data, gates)),
        ("cheat-sheet", "Cheat sheet", cheat_sheet(found, path_colours(data))),
        ("gates", "Gate verdicts", sections.gate_verdicts(gates)),
        ("plots", "Charts", _filters() + _figures(drawn) if data.cells else ""),
        ("cells-section", "Cells", _cells_table() if data.cells else ""),
        ("voids", "Voided", sections.voids(runs)),
        ("skips", "Skipped and failed", sections.skips(runs)),
        ("machine", "Machine and runs", sections.machines(runs)),
    ]
    kept = [(name, heading, body) for name, heading, body in parts_of_page if body]
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
        rows = rows_of(data, chart)
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
        **{name: _packed(getattr(data, name)) for name in ("cells", "latency", "cpu", "history")},
        "total": data.total,
        "columns": [
            {"key": key, "title": title, "kind": kind} for key, title, kind in _COLUMNS if _tells(key, data.cells)
        ],
        "charts": [{"name": chart.name, "dataset": chart.dataset, "spec": chart.spec} for chart in drawn],
    }
    # "</script>" or "<!--" in a path's name would end the element.
    return json.dumps(content, allow_nan=False, separators=(",", ":")).replace("<", "\\u003c")


def _packed(rows: Sequence[Row]) -> dict[str, Any]:
    """Names once and values by row: half of the bytes of a list of maps."""
    keys = list(dict.fromkeys(key for row in rows for key in row))
    return {"keys": keys, "rows": [[row.get(key) for key in keys] for row in rows]}


def _tells(key: str, rows: Sequence[Row]) -> bool:
    """Whether a column holds anything; that of machines, whether there are several."""
    values = {row[key] for row in rows}
    return len(values) > 1 if key == "machine" else bool(values - {None, ""})


def _what(runs: Sequence[RunFile], data: PageData) -> str:
    days = sorted({run.created.date().isoformat() for run in runs})
    parts = [days[0] if len(days) == 1 else f"{days[0]} to {days[-1]}"]
    hosts = {run.machine_id: run.machine for run in runs if run.machine}
    if len(hosts) == 1:
        (machine,) = hosts.values()
        parts += [str((machine.get("cpu") or {}).get("model") or "unknown CPU"), f"kernel {machine.get('kernel')}"]
    elif hosts:
        parts.append(f"{len(hosts)} machines")
    parts.append(", ".join(dict.fromkeys(str(row["medium"]) for row in data.cells)) or "no cell")
    if data.total != len(data.cells):
        parts.append(f"the best {len(data.cells):,} of {data.total:,} cells are drawn and listed")
    return " \u00b7 ".join(parts)


def _filters() -> str:
    selects = "".join(
        f'<label>{title} <select name="{name}"></select></label>'
        for name, title in (
            ("machine", "machine"), ("phase", "phase"), ("workload", "workload"), ("medium", "medium"),
            ("path", "data path"),
        )
    )  # fmt: skip
    return (
        f'<form id="filters" role="search" aria-label="filters of charts and cells">{selects}'
        '<label>search <input name="text" type="search" placeholder="64k qd32" autocomplete="off"></label>'
        '<label class="check"><input name="settled" type="checkbox"> settled only</label>'
        '<button type="reset">clear</button><output id="count" aria-live="polite"></output></form>'
    )


def _figures(drawn: Sequence[Chart]) -> str:
    if not drawn:
        return ""
    figures = [
        f'<figure class="{"wide" if chart.name in _WIDE else ""}"><h3>{html.escape(chart.title)}</h3>'
        f"<figcaption>{html.escape(chart.caption)}</figcaption>"
        f'<div class="chart" id="chart-{chart.name}" role="img" aria-label="{html.escape(chart.title)}"></div>'
        '<p class="empty" hidden>No cell of this chart passes the filters.</p></figure>'
        for chart in drawn
    ]
    return f'<div class="charts">{"".join(figures)}</div>'


def _cells_table() -> str:
    return (
        '<p class="dim">Newest result of each case. Flags name unsettled gates and warnings; + shows the evidence. '
        "The filters above apply.</p>"
        '<div class="pages"><button id="previous" type="button">previous</button><span id="range"></span>'
        '<button id="next" type="button">next</button></div>'
        '<div class="scroll" tabindex="0" role="region" aria-label="cells"><table id="cells"><thead><tr></tr></thead>'
        "<tbody></tbody></table></div>"
        '<p class="empty" id="no-cells" hidden>No cell passes the filters. '
        '<button type="reset" form="filters">clear them</button></p>'
    )
