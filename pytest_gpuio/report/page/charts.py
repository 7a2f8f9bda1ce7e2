"""The page's charts as Vega-Lite specifications; every one draws a named dataset, so that a filter can replace it."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Final

from pytest_gpuio.report.page.rows import SITUATION, PageData, Row, situations

Spec = dict[str, Any]

#: Okabe and Ito's colours (yellow and black darkened and lightened to be seen on both grounds), told apart with every
#: kind of colour vision; from the ninth path on they repeat with broken lines and other shapes.
COLOURS: Final = ("#0072B2", "#E69F00", "#009E73", "#D55E00", "#56B4E9", "#CC79A7", "#B8A200", "#8A8F98")
_SHAPES: Final = ("circle", "square", "triangle-up", "diamond", "cross", "triangle-down", "triangle-right", "stroke")
_WIDTH: Final = 460
_HEIGHT: Final = 260
#: Lines that can still be followed; beyond, each path shows its fastest series only.
_MOST_LINES: Final = 24
#: Fronts that can be told apart.
_MOST_FRONTS: Final = 8
#: Labels of an axis in microseconds, from ns to s.
_TIME_LABELS: Final = (
    "datum.value >= 1e6 ? format(datum.value / 1e6, '~r') + ' s' : datum.value >= 1e3 ? "
    "format(datum.value / 1e3, '~r') + ' ms' : format(datum.value, '~r') + ' us'"
)
#: The other axes of a curve along the depth.
_SERIES: Final = ("machine", *SITUATION, "path", "bs", "jobs", "cache", "durability", "gpus")


@dataclass(frozen=True, slots=True)
class Chart:
    """One chart.

    Attributes:
        name: of its place in the page and of exported files.
        title: its question. caption: how to read it.
        dataset: name of the dataset it draws. spec: Vega-Lite, without data.
    """

    name: str
    title: str
    caption: str
    dataset: str
    spec: Spec


def charts(data: PageData) -> list[Chart]:
    """Those with something to show."""
    return [chart for make in _CHARTS if (chart := make(data)) is not None]


def path_colours(data: PageData) -> dict[str, str]:
    """Colour of each data path on this page: the same in every chart, whatever is filtered."""
    return {path: COLOURS[index % len(COLOURS)] for index, path in enumerate(_paths(data))}


def _paths(data: PageData) -> list[str]:
    return sorted({str(row["path"]) for row in data.cells})


def _by_path(data: PageData, *, line: bool = False, point: bool = False) -> Spec:
    """Encodings that tell paths apart; their scales name every path, so that a filter repaints none."""
    paths = _paths(data)
    legend = {"orient": "bottom", "columns": 4, "symbolLimit": 0}
    common: Spec = {"field": "path", "type": "nominal", "title": None, "legend": legend}
    encoding: Spec = {"color": {**common, "scale": {"domain": paths, "range": list(path_colours(data).values())}}}
    if line and len(paths) > len(COLOURS):
        dashes = [[1, 0] if index < len(COLOURS) else [5, 3] for index in range(len(paths))]
        encoding["strokeDash"] = {**common, "scale": {"domain": paths, "range": dashes}}
    if point:
        shapes = [_SHAPES[(index + index // len(COLOURS)) % len(_SHAPES)] for index in range(len(paths))]
        encoding["shape"] = {**common, "scale": {"domain": paths, "range": shapes}}
    return encoding


def _tip(*fields: tuple[str, str]) -> list[Spec]:
    return [{"field": field, "title": title} for field, title in fields]


_CELL_TIP: Final = _tip(
    ("workload", "workload"), ("label", "cell"), ("gbs", "GB/s"), ("iops", "IOPS"), ("p99_us", "p99 (us)"),
    ("reserved", "cores"), ("per_core", "GB/s per core"), ("flags", "flags"),
)  # fmt: skip


def _time_axis(values: Iterable[float | None]) -> Spec:
    """An axis in microseconds with its labels at powers of ten, where there are few at halves of them as well."""
    known = [value for value in values if value]
    ends = [math.log10(end) for end in (min(known, default=1.0), max(known, default=1.0))]
    steps = (1, 2, 5) if ends[1] - ends[0] < 2 else (1,)
    ticks = [10.0**power * step for power in range(math.floor(ends[0]), math.ceil(ends[1]) + 1) for step in steps]
    return {"labelExpr": _TIME_LABELS, "values": ticks, "labelOverlap": "greedy"}


def _detail(names: Sequence[str]) -> list[Spec]:
    return [{"field": name} for name in names]


def _heat(data: PageData, axis: str, field: str, title: str) -> Chart | None:
    if len({row[axis] for row in data.cells}) < 2 or len({row["path"] for row in data.cells}) < 2:
        return None
    spec: Spec = {
        "transform": [
            {"filter": "datum.path != 'null'"},
            {"aggregate": [{"op": "max", "field": "gbs", "as": "best"}], "groupby": ["medium", "path", axis, field]},
            # Colours compare within a medium: a disk beside an array would else be one dark row.
            {"joinaggregate": [{"op": "max", "field": "best", "as": "top"}], "groupby": ["medium"]},
            {"joinaggregate": [{"op": "max", "field": "best", "as": "first"}], "groupby": ["medium", axis]},
            {"calculate": "datum.best / datum.top", "as": "share"},
        ],
        "facet": {"row": {"field": "medium", "type": "nominal", "title": None,
                          "header": {"labelAngle": 0, "labelAlign": "left", "labelFontWeight": "bold"}}},
        "spec": {
            "width": {"step": 50},
            "height": {"step": 26},
            "encoding": {
                "x": {"field": field, "type": "ordinal", "title": title, "sort": {"field": axis, "op": "min"},
                      "axis": {"labelAngle": 0}},
                "y": {"field": "path", "type": "nominal", "title": None},
                "tooltip": _tip(("path", "data path"), (field, title), ("best", "GB/s")),
            },
            "layer": [
                {
                    "mark": {"type": "rect", "cornerRadius": 3},
                    "encoding": {"color": {"field": "share", "type": "quantitative", "legend": None,
                                           "scale": {"scheme": "blues", "domain": [0, 1]}}},
                },
                {
                    "transform": [{"filter": "datum.best == datum.first"}],
                    "mark": {"type": "rect", "cornerRadius": 3, "fill": None, "stroke": "#D55E00", "strokeWidth": 2},
                },
                {
                    "mark": {"type": "text", "fontSize": 11},
                    "encoding": {
                        "text": {"field": "best", "type": "quantitative", "format": ".3~r"},
                        "color": {"condition": {"test": "datum.share > 0.55", "value": "#ffffff"},
                                  "value": "#10243a"},
                    },
                },
            ],
        },
    }  # fmt: skip
    return Chart(
        f"heat-{axis}", f"Which path is fastest at which {title}?",
        "Best GB/s over all other axes; darker is faster within its medium, the frame marks the fastest of a column.",
        "cells", spec,
    )  # fmt: skip


def _heat_size(data: PageData) -> Chart | None:
    return _heat(data, "bs", "size", "block size")


def _heat_depth(data: PageData) -> Chart | None:
    return _heat(data, "qd", "qd", "queue depth")


def _fastest_series(data: PageData) -> tuple[list[Spec], str]:
    """Transforms that leave one curve of each path: of each situation where they can be followed, else over all."""
    rows = [row for row in data.cells if row["path"] != "null"]
    groups = ["machine", *SITUATION, "path"]
    told = "the fastest block size of each path and workload"
    if len({tuple(row[name] for name in groups) for row in rows}) > _MOST_LINES:
        groups = ["machine", "medium", "target", "destination", "path"]
        told = "the fastest series of each path and medium; choose a workload above to see its own"
    steps: list[Spec] = [
        {"filter": "datum.path != 'null'"},
        {"joinaggregate": [{"op": "max", "field": "gbs", "as": "series_best"}], "groupby": list(_SERIES)},
        {"joinaggregate": [{"op": "max", "field": "series_best", "as": "group_best"}], "groupby": groups},
        {"filter": "datum.series_best == datum.group_best"},
    ]
    return steps, told


def _depth(data: PageData) -> Chart | None:
    depths = sorted({int(row["qd"]) for row in data.cells})
    if len(depths) < 3:
        return None
    steps, told = _fastest_series(data)
    common: Spec = {
        "x": {"field": "qd", "type": "quantitative", "title": "queue depth", "scale": {"type": "log", "base": 2},
              "axis": {"values": depths if len(depths) <= 12 else None, "format": "d", "labelOverlap": "greedy"}},
        "y": {"field": "gbs", "type": "quantitative", "title": "GB/s"},
        "detail": _detail(_SERIES), "tooltip": _CELL_TIP,
    }  # fmt: skip
    spec: Spec = {
        "width": _WIDTH, "height": _HEIGHT,
        "transform": steps,
        "layer": [
            {"mark": {"type": "line", "point": {"size": 30}}, "encoding": {**common, **_by_path(data, line=True)}},
            {
                "transform": [{"filter": "datum.knee"}],
                "mark": {"type": "point", "size": 190, "strokeWidth": 2, "shape": "circle", "fill": None},
                "encoding": {**common, **_by_path(data)},
            },
        ],
    }  # fmt: skip
    return Chart(
        "depth", "How much queue depth does each path need?",
        f"Throughput against depth, {told}. The ring marks the knee: the least depth that gives 90 % of its best.",
        "cells", spec,
    )  # fmt: skip


def _load(data: PageData) -> Chart | None:
    if not any(row["p99"] is not None for row in data.cells):
        return None
    steps, told = _fastest_series(data)
    spec: Spec = {
        "width": _WIDTH, "height": _HEIGHT,
        "transform": [*steps, {"filter": "datum.p99_us != null"}],
        "layer": [
            {
                "mark": {"type": "line", "point": {"size": 30}},
                "encoding": {
                    "x": {"field": "gbs", "type": "quantitative", "title": "GB/s"},
                    "y": {"field": "p99_us", "type": "quantitative", "title": "p99", "scale": {"type": "log"},
                          "axis": _time_axis(row["p99_us"] for row in data.cells)},
                    "order": {"field": "qd", "type": "quantitative"},
                    "detail": _detail(_SERIES), "tooltip": _CELL_TIP, **_by_path(data, line=True),
                },
            },
            {
                "transform": [{"filter": "datum.knee"}],
                "mark": {"type": "point", "size": 190, "strokeWidth": 2, "shape": "circle", "fill": None},
                "encoding": {
                    "x": {"field": "gbs", "type": "quantitative"}, "y": {"field": "p99_us", "type": "quantitative"},
                    "tooltip": _CELL_TIP, **_by_path(data),
                },
            },
        ],
    }  # fmt: skip
    return Chart(
        "load", "What does throughput cost in latency?",
        f"p99 against throughput in the order of depth, {told}. Where a line turns upwards, more depth only waits.",
        "cells", spec,
    )  # fmt: skip


def _cpu_front(data: PageData) -> Chart | None:
    if not any(row["per_core"] is not None for row in data.cells):
        return None
    common: Spec = {
        "x": {"field": "gbs", "type": "quantitative", "title": "GB/s"},
        "y": {"field": "per_core", "type": "quantitative", "title": "GB/s per reserved core",
              "scale": {"type": "log"}, "axis": {"format": "~r", "tickCount": 5}},
    }  # fmt: skip
    few = len(situations(data.cells)) <= _MOST_FRONTS
    layers: list[Spec] = [
        {
            "mark": {"type": "point", "filled": True, "size": 55},
            "encoding": {
                **common, **_by_path(data, point=True), "tooltip": _CELL_TIP,
                "opacity": {"condition": {"test": "datum.pareto", "value": 1}, "value": 0.4},
            },
        },
    ]  # fmt: skip
    if few:
        layers.append(
            {
                "transform": [{"filter": "datum.pareto"}],
                "mark": {"type": "line", "strokeDash": [4, 3], "color": "#8A8F98"},
                "encoding": {**common, "detail": _detail(("machine", *SITUATION))},
            }
        )
    spec: Spec = {
        "width": _WIDTH, "height": _HEIGHT,
        "transform": [{"filter": "datum.per_core != null && datum.path != 'null'"}],
        "layer": layers,
    }  # fmt: skip
    return Chart(
        "front", "Who gives most for its CPU?",
        "Up and right is better. Full colour: no other cell of its workload beats it in both (settled results only)"
        + (", joined by the broken line." if few else "."),
        "cells", spec,
    )  # fmt: skip


def _latency(data: PageData) -> Chart | None:
    if not data.latency:
        return None
    spec: Spec = {
        "width": _WIDTH, "height": _HEIGHT,
        "mark": {"type": "line", "point": {"size": 18}},
        "encoding": {
            "x": {"field": "x", "type": "quantitative", "scale": {"type": "log"}, "title": "percentile",
                  "axis": {"values": [2, 10, 100, 1000, 10000],
                           "labelExpr": "'p' + format(100 * (1 - 1 / datum.value), '.2~f')"}},
            "y": {"field": "us", "type": "quantitative", "scale": {"type": "log"}, "title": "latency",
                  "axis": _time_axis(row["us"] for row in data.latency)},
            "detail": _detail(("machine", "case")),
            "tooltip": _tip(("cell", "cell"), ("share", "percentile"), ("us", "us")),
            **_by_path(data, line=True),
        },
    }  # fmt: skip
    return Chart(
        "latency", "How long is the tail?",
        "Latency by percentile, each nine one step; the fastest cell of each path and workload. In an open loop it is "
        "the response time.",
        "latency", spec,
    )  # fmt: skip


def _cpu(data: PageData) -> Chart | None:
    if not data.cpu:
        return None
    parts: dict[str, int] = {}
    for row in data.cpu:
        parts.setdefault(str(row["part"]), int(row["order"]))
    named = sorted(parts, key=lambda part: (parts[part], part))
    # What is paid for and not used is grey, whatever else there is.
    spare = [part for part in named if part.startswith("reserved")]
    working = [part for part in named if part not in spare]
    colours = [COLOURS[index % (len(COLOURS) - 1)] for index in range(len(working))] + ["#B6BBC2"] * len(spare)
    spec: Spec = {
        "width": 1.5 * _WIDTH, "height": {"step": 20},
        "mark": {"type": "bar", "cornerRadiusEnd": 2},
        "encoding": {
            "y": {"field": "cell", "type": "nominal", "title": None, "sort": None, "axis": {"labelLimit": 360}},
            "x": {"field": "cores", "type": "quantitative", "title": "cores", "stack": True},
            "color": {"field": "part", "type": "nominal", "title": None,
                      "scale": {"domain": working + spare, "range": colours},
                      "legend": {"orient": "bottom", "columns": 4, "symbolLimit": 0}},
            "order": {"field": "order"},
            "tooltip": _tip(("cell", "cell"), ("part", "who"), ("cores", "cores")),
        },
    }  # fmt: skip
    return Chart(
        "cpu", "Who spends the CPU?",
        "Cores by who uses them, a poller's idle share included; the fastest cell of each path and workload.",
        "cpu", spec,
    )  # fmt: skip


def _gpus(data: PageData) -> Chart | None:
    counts = sorted({int(row["gpus"]) for row in data.cells if row["gpus"]})
    if len(counts) < 2:
        return None
    spec: Spec = {
        "width": _WIDTH, "height": _HEIGHT,
        "transform": [{"filter": "datum.gpus > 0"}],
        "mark": {"type": "line", "point": True},
        "encoding": {
            "x": {"field": "gpus", "type": "quantitative", "title": "GPUs", "axis": {"values": counts, "format": "d"}},
            "y": {"field": "gbs", "type": "quantitative", "title": "GB/s"},
            "detail": _detail([name for name in (*_SERIES, "qd") if name != "gpus"]),
            "tooltip": _CELL_TIP,
            **_by_path(data, line=True),
        },
    }  # fmt: skip
    return Chart("gpus", "Does it scale over GPUs?", "Total throughput against the number of GPUs fed.", "cells", spec)


def _history(data: PageData) -> Chart | None:
    if not data.history:
        return None
    common: Spec = {
        "x": {"field": "time", "type": "temporal", "title": None, "axis": {"labelOverlap": "greedy"}},
        "y": {"field": "relative", "type": "quantitative", "title": "throughput against its median",
              "axis": {"format": "+.0%"}},
    }  # fmt: skip
    tip = _tip(("cell", "cell"), ("gbs", "GB/s"), ("time", "time"))
    layers: list[Spec] = [
        {
            "mark": {"type": "line", "point": {"size": 24}, "opacity": 0.8},
            "encoding": {**common, "detail": _detail(("machine", "case")), "tooltip": tip, **_by_path(data, line=True)},
        },
    ]
    if any(row["step"] for row in data.history):
        layers.append(
            {
                "transform": [
                    {"filter": "datum.step"},
                    {"aggregate": [{"op": "count", "as": "cells"}], "groupby": ["time"]},
                ],
                "mark": {"type": "rule", "color": "#D55E00", "strokeDash": [6, 3], "strokeWidth": 1.5},
                "encoding": {"x": common["x"], "tooltip": _tip(("time", "changed at"), ("cells", "cells"))},
            }
        )
    return Chart(
        "history", "Did anything change over time?",
        "Runs in order of time; a vertical line is a change point (twelve runs or more, one false alarm in 100).",
        "history", {"width": 2 * _WIDTH, "height": _HEIGHT, "layer": layers},
    )  # fmt: skip


def rows_of(data: PageData, chart: Chart) -> list[Row]:
    """The dataset that a chart draws."""
    rows: list[Row] = getattr(data, chart.dataset)
    return rows


_CHARTS: Final[tuple[Callable[[PageData], Chart | None], ...]] = (
    _heat_size, _heat_depth, _depth, _load, _cpu_front, _latency, _cpu, _gpus, _history,
)  # fmt: skip
