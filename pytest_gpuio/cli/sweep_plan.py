"""``gpuio sweep plan``: what a plan would do, before anything runs."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator
from typing import Any, Final

from pytest_gpuio.cli.output import put_json
from pytest_gpuio.cli.sweep_options import add_plan, add_shard, part_of, sweep_of
from pytest_gpuio.core.sizes import format_size
from pytest_gpuio.report.duration import long_duration
from pytest_gpuio.report.numbers import si
from pytest_gpuio.sweep.estimate import Estimate, estimate
from pytest_gpuio.sweep.expand import Sweep
from pytest_gpuio.sweep.order import arrange

_EXAMPLES: Final = """\
examples:

    gpuio sweep plan study
    gpuio sweep plan hour --gpuio-target /mnt/nvme0 --gpuio-jobs 1
    gpuio sweep plan mine.toml --gpuio-target fast=/mnt/nvme0 --json - --cells

Nothing is measured or written. Impossible pairs are left out of the count; what this machine lacks is not known yet.
Time and bytes are a forecast from the class of each medium.
"""


def parser() -> argparse.ArgumentParser:
    """Arguments of ``gpuio sweep plan``."""
    result = argparse.ArgumentParser(
        "gpuio sweep plan",
        usage="gpuio sweep plan PLAN [options]",
        description="Counts a plan's cells and says how long they take and how much they write.",
        epilog=_EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    result.add_argument(
        "--json", metavar="FILE", nargs="?", const="-", help="write it as JSON (default: standard output)"
    )
    result.add_argument("--cells", action="store_true", help="list the cells in the order they are measured in")
    add_shard(result)
    add_plan(result)
    return result


def run(arguments: argparse.Namespace) -> int:
    """Prints the forecast.

    Returns:
        0.

    Raises:
        ConfigError: as :func:`~pytest_gpuio.cli.sweep_options.sweep_of`.
    """
    if arguments.plan is None and arguments.json not in (None, "-"):
        arguments.plan, arguments.json = arguments.json, "-"  # `gpuio sweep plan --json PLAN`
    sweep = sweep_of(arguments)
    cells, _ = part_of(arguments, sweep)
    found = estimate(sweep, cells)
    ordered = arrange(cells, seed=sweep.plan.seed, block=sweep.plan.block) if arguments.cells else []
    if arguments.json:
        put_json(arguments.json, _data(sweep, found) | ({"cases": [p.cell.case for p in ordered]} if ordered else {}))
    if arguments.json != "-":
        sys.stdout.write("".join(forecast_lines(sweep, found)))
        sys.stdout.writelines(f"{planned.cell.case}\n" for planned in ordered)
    return 0


def forecast_lines(sweep: Sweep, found: Estimate) -> Iterator[str]:
    """The forecast for people."""
    plan = sweep.plan
    yield f"plan {plan.name}{f': {plan.title}' if plan.title else ''}\n"
    yield f"{found.cells:,} cells, about {long_duration(found.seconds)}\n"
    if plan.adaptive is not None:
        within = f"within {long_duration(plan.adaptive.budget_s)}" if plan.adaptive.budget_s else "in no more than that"
        yield f"  adaptive: a first look at each, then what is still open, {within}; with --full all of it\n"
    for target, count in found.by_target.items():
        where = sweep.targets.get(target)
        place = f"{where} ({sweep.media[target]})" if where else f"{sweep.media[target]}, no path given: skipped"
        written = found.written.get(target, 0.0)
        yield (
            f"  target {target}: {count:,} cells on {place}; {si(found.laid_out.get(target, 0.0))}B laid out, about "
            f"{si(written)}B written by cells\n"
        )
    yield "  " + ", ".join(f"{path} {count:,}" for path, count in found.by_path.items()) + "\n"
    effort = sweep.effort
    windows = (
        f"{effort.windows} windows of {effort.window_s * 1e3:g} ms" if effort.windows else f"profile {effort.profile}"
    )
    yield f"  each cell: {windows}, {format_size(effort.region_bytes)} of its target\n"


def _data(sweep: Sweep, found: Estimate) -> dict[str, Any]:
    return {
        "kind": "gpuio-sweep-plan",
        "plan": sweep.plan.name,
        "cells": found.cells,
        "seconds": found.seconds,
        "targets": {
            target: {
                "path": str(sweep.targets[target]) if target in sweep.targets else None,
                "medium": sweep.media[target],
                "cells": count,
                "laid_out_bytes": round(found.laid_out.get(target, 0.0)),
                "written_bytes": round(found.written.get(target, 0.0)),
            }
            for target, count in found.by_target.items()
        },
        "datapaths": found.by_path,
    }
