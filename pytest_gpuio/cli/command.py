"""Finds the subcommand, runs it, and turns every outcome into an exit status."""

from __future__ import annotations

import argparse
import importlib
import os
import signal
import sys
from collections.abc import Mapping, Sequence
from typing import Final, Protocol, cast

from pytest_gpuio import __version__
from pytest_gpuio.core.errors import GpuioError

#: Exit status for wrong usage or a refusal, as argparse has it.
USAGE: Final = 2

_COMMANDS: Final = {
    "probe": "what this machine and target can measure, and what is missing with the remedy",
    "crosscheck": "the same cell by our engine and by fio, and what our own overhead is",
    "model": "bytes of a model's weights, files, key-value cache and adapters, from its architecture numbers",
    "trace": "what a trace of requests or block I/O holds, in other formats, and through tiers of cache",
    "init": "start a suite of your own: copies the packaged ones into a folder",
    "compare": "compare runs, from any folder (pytest-benchmark's tables, grouped by medium and workload)",
    "gate": "new runs against a baseline: what got slower or faster, decided by statistics that hold",
    "ab": "two ways to measure, in turns (ABBA), until it is decided which is better",
    "crossover": "up to which block size, depth or count one data path is better, and from where on another",
    "sweep": "thousands of cells of a plan: forecast, run, resume after anything, export",
    "recommend": "the path to use per phase and medium on this machine, how sure that is, and settings to copy",
    "report": "one HTML page: cheat sheet, charts, every cell, voids, history; or pictures and Markdown",
    "history": "runs of a storage folder, change points over them, pruning, CSV and Parquet",
    "import": "old results of fio, labelled as such, beside ours",
    "clean": "remove the files that runs left below a target",
    "validate": "check result files against the schema, and their numbers against each other",
}
#: Where a keyword of the language cannot name the module.
_MODULES: Final = {"import": "imports"}
_DESCRIPTION: Final = f"""\
Measures which storage data path each phase of an LLM's life should use, and what it costs in CPU.

Measuring is pytest's job:

    pytest --pyargs pytest_gpuio.bench_suites --gpuio-target fast=/mnt/nvme0 --benchmark-json before.json

This command does what comes before and after:

{chr(10).join(f"    gpuio {name:<10} {title}" for name, title in _COMMANDS.items())}

`gpuio COMMAND --help` shows each with examples. A first hour:

    gpuio init my_bench && pytest my_bench --benchmark-json before.json
    ... change a kernel, a mount option, a drive ...
    pytest my_bench --benchmark-json after.json
    gpuio compare --between=mean,ops before.json after.json
"""


class _Command(Protocol):
    """What a module of this room offers."""

    def parser(self) -> argparse.ArgumentParser:
        """The parser of its arguments."""

    def run(self, arguments: argparse.Namespace) -> int:
        """Does it; the exit status."""


def main(argv: Sequence[str] | None = None) -> int:
    """Runs ``gpuio``.

    Args:
        argv: arguments without the program's name; those of the process by default.

    Returns:
        Exit status: 0 fine, 1 problems were found, 2 wrong usage or a refusal, 130 interrupted.
    """
    try:
        status = _run(list(sys.argv[1:] if argv is None else argv))
        sys.stdout.flush()
    except GpuioError as error:
        sys.stderr.write(f"gpuio: {error}\n")
        return USAGE
    except SystemExit as error:  # argparse ends this way, having said what it had to
        return error.code if isinstance(error.code, int) else USAGE
    except KeyboardInterrupt:
        return 128 + signal.SIGINT
    except BrokenPipeError:
        # `gpuio compare ... | head` is no error. Python would flush once more at exit and complain.
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
        return 128 + signal.SIGPIPE
    return status


def _run(argv: list[str]) -> int:
    if argv and argv[0] in _COMMANDS:
        command = cast("_Command", importlib.import_module(f"pytest_gpuio.cli.{_MODULES.get(argv[0], argv[0])}"))
        own, rest = argv[1:], list[str]()
        actions: Mapping[str, str] = getattr(command, "ACTIONS", {})
        if own and own[0] in actions:
            command = cast("_Command", importlib.import_module(actions[own[0]]))
            own = own[1:]
        # argparse would read the options of another program that follow "--" as its own.
        if getattr(command, "TAKES_REST", False) and "--" in own:
            place = own.index("--")
            own, rest = own[:place], own[place + 1 :]
        return command.run(command.parser().parse_intermixed_args(own, argparse.Namespace(rest=rest)))
    top = argparse.ArgumentParser(
        "gpuio", usage="gpuio [--help] [--version] COMMAND ...", description=_DESCRIPTION,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )  # fmt: skip
    top.add_argument("--version", action="version", version=f"gpuio {__version__}")
    top.add_argument("command", metavar="COMMAND", choices=list(_COMMANDS), help="one of: %(choices)s")
    top.parse_args(argv or ["--help"])
    return top.error("name the command first")  # something like `gpuio -- init`; ends here
