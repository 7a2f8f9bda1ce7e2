"""The page's charts as Vega-Lite specifications; every one draws a named dataset, so that a filter can replace it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

from pytest_gpuio.report.page.rows import PageData

Spec = dict[str, Any]

#: Okabe and Ito's colours, told apart with every kind of colour vision; the tenth on they repeat with other shapes.
COLOURS: Final = (
    "#0072B2", "#E69F00", "#009E73", "#D55E00", "#56B4E9", "#CC79A7", "#999999", "#B8A200", "#332288",
)  # fmt: skip
_WIDTH: Final = 460
_HEIGHT: Final = 260


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


def _path_colour() -> Spec:
    return {
        "field": "path", "type": "nominal", "title": "data path",
        "scale": {"range": list(COLOURS)}, "legend": {"orient": "bottom", "columns": 5},
    }  # fmt: skip


def _tip(*fields: tuple[str, str]) -> list[Spec]:
    return [{"field": field, "title": title} for field, title in fields]


_CELL_TIP: Final = _tip(
    ("workload", "workload"), ("label", "cell"), ("gbs", "GB/s"), ("iops", "IOPS"), ("p99", "p99 ns"),
    ("reserved", "cores"), ("per_core", "GB/s per core"), ("flags", "flags"),
)  # fmt: skip


def _heat(data: PageData, axis: str, field: str, title: str) -> Chart | None:
    if len({row[axis] for row in data.cells}) < 2 or len({row["path"] for row in data.cells}) < 2:
        return None
    base: Spec = {
        "encoding": {
            "x": {"field": field, "type": "ordinal", "title": title, "sort": {"field": axis, "op": "min"}},
            "y": {"field": "path", "type": "nominal", "title": None},
        },
    }
    best = {"aggregate": "max", "field": "gbs", "type": "quantitative"}
    spec: Spec = {
        "facet": {"row": {"field": "medium", "type": "nominal", "title": "medium"}},
        "spec": {
            "width": _WIDTH - 110,
            "height": {"step": 24},
            **base,
            "layer": [
                {
                    "mark": {"type": "rect", "tooltip": True},
                    "encoding": {"color": {**best, "title": "GB/s", "scale": {"scheme": "viridis"}, "legend": None}},
                },
                {
                    "mark": {"type": "text", "fontSize": 10},
                    "encoding": {
                        "text": {**best, "format": ".3~r"},
                        "color": {"condition": {"test": "datum.max_gbs < 0", "value": "black"}, "value": "white"},
                    },
                },
            ],
        },
        "resolve": {"scale": {"color": "shared"}},
    }
    return Chart(
        f"heat-{axis}", f"Which path is fastest at which {title}?",
        "Best throughput in GB/s over all other axes; narrow them with the filters above.", "cells", spec,
    )  # fmt: skip


def _heat_size(data: PageData) -> Chart | None:
    return _heat(data, "bs", "size", "block size")


def _heat_depth(data: PageData) -> Chart | None:
    return _heat(data, "qd", "qd", "queue depth")


def _depth(data: PageData) -> Chart | None:
    if len({row["qd"] for row in data.cells}) < 3:
        return None
    detail = [{"field": name} for name in ("workload", "medium", "size", "jobs", "cache", "destination")]
    x = {"field": "qd", "type": "quantitative", "title": "queue depth", "scale": {"type": "log", "base": 2}}
    y = {"field": "gbs", "type": "quantitative", "title": "GB/s"}
    common: Spec = {"x": x, "y": y, "color": _path_colour(), "detail": detail, "tooltip": _CELL_TIP}
    spec: Spec = {
        "width": _WIDTH, "height": _HEIGHT,
        "layer": [
            {"mark": {"type": "line", "point": True}, "encoding": common},
            {
                "transform": [{"filter": "datum.knee"}],
                "mark": {"type": "point", "size": 220, "strokeWidth": 2, "shape": "circle"},
                "encoding": common,
            },
        ],
    }  # fmt: skip
    return Chart(
        "depth", "How much queue depth does each path need?",
        "Throughput against depth; the ring marks the knee, the least depth that gives 90 % of the series' best.",
        "cells", spec,
    )  # fmt: skip


def _load(data: PageData) -> Chart | None:
    if not data.cells:
        return None
    spec: Spec = {
        "width": _WIDTH, "height": _HEIGHT,
        "mark": {"type": "line", "point": True},
        "encoding": {
            "x": {"field": "gbs", "type": "quantitative", "title": "GB/s"},
            "y": {"field": "p99", "type": "quantitative", "title": "p99 (ns)", "scale": {"type": "log"},
                  "axis": {"format": "~s"}},
            "color": _path_colour(),
            "order": {"field": "qd", "type": "quantitative"},
            "detail": [{"field": name} for name in ("workload", "medium", "size", "jobs", "cache", "destination")],
            "tooltip": _CELL_TIP,
        },
    }  # fmt: skip
    return Chart(
        "load", "What does throughput cost in latency?",
        "p99 against throughput, joined in the order of depth: where a line turns upwards, more depth only waits.",
        "cells", spec,
    )  # fmt: skip


def _cpu_front(data: PageData) -> Chart | None:
    if not any(row["per_core"] is not None for row in data.cells):
        return None
    common: Spec = {
        "x": {"field": "gbs", "type": "quantitative", "title": "GB/s"},
        "y": {"field": "per_core", "type": "quantitative", "title": "GB/s per reserved core", "scale": {"type": "log"}},
    }
    spec: Spec = {
        "width": _WIDTH, "height": _HEIGHT,
        "transform": [{"filter": "datum.per_core != null && datum.path != 'null'"}],
        "layer": [
            {
                "mark": {"type": "point", "filled": True, "size": 60, "opacity": 0.75},
                "encoding": {**common, "color": _path_colour(), "tooltip": _CELL_TIP,
                             "shape": {"field": "path", "type": "nominal", "title": "data path"}},
            },
            {
                "transform": [{"filter": "datum.pareto"}],
                "mark": {"type": "line", "strokeDash": [4, 3], "color": "#888888"},
                "encoding": {**common, "detail": [{"field": n} for n in ("workload", "medium", "target")]},
            },
        ],
    }  # fmt: skip
    return Chart(
        "front", "Throughput against its CPU",
        "Up and right is better. The dashed line joins what no other cell beats in both (settled results only).",
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
            "y": {"field": "us", "type": "quantitative", "scale": {"type": "log"}, "title": "latency (us)"},
            "color": _path_colour(),
            "detail": {"field": "case"},
            "tooltip": _tip(("cell", "cell"), ("share", "percentile"), ("us", "us")),
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
    spec: Spec = {
        "width": 1.5 * _WIDTH, "height": {"step": 18},
        "mark": {"type": "bar", "tooltip": True},
        "encoding": {
            "y": {"field": "cell", "type": "nominal", "title": None, "sort": None, "axis": {"labelLimit": 420}},
            "x": {"field": "cores", "type": "quantitative", "title": "cores", "stack": True},
            "color": {"field": "part", "type": "nominal", "title": "who", "scale": {"range": list(COLOURS)},
                      "legend": {"orient": "bottom", "columns": 5}},
            "order": {"field": "order"},
        },
    }  # fmt: skip
    return Chart(
        "cpu", "Who spends the CPU?",
        "Cores by who uses them, a poller's idle share included; the fastest cell of each path and workload.",
        "cpu", spec,
    )  # fmt: skip


def _gpus(data: PageData) -> Chart | None:
    if len({row["gpus"] for row in data.cells if row["gpus"]}) < 2:
        return None
    spec: Spec = {
        "width": _WIDTH, "height": _HEIGHT,
        "transform": [{"filter": "datum.gpus > 0"}],
        "mark": {"type": "line", "point": True},
        "encoding": {
            "x": {"field": "gpus", "type": "quantitative", "title": "GPUs", "axis": {"tickMinStep": 1}},
            "y": {"field": "gbs", "type": "quantitative", "title": "GB/s"},
            "color": _path_colour(),
            "detail": [{"field": name} for name in ("workload", "medium", "size", "qd", "jobs")],
            "tooltip": _CELL_TIP,
        },
    }  # fmt: skip
    return Chart("gpus", "Does it scale over GPUs?", "Total throughput against the number of GPUs fed.", "cells", spec)


def _history(data: PageData) -> Chart | None:
    if not data.history:
        return None
    common: Spec = {
        "x": {"field": "time", "type": "temporal", "title": None},
        "y": {"field": "relative", "type": "quantitative", "title": "throughput against its median",
              "axis": {"format": "+.0%"}},
    }  # fmt: skip
    tip = _tip(("cell", "cell"), ("gbs", "GB/s"), ("time", "time"))
    spec: Spec = {
        "width": 2 * _WIDTH, "height": _HEIGHT,
        "layer": [
            {"mark": {"type": "line", "point": True},
             "encoding": {**common, "color": _path_colour(), "detail": {"field": "case"}, "tooltip": tip}},
            {"transform": [{"filter": "datum.step"}],
             "mark": {"type": "rule", "color": "#D55E00", "strokeDash": [6, 3]},
             "encoding": {"x": common["x"], "tooltip": tip}},
        ],
    }  # fmt: skip
    return Chart(
        "history", "Did anything change over time?",
        "Runs in order of time; a vertical line is a change point (twelve runs or more, one false alarm in 100).",
        "history", spec,
    )  # fmt: skip


_CHARTS: Final[tuple[Callable[[PageData], Chart | None], ...]] = (
    _heat_size, _heat_depth, _depth, _load, _cpu_front, _latency, _cpu, _gpus, _history,
)  # fmt: skip
