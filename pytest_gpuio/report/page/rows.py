"""What the page shows, as small flat rows: cells, latency curves, CPU parts, history."""

from __future__ import annotations

import statistics
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, cast

from pytest_gpuio.analysis.history import series
from pytest_gpuio.analysis.metrics import METRICS
from pytest_gpuio.core.sizes import format_size
from pytest_gpuio.report.deciding import deciding
from pytest_gpuio.report.labels import within_workload
from pytest_gpuio.results import histogram
from pytest_gpuio.results.runs import RunFile, newest

if TYPE_CHECKING:
    from pytest_gpuio.results.record import CellRecord

#: Cells above which only the best of each group is drawn and listed; all of them are still counted.
MOST_ROWS: Final = 5_000
#: Curves a latency plot can hold before nobody can tell them apart.
MOST_CURVES: Final = 24
_MOST_BARS: Final = 24
_MOST_HISTORIES: Final = 24
#: A series' knee: the least depth that gives so much of its best throughput.
KNEE: Final = 0.9
_SHARES: Final = (0.5, 0.75, 0.9, 0.95, 0.98, 0.99, 0.995, 0.998, 0.999, 0.9995, 0.9999)
#: What a user asks about; paths and geometry compete within it.
SITUATION: Final = ("workload", "medium", "target", "destination")
_SERIES: Final = ("machine", *SITUATION, "path", "bs", "jobs", "cache", "durability", "gpus")

Row = dict[str, Any]


@dataclass(frozen=True, slots=True)
class PageData:
    """Datasets by name, and how many cells they stand for.

    Attributes:
        cells: one row per case (of its newest run). latency, cpu, history: of a choice of them.
        total: cases there are; more than rows where they were aggregated.
    """

    cells: list[Row]
    latency: list[Row]
    cpu: list[Row]
    history: list[Row]
    total: int


def page_data(runs: Sequence[RunFile]) -> PageData:
    """Everything the page draws.

    Args:
        runs: oldest first; of a case in several, the newest of its machine is shown and all make its history.
    """
    records = {(machine[:8], case): record for (machine, case), record in newest(runs).items()}
    rows = [_row(machine, record) for (machine, _), record in records.items()]
    total = len(rows)
    if total > MOST_ROWS:
        rows = _best_of_groups(rows)
    _mark_knees(rows)
    _mark_pareto(rows)
    several = len({row["machine"] for row in rows}) > 1
    chosen = [
        (_common(row["machine"], record, several=several), record)
        for row in _most_telling(rows)
        if (record := records[row["machine"], row["case"]])
    ]
    return PageData(
        rows,
        [{**common, **point} for common, record in chosen[:MOST_CURVES] for point in _latency(record)],
        [{**common, **part} for common, record in chosen[:_MOST_BARS] for part in _cpu(record)],
        _history(runs, {(row["machine"], row["case"]) for row in rows}, several=several),
        total,
    )


def situations(rows: Iterable[Row]) -> set[tuple[Any, ...]]:
    """Every situation there is, by machine."""
    return {tuple(row[name] for name in ("machine", *SITUATION)) for row in rows}


def _row(machine: str, record: Mapping[str, Any]) -> Row:
    axes, cpu = record["axes"], record["cpu"]
    distribution = record["open_loop"]["response"] if record.get("open_loop") else record["latency"]["lat"]
    failed = [gate for gate in record["gates"] if gate["state"] == "failed"]
    return {
        "machine": machine[:8],
        "case": record["case"],
        "label": within_workload(axes),
        "phase": record["phase"],
        "workload": axes["workload"],
        "medium": axes["medium"],
        "target": axes["target"],
        "destination": axes["destination"],
        "path": record["effective"]["datapath"],
        "bs": axes["bs"],
        "size": format_size(int(axes["bs"])),
        "qd": axes["qd"],
        "jobs": axes["jobs"],
        "gpus": axes.get("gpus", 0),
        "cache": axes["cache"],
        "durability": axes["durability"],
        "arrivals": axes["arrivals"],
        "gbs": _short(record["gb_per_s"]),
        "iops": _short(record["iops"]),
        "p50": _short(distribution["p50_ns"]),
        "p99": _short(distribution["p99_ns"]),
        "p99_us": None if distribution["p99_ns"] is None else _short(distribution["p99_ns"] / 1e3),
        "p999": _short(distribution["p999_ns"]),
        "cores": _short(cpu["cores_used"]),
        "reserved": _short(cpu["cores_reserved"]),
        "per_core": _short(cpu["gb_per_s_per_core_reserved"]),
        "deciding": deciding(cast("CellRecord", record), note=False),
        "flags": ", ".join(gate["gate"] for gate in failed),
        "settled": not any(gate["class"] == "unsettled" for gate in failed),
        "imported": "imported" in record,
        "evidence": "; ".join(
            [*record["effective"]["evidence"], *(f"{gate['gate']}: {gate['detail']}" for gate in failed)]
        ),
    }


def _short(value: float | None) -> float | None:
    """Five digits: more cost bytes and nobody sees them."""
    return None if value is None else float(f"{value:.5g}")


