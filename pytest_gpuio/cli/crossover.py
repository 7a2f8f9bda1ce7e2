"""``gpuio crossover``: where the better of two data paths changes."""

from __future__ import annotations

import argparse
import dataclasses
import sys
from collections.abc import Sequence
from typing import Any, Final

from pytest_gpuio.analysis.crossover import CROSSOVER_AXES, Crossover, from_runs, shown
from pytest_gpuio.analysis.metrics import METRICS, metric
from pytest_gpuio.cli.output import new_folder, progress, put_json
from pytest_gpuio.core.errors import ConfigError
from pytest_gpuio.core.sizes import parse_duration, parse_size
from pytest_gpuio.results.runs import read_runs
from pytest_gpuio.sweep.crossover import Search, search

_EXAMPLES: Final = """\
examples:

    gpuio crossover psync io_uring --axis bs --from 4k --to 1M -- my_suite --gpuio-workload=micro/randread
        Measures both ends and the middle, then halves the stretch in which the better one changes.

    gpuio crossover libaio io_uring --axis qd --from 1 --to 256 --metric cpu_s_per_gb -- my_suite --gpuio-bs=64k

    gpuio crossover psync io_uring --axis bs --results .benchmarks
        From existing results, without measuring; at least six runs decide.

A place is decided by at least six processes that (nearly) all agree. Only measured places are ever named.
"""
_TOLD: Final = ("workload", "medium", "bs", "qd", "jobs")
#: What follows ``--`` is pytest's.
TAKES_REST: Final = True


def parser() -> argparse.ArgumentParser:
    """Arguments of ``gpuio crossover``."""
    result = argparse.ArgumentParser(
        "gpuio crossover",
        usage="gpuio crossover A B --axis AXIS --from LOW --to HIGH [options] -- PYTEST-ARGUMENTS",
        description="Says up to where one data path is better and from where on the other is.",
        epilog=_EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    result.add_argument("a", metavar="A", help="one data path")
    result.add_argument("b", metavar="B", help="the other")
    result.add_argument("--axis", choices=CROSSOVER_AXES, default="bs", help="what changes (%(default)s)")
    result.add_argument("--from", dest="low", metavar="LOW", help="smallest value: 4k, or a count")
    result.add_argument("--to", dest="high", metavar="HIGH", help="largest value")
    result.add_argument("--metric", choices=list(METRICS), default="bytes_per_s", help="what decides (%(default)s)")
    result.add_argument(
        "--resolution", type=float, default=1.3, metavar="FACTOR", help="how narrow the answer must be (%(default)s)"
    )
    result.add_argument("--results", nargs="+", metavar="FILE", help="use these runs instead of measuring")
    result.add_argument("--timeout", metavar="TIME", help="end a pytest process that takes longer")
    result.add_argument("--out", metavar="FOLDER", help="where runs and logs are kept (default: gpuio-crossover-TIME)")
    result.add_argument("--json", metavar="FILE", help="write everything as JSON (- = standard output)")
    return result


def run(arguments: argparse.Namespace) -> int:
    """Measures or reads, and answers.

    Returns:
        0; 1 when no place was decided.

    Raises:
        ConfigError: a malformed range, nothing that both paths measured.
        GpuioError: pytest measured nothing.
    """
    found = _from_files(arguments) if arguments.results else [_measured(arguments)]
    if arguments.json:
        put_json(arguments.json, {"kind": "gpuio-crossover", "found": [_data(one) for one in found]})
    if arguments.json != "-":
        sys.stdout.write("".join(crossover_text(one) for one in found))
    return 0 if any(point.better != "undecided" for one in found for point in one.points) else 1


def _from_files(arguments: argparse.Namespace) -> Sequence[Crossover]:
    if arguments.rest:
        raise ConfigError("--results reads what was measured: leave the arguments behind -- out.")
    runs = read_runs(arguments.results)
    return from_runs(runs, arguments.a, arguments.b, arguments.axis, metric(arguments.metric))


def _measured(arguments: argparse.Namespace) -> Crossover:
    if not arguments.low or not arguments.high:
        raise ConfigError("name the stretch: --from LOW --to HIGH.")
    if not arguments.rest:
        raise ConfigError(
            "name what pytest shall run, behind --: gpuio crossover A B ... -- bench_suites/test_micro.py."
        )
    low, high = (_value(arguments.axis, text) for text in (arguments.low, arguments.high))
    patience = parse_duration(arguments.timeout) if arguments.timeout else None
    task = Search(
        arguments.a, arguments.b, arguments.axis, low, high, metric(arguments.metric), arguments.resolution,
        tuple(arguments.rest), patience,
    )  # fmt: skip
    return search(task, new_folder(arguments.out, "crossover"), progress())


def _value(axis: str, text: str) -> int:
    if axis == "bs":
        return parse_size(text, what=axis)
    if not text.isascii() or not text.isdigit() or not 0 < int(text) < 1_000_000:
        raise ConfigError(f"{axis} {text!r} is not a whole number above zero.")
    return int(text)


def crossover_text(one: Crossover) -> str:
    """Each place with its better path, then the answer."""
    names = {"a": one.a, "b": one.b, "undecided": "undecided"}
    told = [
        f"{key} {value}" for key, value in one.situation.items() if key in ("workload", "medium", "bs", "qd", "jobs")
    ]
    lines = [f"{', '.join(told)}\n"] if told else []
    for point in one.points:
        lines.append(
            f"  {shown(one.axis, point.x):>8}  {names[point.better]:<16} {one.a} {point.gain:+7.1%} in {one.metric}, "
            f"{len(point.differences)} processes\n"
        )
    return "".join([*lines, f"{one.sentence}\n"])


def _data(one: Crossover) -> dict[str, Any]:
    points = [{"x": p.x, "better": p.better, "gain": p.gain, "differences": list(p.differences)} for p in one.points]
    return {**dataclasses.asdict(one), "points": points}
