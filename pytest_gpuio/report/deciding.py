"""What decides for a workload, in words: the lines that a summary begins with."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from typing import Final

from pytest_gpuio.core.cell import PHASES
from pytest_gpuio.phases import WORKLOADS, Workload
from pytest_gpuio.report import numbers
from pytest_gpuio.report.labels import apart, cut_alike, folded
from pytest_gpuio.results.record import CellRecord

#: Groups below which a p99 says little.
_FEW: Final = 100
#: Above so many cells of one workload only the best one is named.
_MOST: Final = 12


def deciding(record: CellRecord, *, note: bool = True) -> str:
    """What decides for a model's workload: ``p99 group 1.2ms, 3.1% over 50 ms``; empty for streams."""
    replay = record.get("replay")
    if replay is None:
        return ""
    found, ranks, stalled = replay["deciding"], replay["ranks"], replay["stall"]
    match found["metric"]:
        case "utilization":
            words = f"utilisation {found['value']:.1%}, {numbers.rate(record['cpu']['gb_per_s_per_core'])} GB/s/core"
        case "durable":
            words = f"durable in {numbers.duration(round(found['value'] * 1e9))}"
        case "stall":
            words = f"steps lose {numbers.duration(round(found['value'] * 1e9))} a save"
            words += f", durable in {numbers.duration(round(replay['background']['durable_s'] * 1e9))}"
        case "resident":
            words = f"resident in {numbers.duration(round(found['value'] * 1e9))}"
        case "completion_p99":
            over = replay["completion"]["over_ms"]
            limit = next((name for name in over if over[name] < 1.0), None)
            groups = replay["completion"]["groups"]
            # Of a few groups it is the worst one, and a reader should know.
            words = "p99 group" if groups >= _FEW else f"p99 of {groups} groups" if groups > 1 else "the one group"
            words += f" {numbers.duration(round(found['value'] * 1e9))}"
            words += f", {over[limit]:.1%} over {limit} ms" if limit else ""
            first_token = replay["completion"].get("ttft_share")
            words += f", {first_token:.0%} of TTFT" if first_token is not None else ""
        case _:
            words = f"{found['value'] / 1e9:.3g} GB/s"
    if ranks["count"] > 1:
        words += f", min rank {ranks['min_rank_gb_per_s']:.3g} GB/s"
    if stalled is not None and stalled["stall_s"] and found["metric"] not in ("utilization", "stall"):
        words += f", stalled {stalled['stall_s']:.3g} s"
    if stalled is not None and "kernel" in stalled:
        words += f", kernels {stalled['kernel']['stretch']:.3f}x as long as alone"
    if replay["cpu_s_per_gb"] is not None:
        words += f", {replay['cpu_s_per_gb']:.3g} CPU s/GB"
    return words + (f" ({replay['note']})" if note and replay["note"] else "")


def decisions(records: Sequence[CellRecord], width: int = 120) -> str:
    """What decides in each phase: a line per cell of a model, and one for the best cell of a generated stream.

    Args:
        records: measured cells.
        width: columns of the terminal.

    Returns:
        Lines that end in a newline; empty when nothing decides (micro workloads are what they are).
    """
    lines: list[str] = []
    for phase in PHASES:
        mine = [record for record in records if record["phase"] == phase]
        told = _phase(mine, width - 2)
        if told:
            lines += [f"{phase}:", *(f"  {line}" for line in told)]
    notes: dict[str, list[str]] = {}
    for record in records:
        if "replay" in record and record["replay"]["note"]:
            notes.setdefault(record["replay"]["note"], []).append(record["replay"]["model"])
    lines += [f"{note}: {', '.join(dict.fromkeys(names))}" for note, names in notes.items()]
    return "".join(f"{line}\n" for line in lines)


def _phase(records: Sequence[CellRecord], width: int) -> list[str]:
    """Lines of one phase: workload, what tells its cells apart, and what decides."""
    workloads: dict[str, list[CellRecord]] = {}
    for record in records:
        workloads.setdefault(str(record["axes"]["workload"]).partition("/")[2], []).append(record)
    rows: list[tuple[str, str, str]] = []
    for workload, cells in workloads.items():
        if "replay" in cells[0]:
            rows += _model_rows(workload, cells)
        else:
            rows += _stream_row(workload, cells)
    names = [f"{workload} {label}" for workload, label, _ in rows]
    room = width - max((len(words) for *_, words in rows), default=0) - 2
    if not cut_alike(names, room):
        longest = max(map(len, names), default=0)
        return [f"{name:<{longest}}  {words}" for name, (*_, words) in zip(names, rows, strict=True)]
    longest = max(len(label) for _, label, _ in rows)
    lines: list[str] = []
    for index, (workload, label, words) in enumerate(rows):
        if index == 0 or rows[index - 1][0] != workload:
            lines += folded(workload, width)
        lines.append(f"  {label:<{longest}}  {words}")
    return lines


def _model_rows(workload: str, cells: Sequence[CellRecord]) -> list[tuple[str, str, str]]:
    labels = apart([cell["axes"] for cell in cells])
    if len(cells) <= _MOST:
        return [(workload, label, deciding(cell, note=False)) for label, cell in zip(labels, cells, strict=True)]
    sign = 1.0 if cells[0]["replay"]["deciding"]["better"] == "lower" else -1.0
    best = min(range(len(cells)), key=lambda at: sign * cells[at]["replay"]["deciding"]["value"])
    return [(workload, labels[best], f"{deciding(cells[best], note=False)} (best of {len(cells)})")]


def _stream_row(workload: str, cells: Sequence[CellRecord]) -> list[tuple[str, str, str]]:
    """The best cell of a generated stream, by what decides in its phase."""
    known = WORKLOADS.get(str(cells[0]["axes"]["workload"]))
    phase = cells[0]["phase"]
    if phase == "micro" or not isinstance(known, Workload):
        return []
    if known.round == "region":
        # A window is one pass: a model is loaded, or a checkpoint saved until it is durable.
        seconds = [statistics.median(cell["windows"]["seconds"]) for cell in cells]
        best = min(range(len(cells)), key=seconds.__getitem__)
        words = f"{'durable' if known.writes else 'resident'} in {numbers.duration(round(seconds[best] * 1e9))}"
    elif phase == "inference":
        late = [cell["latency"]["lat"]["p99_ns"] for cell in cells]
        best = min(range(len(cells)), key=lambda at: float("inf") if late[at] is None else float(late[at] or 0))
        words = f"p99 {numbers.duration(late[best])}"
    else:
        best = max(range(len(cells)), key=lambda at: cells[at]["cpu"]["gb_per_s_per_core"] or 0.0)
        words = f"{numbers.rate(cells[best]['cpu']['gb_per_s_per_core'])} GB/s/core"
    cell = cells[best]
    if cell["bytes"]:
        words += f", {cell['cpu']['cores_used'] * cell['seconds'] / (cell['bytes'] / 1e9):.3g} CPU s/GB"
    words += f" (best of {len(cells)})" if len(cells) > 1 else ""
    return [(workload, apart([one["axes"] for one in cells])[best], words)]
