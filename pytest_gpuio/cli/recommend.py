"""``gpuio recommend``: the path to use per phase and medium, from results of this machine."""

from __future__ import annotations

import argparse
import os
import sys
from pathlib import Path
from typing import Final

from pytest_gpuio.analysis.metrics import METRICS
from pytest_gpuio.analysis.recommend import Limits, recommend, saturation
from pytest_gpuio.cli.output import put, put_json, terminal
from pytest_gpuio.core.errors import ConfigError
from pytest_gpuio.core.sizes import parse_duration
from pytest_gpuio.report.recommend import recommend_data, recommend_markdown, recommend_text
from pytest_gpuio.report.snippets import snippets
from pytest_gpuio.results.runs import read_runs

_EXAMPLES: Final = """\
examples:

    gpuio recommend .benchmarks
        What each phase should use, from every saved run.

    gpuio recommend results.json --max-cores 4 --slo-p99 2ms --markdown cheat-sheet.md
        Within four cores and two milliseconds, as a cheat sheet.

    gpuio recommend .benchmarks --config-dir settings/
        The same as settings: DeepSpeed aio block, kvikio environment, cufile.json, LMCache/NIXL, fio jobs.

A recommendation uses settled results only. Fewer than three runs a path are told as "one run": run the suites again.
"""


def parser() -> argparse.ArgumentParser:
    """Arguments of ``gpuio recommend``."""
    result = argparse.ArgumentParser(
        "gpuio recommend",
        usage="gpuio recommend FILE ... [options]",
        description="Says per phase and medium which data path to use, by the phase's deciding metric, what the\n"
        "runner-up is, how sure that is, and what was not measured.",
        epilog=_EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    result.add_argument("files", nargs="+", metavar="FILE", help="runs of one machine, or a storage folder")
    result.add_argument("--max-cores", type=float, metavar="N", help="cores it may take, pollers' whole ones included")
    result.add_argument("--slo-p99", metavar="TIME", help="p99 latency it must keep: 2ms")
    result.add_argument("--gpus", type=int, metavar="N", help="GPUs to feed at once: cores are counted for all of them")
    result.add_argument("--metric", choices=list(METRICS), help="deciding metric instead of the phase's own")
    result.add_argument("--markdown", metavar="FILE", help="write a cheat sheet (- = standard output)")
    result.add_argument("--json", metavar="FILE", help="write everything as JSON (- = standard output)")
    result.add_argument("--config-dir", metavar="FOLDER", help="write settings of known consumers into this folder")
    return result


def run(arguments: argparse.Namespace) -> int:
    """Recommends, prints, writes what was asked for.

    Returns:
        0; 1 when nothing could be recommended.

    Raises:
        ConfigError: unreadable runs, runs of two machines, a malformed limit.
    """
    limits = _limits(arguments)
    runs = read_runs(arguments.files)
    machines = {run.machine_id: run.machine for run in runs if run.machine}
    if len(machines) > 1:
        raise ConfigError(f"these runs come from {len(machines)} machines: recommend for one at a time.")
    machine = next(iter(machines.values()), {})
    found = recommend(runs, limits, arguments.metric)
    cpus = int((machine.get("cpu") or {}).get("cores") or 0)
    full = saturation(runs, cpus) if cpus else {}
    # Files first: who reads the table through a pipe that closes early still gets them.
    if arguments.config_dir:
        _write_settings(Path(arguments.config_dir), snippets(found))
    if arguments.markdown:
        put(arguments.markdown, recommend_markdown(found, machine), "w")
    if arguments.json:
        put_json(arguments.json, recommend_data(found, full))
    if "-" not in (arguments.json, arguments.markdown):
        width, colour = terminal()
        sys.stdout.write(recommend_text(found, width, colour=colour, saturation=full))
    return 0 if any(one.best is not None for one in found) else 1


def _limits(arguments: argparse.Namespace) -> Limits:
    for name in ("max_cores", "gpus"):
        value = getattr(arguments, name)
        if value is not None and not 0 < value < 1e6:
            raise ConfigError(f"--{name.replace('_', '-')} {value:g}: must be above 0.")
    p99 = None if arguments.slo_p99 is None else parse_duration(arguments.slo_p99) * 1e9
    return Limits(arguments.max_cores, p99, arguments.gpus)


def _write_settings(folder: Path, files: dict[str, str]) -> None:
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise ConfigError(f"{folder} cannot be made: {os.strerror(error.errno or 0)}.") from None
    for name, text in files.items():
        path = folder / name
        if path.exists():
            raise ConfigError(f"{path} exists already: name a new folder with --config-dir.")
        put(str(path), text, "x")
    sys.stderr.write(f"{len(files)} files of settings in {folder}\n")
