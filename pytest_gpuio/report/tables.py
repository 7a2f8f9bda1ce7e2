"""Terminal tables: records in, text out."""

from __future__ import annotations

import io
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final, cast

from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text

from pytest_gpuio.core.sizes import format_size
from pytest_gpuio.report import numbers
from pytest_gpuio.results.record import CellRecord, Cpu, GateClass, failed_gates
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
#: Axes shown only when they differ from what nearly every cell has.
_USUAL: Final = {
    "target": "default",
    "destination": "host",
    "jobs": 1,
    "batch": "1x1",
    "cache": "direct",
    "durability": "none",
    "arrivals": "closed",
    "gpus": 1,
    "ranks": 1,
}


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


def deciding(record: CellRecord, *, note: bool = True) -> str:
    """What decides for a model's workload: ``p99 group 1.20ms, 3.1 % over 50 ms``; empty for streams."""
    replay = record.get("replay")
    if replay is None:
        return ""
    found, ranks, stalled = replay["deciding"], replay["ranks"], replay["stall"]
    match found["metric"]:
        case "utilization":
            words = f"utilisation {found['value']:.1%}, {numbers.rate(record['cpu']['gb_per_s_per_core'])} GB/s/core"
        case "durable":
            words = f"durable in {numbers.duration(round(found['value'] * 1e9))}"
        case "resident":
            words = f"resident in {numbers.duration(round(found['value'] * 1e9))}"
        case "completion_p99":
            over = replay["completion"]["over_ms"]
            limit = next((name for name in over if over[name] < 1.0), None)
            words = f"p99 group {numbers.duration(round(found['value'] * 1e9))}"
            words += f", {over[limit]:.1%} over {limit} ms" if limit else ""
        case _:
            words = f"{found['value'] / 1e9:.3g} GB/s"
    if ranks["count"] > 1:
        words += f", min rank {ranks['min_rank_gb_per_s']:.3g} GB/s"
    if stalled is not None and stalled["stall_s"] and found["metric"] != "utilization":
        words += f", stalled {stalled['stall_s']:.3g} s"
    if replay["cpu_s_per_gb"] is not None:
        words += f", {replay['cpu_s_per_gb']:.3g} CPU s/GB"
    return words + (f" ({replay['note']})" if note and replay["note"] else "")


def short_case(axes: Mapping[str, str | int]) -> str:
    """A cell's axes in a few words: ``inference/kv_fetch io_uring nvme_ssd 64k qd32``; usual values are left out."""
    return f"{axes['workload']} {within_workload(axes)}"


def results_table(records: Sequence[CellRecord], width: int = 120, *, colour: bool = False) -> str:
    """One row per cell, in the order given.

    Args:
        records: measured cells.
        width: columns of the terminal.
        colour: with ANSI escapes.

    Returns:
        Lines that end in a newline; empty when there is no record.
    """
    return _table([_row(record, short_case(record["axes"])) for record in records], records, width, colour=colour)


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
    for workload, cells in workloads.items():
        cells.sort(key=lambda record: record["gb_per_s"], reverse=True)
        best, worst = (cells[:n], cells[-n:]) if len(cells) > 2 * n else (cells, [])
        rows.append((f"{workload}: {len(cells)} cells, best first", *[""] * len(_HEADS)))
        rows += [_row(record, f"  {within_workload(record['axes'])}") for record in best]
        if worst:
            rows.append((f"  ... {len(cells) - 2 * n} between ...", *[""] * len(_HEADS)))
            rows += [_row(record, f"  {within_workload(record['axes'])}") for record in worst]
        shown += best + worst
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
    cases = [_shorten(short_case(void["axes"]), room) for void in voids]
    table = new_table()
    table.add_column("void case", no_wrap=True)
    table.add_column("gate", no_wrap=True)
    table.add_column("why", overflow="fold")
    for case, void in zip(cases, voids, strict=True):
        table.add_row(Text(case), Text(void["gate"], style="red"), Text(void["reason"]))
    return render(table, max(width, max(map(len, cases)) + gates + 2 * _GAP + _SHORTEST_CASE), colour=colour)


def within_workload(axes: Mapping[str, str | int]) -> str:
    """What tells cells of one workload apart: ``io_uring virtual 64k qd32``."""
    parts = [str(axes["datapath"]), str(axes["medium"])]
    parts += [f"{axes[axis]}" for axis in ("target", "destination") if axes[axis] != _USUAL[axis]]
    if axes.get("gpus", _USUAL["gpus"]) != _USUAL["gpus"]:
        parts.append(f"gpus{axes['gpus']}")
    parts += [format_size(int(axes["bs"])), f"qd{axes['qd']}"]
    if axes["jobs"] != _USUAL["jobs"]:
        parts.append(f"jobs{axes['jobs']}")
    if axes.get("ranks", _USUAL["ranks"]) != _USUAL["ranks"]:
        parts.append(f"ranks{axes['ranks']}")
    if axes["batch"] != _USUAL["batch"]:
        parts.append(f"batch{axes['batch']}")
    parts += [f"{axes[axis]}" for axis in ("cache", "durability", "arrivals") if axes[axis] != _USUAL[axis]]
    return " ".join(parts)


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


def _cores(cpu: Cpu) -> str:
    """Cores used; where pollers reserve more than 5 % beyond, ``used/reserved``."""
    used, reserved = cpu["cores_used"], cpu["cores_reserved"]
    if reserved > (1 + _RESERVED_SHOWN) * used:
        return f"{numbers.cores(used)}/{numbers.cores(reserved)}"
    return numbers.cores(used)


def _table(rows: Sequence[tuple[str, ...]], records: Sequence[CellRecord], width: int, *, colour: bool) -> str:
    if not rows:
        return ""
    widths = [max(len(head), *(len(row[index]) for row in rows)) for index, head in enumerate(_HEADS, start=1)]
    figures = sum(widths) + _GAP * len(_HEADS)
    room = max(_SHORTEST_CASE, width - figures)
    table = new_table()
    table.add_column("case", no_wrap=True)
    for head in _HEADS:
        table.add_column(head, no_wrap=True, justify="right" if head else "left")
    for case, *figures_of_row, flags in rows:
        table.add_row(Text(_shorten(case, room)), *map(Text, figures_of_row), Text(flags, style="yellow"))
    return _decisions(records, width) + render(table, room + figures, colour=colour) + _legend(records)


def _decisions(records: Sequence[CellRecord], width: int) -> str:
    """What decides for each model, ahead of the figures that every cell has."""
    models = [record for record in records if "replay" in record]
    if not models:
        return ""
    # Sizes follow in the table: here workload and data path, as far as they tell cells apart.
    names = [f"{record['axes']['workload']} {record['axes']['datapath']}" for record in models]
    words = [deciding(record, note=False) for record in models]
    room = max(_SHORTEST_CASE, width - max(map(len, words)) - _GAP)
    longest = min(max(map(len, names)), room)
    lines = [f"{_shorten(name, room):<{longest}}  {text}\n" for name, text in zip(names, words, strict=True)]
    notes: dict[str, list[str]] = {}
    for record in models:
        if record["replay"]["note"]:
            notes.setdefault(record["replay"]["note"], []).append(record["replay"]["model"])
    lines += [f"{note}: {', '.join(dict.fromkeys(names))}\n" for note, names in notes.items()]
    return "".join(lines) + "\n"


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


def _shorten(text: str, room: int) -> str:
    """Cut in the middle: the workload at one end and the sizes at the other tell cells apart."""
    if len(text) <= room:
        return text
    tail = (room - 3) // 2
    return f"{text[: room - 3 - tail]}...{text[-tail:]}"


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
