"""Terminal tables: records in, text out."""

from __future__ import annotations

import io
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final, cast

from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text

from pytest_gpuio.report import numbers
from pytest_gpuio.report.deciding import deciding
from pytest_gpuio.report.labels import cut_alike, folded, short_case, shorten, within_workload
from pytest_gpuio.results.record import CellRecord, GateClass, failed_gates
from pytest_gpuio.results.run_file import Void

#: Blanks between columns; the box draws one of them.
_GAP: Final = 2
#: A case is never cut below this; on a narrower terminal lines get longer instead of figures getting lost.
_SHORTEST_CASE: Final = 24
#: Plain ASCII: these tables end in logs of every encoding. One rule, under the head.
_BOX: Final = box.Box("    \n    \n -- \n    \n    \n    \n    \n    \n", ascii=True)
_HEADS: Final = ("GB/s", "IOPS", "p50", "p99", "p99.9", "cores", "GB/s/core", "")
#: Reserved cores are shown when they exceed the used ones by this.
_RESERVED_SHOWN: Final = 0.05


def cell_line(record: CellRecord) -> str:
    """One cell in a few words: ``1.86 GB/s 455k IOPS p99 210us 0.71 cores``."""
    parts = [
        *([deciding(record)] if "replay" in record else []),
        f"{numbers.rate(record['gb_per_s'])} GB/s",
        f"{numbers.si(record['iops'])} IOPS",
        f"p99 {numbers.duration(record['latency']['lat']['p99_ns'])}",
        f"{_cores(record['cpu'])} cores",
    ]
    unsettled = _failed(record, "unsettled")
    if unsettled:
        parts.append(f"(unsettled: {', '.join(unsettled)})")
    return " ".join(parts)


def results_table(records: Sequence[CellRecord], width: int = 120, *, colour: bool = False) -> str:
    """One row per cell, in the order given; below headings where workloads are too long to stand in each row.

    Args:
        records: measured cells.
        width: columns of the terminal.
        colour: with ANSI escapes.

    Returns:
        Lines that end in a newline; empty when there is no record.
    """
    rows = [_row(record, short_case(record["axes"])) for record in records]
    if rows and cut_alike([row[0] for row in rows], _room(rows, width)):
        rows = _below_headings(records, _room(rows, width))
    return _table(rows, records, width, colour=colour)


def _below_headings(records: Sequence[CellRecord], room: int) -> list[tuple[str, ...]]:
    workloads: dict[str, list[CellRecord]] = {}
    for record in records:
        workloads.setdefault(str(record["axes"]["workload"]), []).append(record)
    rows: list[tuple[str, ...]] = []
    for workload, cells in workloads.items():
        rows += [(line, *[""] * len(_HEADS)) for line in folded(workload, room)]
        rows += [_row(record, f"  {within_workload(record['axes'])}") for record in cells]
    return rows


def best_worst(records: Sequence[CellRecord], n: int = 3, width: int = 120, *, colour: bool = False) -> str:
    """The fastest and slowest cells of each workload by GB/s; for runs with too many rows to read.

    Args:
        records: measured cells.
        n: rows at either end.
        width: columns of the terminal.
        colour: with ANSI escapes.

    Returns:
        Lines that end in a newline; empty when there is no record.
    """
    workloads: dict[str, list[CellRecord]] = {}
    for record in records:
        workloads.setdefault(str(record["axes"]["workload"]), []).append(record)
    rows: list[tuple[str, ...]] = []
    shown: list[CellRecord] = []
    headings: list[tuple[int, str]] = []
    for workload, cells in workloads.items():
        cells.sort(key=lambda record: record["gb_per_s"], reverse=True)
        best, worst = (cells[:n], cells[-n:]) if len(cells) > 2 * n else (cells, [])
        headings.append((len(rows), f"{workload}: {len(cells)} cells, best first"))
        rows += [_row(record, f"  {within_workload(record['axes'])}") for record in best]
        if worst:
            rows.append((f"  ... {len(cells) - 2 * n} between ...", *[""] * len(_HEADS)))
            rows += [_row(record, f"  {within_workload(record['axes'])}") for record in worst]
        shown += best + worst
    room = _room(rows, width) if rows else 0
    for place, heading in reversed(headings):
        rows[place:place] = [(line, *[""] * len(_HEADS)) for line in folded(heading, room)]
    return _table(rows, shown, width, colour=colour)


