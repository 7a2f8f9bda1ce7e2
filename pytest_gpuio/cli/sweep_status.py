"""``gpuio sweep status``: how far a sweep is."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator
from dataclasses import asdict
from typing import Final

from pytest_gpuio.cli.output import put_json
from pytest_gpuio.core.errors import ConfigError
from pytest_gpuio.report.duration import long_duration
from pytest_gpuio.sweep.status import SeriesStatus, Status, read_status

_EXAMPLES: Final = """\
examples:

    gpuio sweep status --journal hour.jsonl
    watch -n 10 gpuio sweep status --journal hour.jsonl

Reading disturbs no sweep that is running.
"""


def parser() -> argparse.ArgumentParser:
    """Arguments of ``gpuio sweep status``."""
    result = argparse.ArgumentParser(
        "gpuio sweep status",
        usage="gpuio sweep status --journal FILE [--json FILE]",
        description="Says where a sweep stands, from its journal.",
        epilog=_EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    result.add_argument("--journal", metavar="FILE", help="of the sweep")
    result.add_argument("--json", metavar="FILE", help="write it as JSON (- = standard output)")
    return result


def run(arguments: argparse.Namespace) -> int:
    """Prints it.

    Returns:
        0.

    Raises:
        ConfigError: no journal was named, or it is none of a sweep.
        GpuioError: it cannot be read, or a line is corrupt.
    """
    if not arguments.journal:
        raise ConfigError("name the journal: gpuio sweep status --journal FILE.")
    status = read_status(arguments.journal)
    if arguments.json:
        series = [{**asdict(one), "drift": dict(one.drift())} for one in status.series]
        put_json(
            arguments.json,
            {"kind": "gpuio-sweep-status", "running": status.running, "bytes": status.size, "series": series},
        )
    if arguments.json != "-":
        sys.stdout.write("".join(_lines(status)))
    return 0


def _lines(status: Status) -> Iterator[str]:
    newest = status.series[-1]
    for one in status.series:
        state = (one.ended or "cut off") if one is not newest or not status.running else "running"
        fates = f"{one.measured - one.dropped:,} of {one.cells:,} measured, {one.void:,} void, {one.failed:,} failed"
        left = f"{one.skipped:,} skipped, {one.left:,} to go, in {one.runs} runs"
        yield f"series {one.id}, plan {one.plan}, {state}: {fates}, {left}\n"
        if one.dropped:
            yield f"  and {one.dropped:,} measured cells of the plan as it was before; an export has them, too\n"
        yield from _drift(one)
    if newest.seconds is not None:
        yield f"a cell takes {newest.seconds:.2f} s: {long_duration(newest.seconds * newest.left)} for the rest\n"
    if newest.last_s is not None:
        yield f"last: {newest.last}, {long_duration(newest.last_s)} ago\n"
    yield f"journal: {status.size:,} bytes\n"


def _drift(one: SeriesStatus) -> Iterator[str]:
    for target, change in one.drift().items():
        count = len(one.baselines[target])
        told = "too few to tell drift" if change is None else f"{change:+.1%} in time per request from first to last"
        yield f"  baseline of {target}: {count} measurements, {told}\n"
