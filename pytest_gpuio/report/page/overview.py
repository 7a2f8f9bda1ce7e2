"""The top of the page: key figures, and the cheat sheet people came for."""

from __future__ import annotations

import html
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Final

from pytest_gpuio.analysis.recommend import Recommendation
from pytest_gpuio.report import numbers
from pytest_gpuio.report.gate import HEADLINES
from pytest_gpuio.report.page.rows import PageData, Row
from pytest_gpuio.report.recommend import GAINS, gains, geometry, place, value_words
from pytest_gpuio.results.runs import RunFile

_SURE: Final = {"decided": "good", "too close": "unsure", "one run": "unsure"}
_SURE_TIP: Final = {
    "decided": "more than the uncertainty of both, in at least three runs",
    "too close": "within the uncertainty of the measurements: either will do",
    "one run": "fewer than three runs: the next one may say otherwise",
}


def tiles(runs: Sequence[RunFile], data: PageData, gates: Sequence[Mapping[str, Any]]) -> str:
    """Key figures as tiles, each a link to where it comes from."""
    return f'<ul class="tiles">{"".join(_tiles(runs, data, gates))}</ul>'


def _tiles(runs: Sequence[RunFile], data: PageData, gates: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    unsettled = sum(not row["settled"] for row in data.cells)
    yield _tile(
        "cells-section", "cells measured", f"{data.total:,}",
        f"in {len(runs)} run{'s' * (len(runs) != 1)}, {f'{unsettled:,} unsettled' if unsettled else 'all settled'}",
    )  # fmt: skip
    real = [row for row in data.cells if row["path"] != "null" and not row["imported"]]
    if real:
        fastest = max(real, key=lambda row: row["gbs"])
        yield _tile("plots", "fastest", f"{numbers.rate(fastest['gbs'])} GB/s", _what(fastest))
    thrifty = [row for row in real if row["per_core"] is not None and row["settled"]]
    if thrifty:
        best = max(thrifty, key=lambda row: row["per_core"])
        yield _tile("plots", "most per reserved core", f"{numbers.rate(best['per_core'])} GB/s", _what(best))
    voids = [void for run in runs for void in run.voids.values()]
    told = ", ".join(dict.fromkeys(str(void["gate"]) for void in voids))
    yield _tile("voids", "voided", f"{len(voids):,}", told or "nothing impossible was seen", bad=bool(voids))
    for gate in gates:
        status = gate.get("status", -1)
        headline = HEADLINES.get(status, "see below").partition(":")[0]
        told = ", ".join(f"{number} {verdict}" for verdict, number in (gate.get("counts") or {}).items())
        yield _tile("gates", "regression gate", headline, told or "no case", bad=status == 1)
    if data.history:
        changed = len({(row["machine"], row["case"]) for row in data.history if row["step"]})
        yield _tile("plots", "changed over time", f"{changed}", "of the longest series", bad=bool(changed))


def _tile(target: str, name: str, figure: str, text: str, *, bad: bool = False) -> str:
    parts = [html.escape(part) for part in (name, figure, text)]
    return (
        f'<li class="tile{" alarm" * bad}"><a href="#{target}"><span class="name">{parts[0]}</span>'
        f'<span class="figure">{parts[1]}</span><span class="dim">{parts[2]}</span></a></li>'
    )


def _what(row: Row) -> str:
    return f"{row['workload']} {row['label']}"


def cheat_sheet(found: Mapping[str, Sequence[Recommendation]], colours: Mapping[str, str]) -> str:
    """Which path to use, by machine and phase.

    Args:
        found: recommendations by machine.
        colours: of data paths, those of the charts.
    """
    if not any(found.values()):
        return ""
    parts = [
        '<p class="dim">Which data path to use, by what decides its phase (throughput, or what is named); settled '
        "results only. "
        f"{html.escape(GAINS)}</p>"
    ]
    for machine, own in found.items():
        if len(found) > 1:
            parts.append(f"<h3>machine {html.escape(machine)}</h3>")
        parts.append(_sheet(own, colours))
    return "".join(parts)


_HEADS: Final = (
    ("workload", ""), ("on", ""), ("use", ""), ("GB/s of ceiling", ""),
    ("cores", "number"), ("CPU s/GB", "number"), ("relative", ""), ("absolute", "number"), ("how sure", ""),
)  # fmt: skip


def _sheet(found: Sequence[Recommendation], colours: Mapping[str, str]) -> str:
    head = "".join(f'<th scope="col" class="{css}">{name}</th>' for name, css in _HEADS)
    body, phase = [], ""
    for one in found:
        if one.phase != phase:
            phase = one.phase
            title = f'<th scope="rowgroup" colspan="{len(_HEADS)}">{html.escape(phase)}</th>'
            body.append(f'<tr class="group">{title}</tr>')
        body.append(f"<tr>{''.join(_cells(one, colours))}</tr>")
    return (
        '<div class="scroll" tabindex="0" role="region" aria-label="cheat sheet"><table class="sheet">'
        f"<thead><tr>{head}</tr></thead><tbody>{''.join(body)}</tbody></table></div>{_left_out(found)}"
    )


def _cells(one: Recommendation, colours: Mapping[str, str]) -> Iterable[str]:
    name, where = place(one)
    # Throughput decides where nothing is said, and its value stands in the row anyway.
    decided = "" if one.metric == "bytes_per_s" else f'<br><span class="dim">{html.escape(value_words(one))}</span>'
    yield _td(html.escape(name.partition("/")[2] or name) + decided)
    yield _td(html.escape(where))
    if one.best is None:
        yield f'<td colspan="{len(_HEADS) - 3}" class="dim">{html.escape(one.reason)}</td>'
        yield _td('<span class="badge unsure">nothing</span>')
        return
    best = one.best
    colour = colours.get(best.datapath, "#8A8F98")
    yield _td(
        f'<span class="dot" style="background:{colour}"></span><strong>{html.escape(best.datapath)}</strong> '
        f"{html.escape(geometry(best))}"
    )
    share = 0.0 if not one.ceiling else min(1.0, best.bytes_per_s / one.ceiling)
    base = 0.0 if not one.ceiling or one.baseline is None else min(1.0, one.baseline.bytes_per_s / one.ceiling)
    tick = f'<i style="left:{base:.1%}"></i>' if base else ""
    told = f"{share:.0%} of {numbers.rate((one.ceiling or 0.0) / 1e9)} GB/s ({one.ceiling_from})"
    yield _td(
        f'<span class="rate">{numbers.rate(best.bytes_per_s / 1e9)}</span>'
        f'<span class="bar" title="{html.escape(told)}"><b style="width:{share:.1%};background:{colour}"></b>'
        f'{tick}</span> <span class="dim">{numbers.rate((one.ceiling or 0.0) / 1e9)}</span>'
    )
    yield _td(numbers.cores(best.cores_reserved), "number")
    yield _td(numbers.rate(best.cpu_s_per_gb), "number")
    relative, absolute = gains(one)
    yield _td(html.escape(relative))
    yield _td(html.escape(absolute.partition(" of ")[0]), "number")
    margin = ""
    if one.margin is not None and one.runner_up is not None:
        margin = f"+{one.margin:.0%} on {one.runner_up.datapath}"
    yield _td(
        f'<span class="badge {_SURE[one.confidence]}" title="{html.escape(_SURE_TIP[one.confidence])}">'
        f'{one.confidence}</span> <span class="dim">{html.escape(margin)}</span>'
    )


def _left_out(found: Sequence[Recommendation]) -> str:
    """What the answers do not rest on: paths without a result, and results that are not steady."""
    lines = []
    for one in found:
        parts = [f"{path}: {why}" for path, why in one.not_measured.items()]
        if one.unsettled:
            parts.append(f"{len(one.unsettled)} unsettled cells")
        if parts:
            lines.append(
                f"<li><strong>{html.escape(' on '.join(place(one)))}</strong>: {html.escape('; '.join(parts))}</li>"
            )
    if not lines:
        return ""
    return f"<details><summary>not measured, or not used</summary><ul>{''.join(lines)}</ul></details>"


def _td(inner: str, css: str = "") -> str:
    return f'<td class="{css}">{inner}</td>' if css else f"<td>{inner}</td>"
