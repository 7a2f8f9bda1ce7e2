"""``gpuio sweep``: thousands of cells of a plan, and nothing lost on the way."""

from __future__ import annotations

import argparse
from collections.abc import Mapping
from typing import Final

#: What can be done, each in a module of its own.
ACTIONS: Final[Mapping[str, str]] = {
    action: f"pytest_gpuio.cli.sweep_{action}" for action in ("plan", "run", "status", "export", "merge")
}
_DESCRIPTION: Final = """\
Measures the cells of a plan, one after the other, and keeps each in a journal the moment it is done. Whatever ends a
run (Ctrl-C, kill -9, a power cut, a full disk), the same command goes on where it was left.

    gpuio sweep plan hour --gpuio-target /mnt/nvme0
        How many cells, how long, how many bytes written: before anything runs.

    gpuio sweep run hour --journal hour.jsonl --gpuio-target /mnt/nvme0
        Runs it, or goes on with it.

    gpuio sweep status --journal hour.jsonl
        How far it is, from another shell.

    gpuio sweep export --journal hour.jsonl --benchmark-json hour.json --parquet hour.parquet
        At any time, also while it runs.

    gpuio sweep run study --shard 2/8 --journal 2.jsonl ... ; gpuio sweep merge all.jsonl 1.jsonl 2.jsonl ...
        A part of it on each of several hosts, and one journal of all.

    gpuio sweep run mine.toml --journal mine.jsonl --gpuio-target /mnt/nvme0 --adaptive --budget 1h --confidence 95%
        A short look at every cell, then time only where the best path, its changes or a knee are still open.

Plans: study (29,272 cells: four media, eight paths), hour, smoke, or a TOML file of your own.
`gpuio sweep ACTION --help` shows each with examples.
"""


def parser() -> argparse.ArgumentParser:
    """What is shown when no action is named."""
    result = argparse.ArgumentParser(
        "gpuio sweep",
        usage="gpuio sweep ACTION ...",
        description=_DESCRIPTION,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    result.add_argument("action", metavar="ACTION", choices=list(ACTIONS), help="one of: %(choices)s")
    return result


def run(arguments: argparse.Namespace) -> int:
    """Never called: an action that is known has a module of its own.

    Raises:
        AssertionError: always.
    """
    raise AssertionError(f"action {arguments.action} was not dispatched")