def voids_table(voids: Sequence[Void], width: int = 120, *, colour: bool = False) -> str:
    """Cells whose result cannot be true, with the gate that found it and the whole reason.

    Args:
        voids: as in the results file.
        width: columns of the terminal.
        colour: with ANSI escapes.

    Returns:
        Lines that end in a newline; empty when there is no void.
    """
    if not voids:
        return ""
    gates = max(len("gate"), *(len(void["gate"]) for void in voids))
    room = max(_SHORTEST_CASE, (width - gates - 2 * _GAP) // 2)
    cases = [short_case(void["axes"]) for void in voids]
    alike = cut_alike(cases, room)
    if not alike:
        cases = [shorten(case, room) for case in cases]
    table = new_table()
    table.add_column("void case", no_wrap=not alike, overflow="fold", max_width=room)
    table.add_column("gate", no_wrap=True)
    table.add_column("why", overflow="fold")
    for case, void in zip(cases, voids, strict=True):
        table.add_row(Text(case), Text(void["gate"], style="red"), Text(void["reason"]))
    return render(table, max(width, min(max(map(len, cases)), room) + gates + 2 * _GAP + _SHORTEST_CASE), colour=colour)


def _row(record: CellRecord, case: str) -> tuple[str, ...]:
    lat = record["latency"]["lat"]
    flags = ("U" if _failed(record, "unsettled") else "") + ("W" if _failed(record, "warning") else "")
    return (
        case,
        numbers.rate(record["gb_per_s"]),
        numbers.si(record["iops"]),
        numbers.duration(lat["p50_ns"]),
        numbers.duration(lat["p99_ns"]),
        numbers.duration(lat["p999_ns"]),
        _cores(record["cpu"]),
        numbers.rate(record["cpu"]["gb_per_s_per_core"]),
        flags,
    )


def _cores(cpu: Mapping[str, Any]) -> str:
    """Cores used; where pollers reserve more than 5 % beyond, ``used/reserved``; unknown in an imported cell."""
    used, reserved = cpu["cores_used"], cpu["cores_reserved"]
    if used is not None and reserved is not None and reserved > (1 + _RESERVED_SHOWN) * used:
        return f"{numbers.cores(used)}/{numbers.cores(reserved)}"
    return numbers.cores(used)


def _figures(rows: Sequence[tuple[str, ...]]) -> int:
    """Columns that all figures take, gaps included."""
    widths = [max(len(head), *(len(row[index]) for row in rows)) for index, head in enumerate(_HEADS, start=1)]
    return sum(widths) + _GAP * len(_HEADS)


def _room(rows: Sequence[tuple[str, ...]], width: int) -> int:
    """Columns that are left for cases."""
    return max(_SHORTEST_CASE, width - _figures(rows))


def _table(rows: Sequence[tuple[str, ...]], records: Sequence[CellRecord], width: int, *, colour: bool) -> str:
    if not rows:
        return ""
    room = _room(rows, width)
    figures = _figures(rows)
    table = new_table()
    table.add_column("case", no_wrap=True)
    for head in _HEADS:
        table.add_column(head, no_wrap=True, justify="right" if head else "left")
    for case, *figures_of_row, flags in rows:
        table.add_row(Text(shorten(case, room)), *map(Text, figures_of_row), Text(flags, style="yellow"))
    return render(table, room + figures, colour=colour) + _legend(records)


def _legend(records: Iterable[CellRecord]) -> str:
    unsettled: dict[str, None] = {}
    warnings: dict[str, None] = {}
    for record in records:
        unsettled.update(dict.fromkeys(_failed(record, "unsettled")))
        warnings.update(dict.fromkeys(_failed(record, "warning")))
    lines = []
    if unsettled:
        lines.append(f"U = unsettled: true but not steady, never used by a recommendation ({', '.join(unsettled)})\n")
    if warnings:
        lines.append(f"W = warning ({', '.join(warnings)})\n")
    return "".join(lines)


def _failed(record: CellRecord, gate_class: GateClass) -> list[str]:
    return [gate["gate"] for gate in failed_gates(record, gate_class)]


def new_table() -> Table:
    """An empty table in the style of all of ours: plain ASCII, one rule under the head."""
    return Table(box=_BOX, padding=(0, _GAP - 1, 0, 0), pad_edge=False, show_edge=False, collapse_padding=True)


def render(table: Table, width: int, *, colour: bool) -> str:
    """Lines of a table without blanks at their ends.

    Args:
        table: filled.
        width: columns of the terminal.
        colour: with ANSI escapes.
    """
    out = io.StringIO()
    console = Console(
        file=out,
        width=width,
        force_terminal=colour,
        color_system="standard" if colour else None,
        highlight=False,
        emoji=False,
        markup=False,
        legacy_windows=False,
    )
    console.print(table)
    return "".join(f"{line.rstrip()}\n" for line in out.getvalue().splitlines())


def results_markdown(records: Sequence[Mapping[str, Any]]) -> str:
    """The same table in Markdown, fastest first within each workload."""
    heads = ("case", *_HEADS[:-1], "flags")
    lines = [f"| {' | '.join(heads)} |", f"|{' --- |' * len(heads)}"]
    for record in sorted(records, key=lambda one: (one["axes"]["workload"], -one["gb_per_s"])):
        cells = [cell or "-" for cell in _row(cast("CellRecord", record), short_case(record["axes"]))]
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines) + "\n"