def _best_of_groups(rows: Iterable[Row]) -> list[Row]:
    """The fastest of each path, workload, medium, size and depth."""
    best: dict[tuple[Any, ...], Row] = {}
    for row in rows:
        key = tuple(row[name] for name in ("machine", *SITUATION, "path", "bs", "qd"))
        if key not in best or row["gbs"] > best[key]["gbs"]:
            best[key] = row
    kept = sorted(best.values(), key=lambda row: -row["gbs"])[:MOST_ROWS]
    for row in kept:
        row["evidence"] = ""  # the largest part of a row; the results file has it
    return kept


def _mark_knees(rows: Sequence[Row]) -> None:
    series: dict[tuple[Any, ...], list[Row]] = {}
    for row in rows:
        series.setdefault(tuple(row[name] for name in _SERIES), []).append(row)
    for members in series.values():
        if len({row["qd"] for row in members}) < 3:
            continue
        top = max(row["gbs"] for row in members)
        reached = [row for row in members if row["gbs"] >= KNEE * top]
        min(reached, key=lambda row: row["qd"])["knee"] = True


def _mark_pareto(rows: Sequence[Row]) -> None:
    """Rows of a situation that no other beats in both throughput and GB/s per core."""
    groups: dict[tuple[Any, ...], list[Row]] = {}
    for row in rows:
        if row["per_core"] is not None and row["settled"] and row["path"] != "null":
            key = tuple(row[name] for name in ("machine", *SITUATION))
            groups.setdefault(key, []).append(row)
    for members in groups.values():
        best = -1.0
        for row in sorted(members, key=lambda row: (-row["gbs"], -row["per_core"])):
            if row["per_core"] > best:
                row["pareto"] = True
                best = row["per_core"]


def _most_telling(rows: Sequence[Row]) -> list[Row]:
    """The fastest cell of each path and workload, fastest first."""
    best: dict[tuple[Any, ...], Row] = {}
    for row in rows:
        key = tuple(row[name] for name in ("machine", "path", "workload", "medium", "target"))
        if key not in best or row["gbs"] > best[key]["gbs"]:
            best[key] = row
    return sorted(best.values(), key=lambda row: -row["gbs"])


def _common(machine: str, record: Mapping[str, Any], *, several: bool) -> Row:
    axes = record["axes"]
    return {
        "machine": machine[:8],
        "case": record["case"],
        "phase": record["phase"],
        "workload": axes["workload"],
        "medium": axes["medium"],
        "path": record["effective"]["datapath"],
        "cell": f"{axes['workload']} {within_workload(axes)}" + (f" ({machine[:8]})" if several else ""),
    }


def _latency(record: Mapping[str, Any]) -> Iterable[Row]:
    """Points of the percentile curve: ``x`` is 1/(1-share), so that each nine is one step of a logarithmic axis."""
    distribution = record["open_loop"]["response"] if record.get("open_loop") else record["latency"]["lat"]
    if not distribution.get("histogram") or not distribution["count"]:
        return
    bins = histogram.decode(distribution["histogram"])
    for share in _SHARES:
        if (1 - share) * distribution["count"] < 1:
            break
        ns = histogram.quantile(
            bins, share, distribution["min_ns"], distribution["max_ns"], overflow=distribution["overflow"]
        )
        yield {"x": round(1 / (1 - share), 3), "share": f"p{share * 100:g}", "us": ns / 1e3}


def _cpu(record: Mapping[str, Any]) -> Iterable[Row]:
    cpu, seconds = record["cpu"], record["seconds"]
    if cpu.get("seconds") is None:
        return
    helpers: dict[str, float] = {}
    for thread in cpu["threads"]:
        if thread["role"] != "submitter":
            helpers[thread["role"]] = helpers.get(thread["role"], 0.0) + thread["seconds"]
    rest = max(0.0, cpu["seconds"] - sum(helpers.values()))
    both = cpu["user_s"] + cpu["system_s"]
    user = rest * cpu["user_s"] / both if both else rest
    parts = {
        "submitters, user": user,
        "submitters, kernel": rest - user,
        **{role.replace("_", " ") + " threads": value for role, value in helpers.items()},
        "interrupts": (cpu["irq_s"] or 0.0) + (cpu["softirq_s"] or 0.0),
        "daemons": sum(daemon["seconds"] for daemon in cpu["daemons"]),
        "reserved, idle": (cpu["cores_reserved"] - cpu["cores_used"]) * seconds,
    }
    for order, (part, value) in enumerate(parts.items()):
        if value > 0:
            yield {"part": part, "order": order, "cores": _short(value / seconds)}


def _history(runs: Sequence[RunFile], cases: set[tuple[str, str]], *, several: bool) -> list[Row]:
    """Throughput of cases that were measured at least three times, relative to each one's median."""
    rows: list[Row] = []
    long = [one for one in series(runs, METRICS["bytes_per_s"]) if len(one.values) >= 3]
    shown = [one for one in long if (one.machine[:8], one.case) in cases]
    # Those that changed are what a reader looks for.
    for one in sorted(shown, key=lambda one: (not one.changes, -len(one.values)))[:_MOST_HISTORIES]:
        centre = statistics.median(one.values)
        steps = {step.index for step in one.changes}
        common = _common(one.machine, one.record, several=several)
        rows += [
            {**common, "time": time.isoformat(), "number": number, "relative": _short(value / centre - 1.0),
             "gbs": _short(value / 1e9), "step": number in steps}
            for number, (time, value) in enumerate(zip(one.times, one.values, strict=True))
        ]  # fmt: skip
    return rows
