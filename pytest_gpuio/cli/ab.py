"""``gpuio ab``: two ways to measure, in turns, until it is decided which is better."""

from __future__ import annotations

import argparse
import sys
from dataclasses import replace
from typing import Final

from pytest_gpuio.analysis.across import check_axes
from pytest_gpuio.analysis.gate import FAILED, PASSED
from pytest_gpuio.cli.gate import add_judging_options, policy_of, write_report
from pytest_gpuio.cli.output import new_folder, progress
from pytest_gpuio.core.errors import ConfigError
from pytest_gpuio.core.sizes import parse_duration
from pytest_gpuio.sweep.ab import Effort, run_ab
from pytest_gpuio.sweep.pytest_process import Side, split

_EXAMPLES: Final = """\
examples (what follows -- goes to pytest on both sides):

    gpuio ab --a-before "echo none > /sys/block/nvme0n1/queue/scheduler" \\
             --b-before "echo mq-deadline > /sys/block/nvme0n1/queue/scheduler" -- bench_suites
        A kernel's knob, set before each process.

    gpuio ab --a "--gpuio-datapath=libaio" --b "--gpuio-datapath=io_uring" --across datapath -- bench_suites
        Two data paths: cells that differ in nothing else are compared.

    gpuio ab --a-python old/bin/python --b-python new/bin/python -- bench_suites
        Two versions of the plugin or of a library.

    gpuio ab --a-env KVIKIO_NTHREADS=1 --b-env KVIKIO_NTHREADS=8 --allow knobs -- bench_suites

exit status: 0 B is not worse, 1 B is SLOWER (or lacks or voids a case), 2 wrong usage
"""


#: What follows ``--`` is pytest's.
TAKES_REST: Final = True


def parser() -> argparse.ArgumentParser:
    """Arguments of ``gpuio ab``."""
    result = argparse.ArgumentParser(
        "gpuio ab",
        usage="gpuio ab [--a ARGS] [--b ARGS] [options] -- PYTEST-ARGUMENTS",
        description="Measures A (the baseline) and B in turns, one pytest process after the other (A B B A ...), and\n"
        "says what B changed. What looks changed is measured again by fresh pairs before it is said.",
        epilog=_EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    for side in "ab":
        title = side.upper()
        result.add_argument(f"--{side}", metavar="ARGS", default="", help=f"pytest arguments of {title} only, one word")
        result.add_argument(
            f"--{side}-env", metavar="NAME=VALUE", action="append", default=[], help=f"environment of {title}"
        )
        result.add_argument(f"--{side}-python", metavar="PATH", default=sys.executable, help=f"interpreter of {title}")
        result.add_argument(f"--{side}-before", metavar="COMMAND", help=f"shell command before each process of {title}")
    usual = Effort()
    result.add_argument(
        "--pairs", type=int, default=usual.pairs, metavar="N", help="pairs of the first look (%(default)s)"
    )
    result.add_argument(
        "--confirm", type=int, default=usual.confirm, metavar="N", help="pairs that confirm a change (%(default)s)"
    )
    result.add_argument(
        "--across", action="append", default=[], metavar="AXIS", help="the sides differ in it on purpose"
    )
    result.add_argument("--timeout", metavar="TIME", help="end a process that takes longer")
    result.add_argument("--out", metavar="FOLDER", help="where runs and logs are kept (default: gpuio-ab-TIME)")
    add_judging_options(result)
    return result


def run(arguments: argparse.Namespace) -> int:
    """Measures both sides and judges.

    Returns:
        0, or 1 where B is worse.

    Raises:
        ConfigError: nothing to compare, a malformed option.
        GpuioError: a side measured nothing.
    """
    check_axes(arguments.across)
    policy = policy_of(arguments)
    a, b = _side(arguments, "a"), _side(arguments, "b")
    effort = Effort(
        arguments.pairs, arguments.confirm, parse_duration(arguments.timeout) if arguments.timeout else None
    )
    folder = new_folder(arguments.out, "ab")
    report = replace(run_ab(a, b, folder, policy, effort, progress(), arguments.across), strict=arguments.strict)
    write_report(report, arguments)
    if arguments.json != "-":
        sys.stdout.write(f"runs and logs: {folder}\n")
    return FAILED if report.status() == FAILED else PASSED


def _side(arguments: argparse.Namespace, name: str) -> Side:
    env: dict[str, str] = {}
    for pair in getattr(arguments, f"{name}_env"):
        key, equals, value = pair.partition("=")
        if not key or not equals:
            raise ConfigError(f"--{name}-env {pair}: write NAME=VALUE.")
        env[key] = value
    own = split(getattr(arguments, name))
    if not own and not arguments.rest:
        raise ConfigError("name what pytest shall run, behind --: gpuio ab ... -- bench_suites.")
    return Side(
        name.upper(), (*arguments.rest, *own), env, getattr(arguments, f"{name}_python"),
        getattr(arguments, f"{name}_before"),
    )  # fmt: skip
