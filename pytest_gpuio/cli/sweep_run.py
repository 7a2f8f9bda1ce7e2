"""``gpuio sweep run``: measures a plan's cells, or goes on with them."""

from __future__ import annotations

import argparse
import sys
from dataclasses import asdict
from pathlib import Path
from typing import Final

from pytest_gpuio.cli.output import put_json
from pytest_gpuio.cli.sweep_options import add_plan, add_shard, part_of, sweep_of
from pytest_gpuio.cli.sweep_plan import forecast_lines
from pytest_gpuio.core.errors import ConfigError
from pytest_gpuio.media import classify
from pytest_gpuio.sweep.estimate import estimate
from pytest_gpuio.sweep.expand import Sweep
from pytest_gpuio.sweep.journal import SweepJournal
from pytest_gpuio.sweep.progress import LiveProgress, PlainProgress
from pytest_gpuio.sweep.ranks import dismiss, serve
from pytest_gpuio.sweep.run import Runner
from pytest_gpuio.sweep.stop import Stop
from pytest_gpuio.sweep.wire import Wire, open_wire

_EXAMPLES: Final = """\
examples:

    gpuio sweep run hour --journal hour.jsonl --gpuio-target /mnt/nvme0
    gpuio sweep run mine.toml --journal mine.jsonl --gpuio-target fast=/mnt/nvme0 --gpuio-target slow=/mnt/hdd

The journal gets one line for each finished cell, on the medium before the next cell begins. Run the same command again
after anything: it skips what is finished. When the kernel, a device, a version or the windows changed, it begins a new
series in the same journal. One process at a time writes a journal.

Ctrl-C, SIGUSR1 and SIGTERM finish the running cell and stop; a second one stops at once and loses that cell.

exit status: 0 all cells are measured or skipped, 1 some are void or failed, 2 wrong usage or the journal cannot be
written, 4 stopped before the end, 130 stopped at once
"""
_STOPPED: Final = 4


def parser() -> argparse.ArgumentParser:
    """Arguments of ``gpuio sweep run``."""
    result = argparse.ArgumentParser(
        "gpuio sweep run",
        usage="gpuio sweep run PLAN --journal FILE [options]",
        description="Measures the cells of a plan one after the other, in an order drawn from its seed.",
        epilog=_EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    result.add_argument("--journal", metavar="FILE", help="where each finished cell is kept; an existing one goes on")
    result.add_argument("--plain", action="store_true", help="plain lines, also on a terminal")
    result.add_argument("--json", metavar="FILE", help="write where it stands at the end (- = standard output)")
    add_shard(result)
    add_plan(result)
    return result


def run(arguments: argparse.Namespace) -> int:
    """Runs it.

    Returns:
        See the help.

    Raises:
        ConfigError: no journal was named, the plan or an option is wrong.
        Busy: another process writes the journal, or measures on this host.
        GpuioError: the journal cannot be written.
    """
    if not arguments.journal:
        raise ConfigError("name the journal: gpuio sweep run PLAN --journal FILE.")
    sweep = sweep_of(arguments)
    if not sweep.settings.mpi:
        return _measure(arguments, sweep, None)
    wire = open_wire()
    if wire.rank:
        serve(wire)
        return 0
    try:
        return _measure(arguments, sweep, wire)
    finally:
        dismiss(wire)


def _measure(arguments: argparse.Namespace, sweep: Sweep, wire: Wire | None) -> int:
    media = {name: classify(path) for name, path in sweep.targets.items()}
    cells, part = part_of(arguments, sweep)
    progress = LiveProgress() if sys.stderr.isatty() and not arguments.plain else PlainProgress()
    sys.stderr.write("".join(forecast_lines(sweep, estimate(sweep, cells))))
    with SweepJournal(Path(arguments.journal)) as journal, Stop(progress.say) as stop:
        runner = Runner(sweep, media, journal, progress, stop, cells, part, wire)
        reason = runner.run()
        size = journal.size
    if arguments.json:
        told = {"kind": "gpuio-sweep-run", "reason": reason, "series": runner.series, "journal": arguments.journal}
        put_json(arguments.json, {**told, "journal_bytes": size, **asdict(runner.tally)})
    if reason == "stopped":
        return _STOPPED
    return 1 if runner.tally.voids or runner.tally.failures else 0
