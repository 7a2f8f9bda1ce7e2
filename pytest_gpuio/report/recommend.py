"""Recommendations as text, a Markdown cheat sheet and plain data."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any, Final

from rich.text import Text

from pytest_gpuio.analysis.recommend import Option, Recommendation
from pytest_gpuio.core.sizes import format_size
from pytest_gpuio.report import numbers
from pytest_gpuio.report.tables import new_table, render

#: Columns of the cheat sheet.
HEADS: Final = (
    "phase / workload",
    "on",
    "use",
    "deciding",
    "GB/s",
    "cores",
    "CPU s/GB",
    "relative",
    "absolute",
    "how sure",
)
#: Those of them that may take several lines in a terminal.
_FOLDED: Final = frozenset({2, 9})
#: How the two gains are to be read: both are quoted, and they disagree.
GAINS: Final = (
    "Relative: gain in throughput over psync (else libaio). Absolute: the same gain as a share of what the device's "
    "link carries, where it is known, else of the most that was measured on that target."
)


def recommend_text(
    found: Sequence[Recommendation], width: int = 120, *, colour: bool = False, saturation: Mapping[str, float] = {}
) -> str:
    """A table, then what each answer rests on.

    Args:
        found: recommendations.
        width: columns of the terminal.
        colour: with ANSI escapes.
        saturation: GPUs that fill the CPUs, by path.
    """
    if not found:
        return "no result to recommend from\n"
    table = new_table()
    rows = [_row(one, short=True) for one in found]
    for number, head in enumerate(HEADS):
        folds = number in _FOLDED
        longest = max(len(word) for row in (HEADS, *rows) for word in row[number].split()) if folds else None
        table.add_column(head, overflow="fold", no_wrap=not folds, min_width=longest)
    for row in rows:
        table.add_row(*map(Text, row))
    lines = [render(table, width, colour=colour)]
    for one in found:
        lines.append(f"{' on '.join(place(one))}: {one.reason}\n")
        if one.absolute is not None and one.ceiling is not None:
            ceiling = f"{numbers.rate(one.ceiling / 1e9)} GB/s ({one.ceiling_from})"
            lines.append(f"    the absolute gain is a share of {ceiling}\n")
        if one.best is not None and len(one.pareto) > 1:
            front = "; ".join(
                f"{option.datapath} {geometry(option)} {numbers.rate(option.bytes_per_s / 1e9)} GB/s at "
                f"{numbers.rate(option.cpu_s_per_gb)} CPU s/GB"
                for option in one.pareto
            )
            lines.append(f"    throughput against CPU, none better in both: {front}\n")
        lines += [f"    out: {case}: {why}\n" for case, why in one.out.items()]
        if one.unsettled:
            lines.append(f"    unsettled, not used: {len(one.unsettled)} cells\n")
        lines += [f"    not measured: {path}: {why}\n" for path, why in one.not_measured.items()]
    if saturation:
        told = ", ".join(f"{path} {count:.1f}" for path, count in sorted(saturation.items()))
        lines.append(f"GPUs that fill this machine's CPUs: {told}\n")
    return "".join(lines)


def recommend_markdown(found: Sequence[Recommendation], machine: Mapping[str, Any]) -> str:
    """A cheat sheet for a wiki or a README."""
    cpu = (machine.get("cpu") or {}).get("model") or "unknown CPU"
    lines = [
        "# Storage data paths on this machine", "",
        f"{cpu}, kernel {machine.get('kernel') or 'unknown'}. {GAINS}", "",
        f"| {' | '.join(HEADS)} |", f"|{' --- |' * len(HEADS)}",
    ]  # fmt: skip
    lines += [f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in _row(one))} |" for one in found]
    return "\n".join(lines) + "\n"


def recommend_data(found: Sequence[Recommendation], saturation: Mapping[str, float]) -> dict[str, Any]:
    """Everything as a JSON-able map."""
    return {
        "kind": "gpuio-recommendation",
        "recommendations": [dataclasses.asdict(one) for one in found],
        "gpus_at_cpu_saturation": dict(saturation),
    }


def geometry(option: Option) -> str:
    """``64k qd32``, with jobs and batch where they are not 1."""
    axes = option.axes
    parts = [format_size(int(axes["bs"])), f"qd{axes['qd']}"]
    parts += [f"jobs{axes['jobs']}"] if int(axes["jobs"]) > 1 else []
    parts += [f"batch{axes['batch']}"] if axes.get("batch", "1x1") != "1x1" else []
    return " ".join(parts)


def place(one: Recommendation) -> tuple[str, str]:
    """What is done and on what: ``inference/kv_fetch hot``, ``nvme_ssd fast -> gpu``; usual values are left out."""
    situation = one.situation
    usual = {"cache": "direct", "durability": "none", "arrivals": "closed"}
    extras = [str(situation[axis]) for axis, value in usual.items() if situation[axis] != value]
    target = "" if situation["target"] == "default" else f" {situation['target']}"
    destination = "" if situation["destination"] == "host" else f" -> {situation['destination']}"
    return " ".join([str(situation["workload"]), *extras]), f"{situation['medium']}{target}{destination}"


def value_words(one: Recommendation) -> str:
    """The deciding metric and its value, ``p99 1.2ms``; of throughput its name, since its value is told anyway."""
    if one.metric == "bytes_per_s":
        return "throughput"
    if one.best is None:
        return one.metric
    value = one.best.value
    return f"{one.metric} {numbers.duration(value) if one.unit == 'ns' else numbers.si(value)}"


def _row(one: Recommendation, *, short: bool = False) -> tuple[str, ...]:
    name, where = place(one)
    if one.best is None:
        return name, where, "-", value_words(one), "-", "-", "-", "-", "-", one.reason
    best = one.best
    relative, absolute = gains(one)
    absolute = absolute.partition(" of ")[0] if short else absolute
    margin = "" if one.margin is None or one.runner_up is None else f" (+{one.margin:.0%} on {one.runner_up.datapath})"
    return (
        name, where, f"{best.datapath} {geometry(best)}", value_words(one),
        numbers.rate(best.bytes_per_s / 1e9), numbers.cores(best.cores_reserved), numbers.rate(best.cpu_s_per_gb),
        relative, absolute, one.confidence + margin,
    )  # fmt: skip


def gains(one: Recommendation) -> tuple[str, str]:
    """Relative and absolute gain in words: ``+23% on psync``, ``+12% of 7.88 GB/s (link)``."""
    if one.baseline is None or one.relative is None or one.absolute is None or one.ceiling is None:
        return "-", "-"
    if one.best is not None and one.best.datapath == one.baseline.datapath:
        return f"is {one.baseline.datapath}", "-"
    ceiling = f"{numbers.rate(one.ceiling / 1e9)} GB/s ({one.ceiling_from})"
    return f"{one.relative:+.0%} on {one.baseline.datapath}", f"{one.absolute:+.0%} of {ceiling}"
