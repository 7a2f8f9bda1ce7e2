"""``gpuio sweep merge``: journals of shards as one."""

from __future__ import annotations

import argparse
import sys
from dataclasses import asdict
from typing import Final

from pytest_gpuio.cli.output import put_json
from pytest_gpuio.sweep.merge import merge

_EXAMPLES: Final = """\
examples:

    gpuio sweep run study --shard 1/2 --journal 1.jsonl --gpuio-target /mnt/nvme0      # on one host
    gpuio sweep run study --shard 2/2 --journal 2.jsonl --gpuio-target /mnt/nvme0      # on another
    gpuio sweep merge all.jsonl 1.jsonl 2.jsonl
    gpuio sweep export --journal all.jsonl --benchmark-json all.json

The journals are read only. Nothing is written when they are of different plans, when two of them hold the same shard or
cell, or when their hosts differ in kernel, versions or kinds of devices (--mixed allows that).

exit status: 0 every cell of the plan has a fate, 1 shards or cells are missing, 2 refused
"""


def parser() -> argparse.ArgumentParser:
    """Arguments of ``gpuio sweep merge``."""
    result = argparse.ArgumentParser(
        "gpuio sweep merge",
        usage="gpuio sweep merge OUT JOURNAL JOURNAL... [--mixed]",
        description="Makes one journal of those of a plan's shards.",
        epilog=_EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    result.add_argument("out", metavar="OUT", help="the journal to write; it must not exist")
    result.add_argument("journals", metavar="JOURNAL", nargs="+", help="journals of shards")
    result.add_argument("--mixed", action="store_true", help="their hosts may differ in kernel, versions or devices")
    result.add_argument("--json", metavar="FILE", help="write what was merged as JSON (- = standard output)")
    return result


def run(arguments: argparse.Namespace) -> int:
    """Merges them.

    Returns:
        See the help.

    Raises:
        ConfigError: they contradict one another, or the new journal exists.
        GpuioError: one cannot be read.
    """
    found = merge(arguments.out, arguments.journals, mixed=arguments.mixed)
    if arguments.json:
        put_json(arguments.json, {"kind": "gpuio-sweep-merge", "complete": found.complete, **asdict(found)})
    if arguments.json != "-":
        counts = f"{found.cells:,} measured, {found.voids:,} void, {found.failures:,} failed, {found.skips:,} skipped"
        sys.stdout.write(f"{arguments.out}: {counts} of {found.plan_cells:,} cells\n")
        if found.missing:
            sys.stdout.write(f"missing shards: {', '.join(map(str, found.missing))}\n")
        for path in found.unfinished:
            sys.stdout.write(f"not at its end: {path}\n")
    return 0 if found.complete else 1
