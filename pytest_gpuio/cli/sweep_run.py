"""``gpuio sweep run``: measures a plan's cells, or goes on with them."""

from __future__ import annotations

import argparse
import sys
import time
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any, Final

import psutil

from pytest_gpuio.cli.output import put_json
from pytest_gpuio.cli.sweep_options import add_plan, add_shard, part_of, sweep_of
from pytest_gpuio.cli.sweep_plan import forecast_lines
from pytest_gpuio.core.errors import ConfigError
from pytest_gpuio.core.sizes import parse_percent
from pytest_gpuio.media import classify
from pytest_gpuio.sweep.estimate import estimate
from pytest_gpuio.sweep.expand import Sweep
from pytest_gpuio.sweep.journal import SweepJournal
from pytest_gpuio.sweep.progress import LiveProgress, PlainProgress
from pytest_gpuio.sweep.ranks import dismiss, serve
from pytest_gpuio.sweep.run import Runner
from pytest_gpuio.sweep.stop import Stop
from pytest_gpuio.sweep.terms import Terms, parse_budget, parse_confidence
from pytest_gpuio.sweep.wire import Wire, open_wire

_EXAMPLES: Final = """\
examples:

    gpuio sweep run hour --journal hour.jsonl --gpuio-target /mnt/nvme0
    gpuio sweep run mine.toml --journal mine.jsonl --gpuio-target fast=/mnt/nvme0 --gpuio-target slow=/mnt/hdd

The journal gets one line for each finished cell, on the medium before the next cell begins. Run the same command again
after anything: it skips what is finished. When the kernel, a device, a version or the windows changed, it begins a new
series in the same journal. One process at a time writes a journal.

adaptive: a short look at every cell, then more time only for cells that can still change an answer: the best data path
of each workload and medium, where along block size and depth it changes, and the knee of each depth curve. What is
decided with the confidence asked, and what is open, is printed at the end (and by --json). The same command goes on
where it ended; each command has the whole budget again. A plan with an [adaptive] table (hour) is run so unless --full
is given.

    gpuio sweep run mine.toml --journal mine.jsonl --gpuio-target /mnt/nvme0 --adaptive --budget 1h --confidence 95%

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
    group = result.add_argument_group("adaptive", "Time goes where an answer is still open.")
    group.add_argument("--adaptive", action="store_true", help="also where the plan does not say so")
    group.add_argument(
        "--budget", metavar="TIME", help="end within 2 %% of it: 1h, 20m (default: the full grid's forecast)"
    )
    group.add_argument("--confidence", metavar="P", help="of each decision (default: the plan's, else 95%%)")
    group.add_argument("--margin", metavar="P", help="difference that does not matter (default: the plan's, else 3%%)")
    group.add_argument("--full", action="store_true", help="measure every cell of the grid, whatever the plan says")
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
    terms = terms_of(arguments, sweep)
    if not sweep.settings.mpi:
        return _measure(arguments, sweep, terms, None)
    wire = open_wire()
    if wire.rank:
        serve(wire)
        return 0
    try:
        return _measure(arguments, sweep, None, wire)
    finally:
        dismiss(wire)


def _measure(arguments: argparse.Namespace, sweep: Sweep, terms: Terms | None, wire: Wire | None) -> int:
    media = {name: classify(path) for name, path in sweep.targets.items()}
    cells, part = part_of(arguments, sweep)
    progress = LiveProgress() if sys.stderr.isatty() and not arguments.plain else PlainProgress()
    sys.stderr.write("".join(forecast_lines(sweep, estimate(sweep, cells))))
    with SweepJournal(Path(arguments.journal)) as journal, Stop(progress.say) as stop:
        adaptive: AdaptiveRunner | None = None
        if terms is not None:
            # Only here: what decides takes as long to load as everything else.
            from pytest_gpuio.sweep.adaptive_run import AdaptiveRunner

            adaptive = AdaptiveRunner(sweep, media, journal, progress, stop, cells, terms, _age_s())
        runner = adaptive or Runner(sweep, media, journal, progress, stop, cells, part, wire)
        reason = runner.run()
        size = journal.size
    told: dict[str, Any] = {
        "kind": "gpuio-sweep-run",
        "reason": reason,
        "series": runner.series,
        "journal": arguments.journal,
    }
    told |= {"journal_bytes": size, **asdict(runner.tally)}
    if adaptive is not None and terms is not None:
        from pytest_gpuio.sweep.answers import answer_data, answer_lines

        found = (adaptive.decisions(), adaptive.cells, adaptive.adaptive.out, terms)
        told["adaptive"] = {"budget_s": adaptive.budget_s, "used_s": adaptive.used_s(), **answer_data(*found)}
        if arguments.json != "-":
            sys.stdout.write("".join(answer_lines(*found)))
    if arguments.json:
        put_json(arguments.json, told)
    if reason == "stopped":
        return _STOPPED
    return 1 if runner.tally.voids or runner.tally.failures else 0


def _age_s() -> float:
    """Seconds since this process was started: they are part of a budget, too."""
    # Both are made of the whole second of the boot, which their difference is free of.
    started = psutil.Process().create_time() - psutil.boot_time()
    return max(0.0, time.clock_gettime(time.CLOCK_BOOTTIME) - started)


def terms_of(arguments: argparse.Namespace, sweep: Sweep) -> Terms | None:
    """The terms of an adaptive sweep, or None when the full grid is to be measured.

    Raises:
        ConfigError: an option is malformed, or they contradict each other.
    """
    asked = {name: getattr(arguments, name) for name in ("budget", "confidence", "margin")}
    named = [f"--{name}" for name, value in asked.items() if value is not None]
    if arguments.full:
        if arguments.adaptive or named:
            also = ", ".join([*(["--adaptive"] if arguments.adaptive else []), *named])
            raise ConfigError(f"--full measures every cell, and {also} is about leaving some out: give one of them.")
        return None
    of_plan = sweep.plan.adaptive
    parts = "--shard" if arguments.shard else "--gpuio-mpi" if sweep.settings.mpi else None
    if parts is not None:
        if arguments.adaptive or named:
            raise ConfigError(
                f"{parts} measures parts that nobody can compare before all are there, so nothing can be decided "
                "meanwhile: leave --adaptive, --budget, --confidence and --margin away, or measure on one host."
            )
        return None
    if of_plan is None and not arguments.adaptive and not named:
        return None
    terms = of_plan or Terms()
    if arguments.budget is not None:
        terms = replace(terms, budget_s=parse_budget(arguments.budget))
    if arguments.confidence is not None:
        terms = replace(terms, confidence=parse_confidence(arguments.confidence))
    if arguments.margin is not None:
        terms = replace(terms, margin=parse_percent(arguments.margin, what="margin"))
    return terms
