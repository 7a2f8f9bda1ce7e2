"""Text of what ``gpuio crosscheck`` found: one cell by two tools, or a suite of claims."""

from __future__ import annotations

import textwrap
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from pytest_gpuio.report import numbers

_GAP: Final = "  "
_WIDTH: Final = 120


def _nanoseconds(seconds: float) -> str:
    return numbers.duration(seconds * 1e9)


def _gigabytes(value: float) -> str:
    return numbers.rate(value / 1e9)


def _bare(value: float) -> str:
    return f"{value:.3g}"


#: Rows of a cell's table: figure, name, how its value is shown.
_ROWS: Final[Sequence[tuple[str, str, Callable[[float], str]]]] = (
    ("iops", "IOPS", numbers.si),
    ("bytes_per_s", "GB/s", _gigabytes),
    ("lat_mean", "lat mean", numbers.duration),
    ("lat_p50", "lat p50", numbers.duration),
    ("lat_p99", "lat p99", numbers.duration),
    ("lat_p999", "lat p99.9", numbers.duration),
    ("cores_told", "cores, by the tool", numbers.cores),
    ("cores_process", "cores, its process", numbers.cores),
    ("cores_host", "cores, machine", numbers.cores),
    ("cpu_told", "CPU/IO, by the tool", _nanoseconds),
    ("cpu_process", "CPU/IO, its process", _nanoseconds),
    ("cpu_host", "CPU/IO, machine", _nanoseconds),
)

_CPU_NOTE: Final = (
    "cores: CPU seconds per second. By the tool = its own figure; its process = the process's CPU clock, read from "
    "outside; machine = CPUs x time less idle and iowait of /proc/stat, strangers and kernel threads included."
)


def cell_text(found: Mapping[str, Any]) -> str:
    """One cell by two tools.

    Args:
        found: what ``gpuio crosscheck --json`` writes.

    Returns:
        Lines that end in a newline.
    """
    figures = found["figures"]
    table = [["", "gpuio", "fio", "gpuio / fio", "fio / fio", ""]]
    for name, title, shown in _ROWS:
        figure = figures[name]
        if figure["ours"] is None and figure["fio"] is None:
            continue
        ratio, floor = figure["ratio"], figure["noise_floor"]
        table.append(
            [
                title,
                _spread(figure["ours"], shown),
                _spread(figure["fio"], shown),
                _spread(ratio, _two),
                f"{floor[0]:.2f} .. {floor[1]:.2f}" if floor else numbers.UNKNOWN,
                "not decided" if ratio and floor and floor[0] <= ratio["median"] <= floor[1] else "",
            ]
        )
    lines = [found["title"], f"fio: {found['fio']['version']}", "", *aligned(table), ""]
    lines += _wrapped("Median [least .. most] of the pairs. A ratio inside fio's own (fio / fio) is not decided.")
    lines += _wrapped(_CPU_NOTE)
    share = found["foreign_share"]
    if share is not None:
        low, high = share["low"], share["high"]
        lines += _wrapped(f"Strangers used {share['median']:.0%} [{low:.0%} .. {high:.0%}] of the CPUs.")
    if found["disturbed"]:
        lines += _wrapped(f"Too much to decide anything: {found['disturbed']}.")
    lines += [line for fault in found["known_faults"] for line in _wrapped(f"Known fault: {fault['sentence']}")]
    lines += [line for sentence in found["unmatched"] for line in _wrapped(f"Not the same: {sentence}.")]
    if found["interrupted"]:
        lines.append("Interrupted: fewer pairs than asked for.")
    return "".join(f"{line}\n" for line in lines)


def suite_text(found: Mapping[str, Any]) -> str:
    """A suite of claims: one row each, the reasons below.

    Args:
        found: what ``gpuio crosscheck --suite ... --json`` writes.

    Returns:
        Lines that end in a newline.
    """
    rows = found["rows"]
    table = [["line", "figure", "spread", "target", "verdict"]]
    for row in rows:
        unit = f" {row['unit']}" if row["unit"] else ""
        low, high = row["low"], row["high"]
        table.append(
            [
                row["title"],
                numbers.UNKNOWN if row["figure"] is None else f"{_bare(row['figure'])}{unit}",
                "" if low is None or high is None else f"{_bare(low)} .. {_bare(high)}",
                row["target"] or "",
                row["verdict"],
            ]
        )
    lines = [*aligned(table), ""]
    for row in rows:
        if row["reason"]:
            lines += _wrapped(f"{row['title']}: {row['reason']}")
    lines += ["", *_wrapped(found["conditions"])]
    if found["interrupted"]:
        lines.append("Interrupted: the lines above are those that were done.")
    return "".join(f"{line}\n" for line in lines)


def aligned(rows: Sequence[Sequence[str]]) -> list[str]:
    """Rows as lines with columns under each other; the first row is the head, ruled off."""
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    lines = [_GAP.join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows]
    return [lines[0], _GAP.join("-" * width for width in widths).rstrip(), *lines[1:]]


def _spread(spread: Mapping[str, float] | None, shown: Callable[[float], str]) -> str:
    if spread is None:
        return numbers.UNKNOWN
    return f"{shown(spread['median'])} [{shown(spread['low'])} .. {shown(spread['high'])}]"


def _two(value: float) -> str:
    return f"{value:.2f}"


def _wrapped(text: str) -> list[str]:
    return textwrap.wrap(text, _WIDTH, subsequent_indent="  ", break_long_words=False, break_on_hyphens=False)
