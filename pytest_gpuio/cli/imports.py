"""``gpuio import``: results of another tool, labelled as such."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Mapping
from typing import Any, Final

from pytest_gpuio.cli.output import put_json
from pytest_gpuio.core.errors import ConfigError
from pytest_gpuio.report import numbers
from pytest_gpuio.report.labels import short_case
from pytest_gpuio.results import owned_file
from pytest_gpuio.results.fio_import import LACKS, import_fio

_EXAMPLES: Final = """\
examples:

    fio job.fio --output-format=json > old.txt; gpuio import fio old.txt -o old-fio.json
    gpuio report old-fio.json results.json -o page.html

Imported cells are named fio:ENGINE everywhere. They lack:
""" + "".join(f"    {lack}\n" for lack in LACKS)


def parser() -> argparse.ArgumentParser:
    """Arguments of ``gpuio import``."""
    result = argparse.ArgumentParser(
        "gpuio import",
        usage="gpuio import fio FILE -o OUT.json",
        description="Makes old results of fio (json and json+, also amid warnings) readable beside ours.",
        epilog=_EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    result.add_argument("tool", choices=["fio"], help="what wrote the file")
    result.add_argument("file", metavar="FILE", help="its output")
    result.add_argument("-o", "--output", metavar="OUT.json", required=True, help="the file to write")
    result.add_argument("--json", metavar="FILE", help="write what was imported as JSON (- = standard output)")
    return result


def run(arguments: argparse.Namespace) -> int:
    """Imports one file.

    Returns:
        0.

    Raises:
        ConfigError: nothing of fio in it, or the output would replace something that is not ours.
        GpuioError: it cannot be read or written.
    """
    if arguments.output == arguments.file:
        raise ConfigError(f"-o {arguments.output} would overwrite what is to be read.")
    content = import_fio(arguments.file)
    owned_file.write(arguments.output, content, what="gpuio imported file")
    if arguments.json:
        summary = {
            "kind": "gpuio-import", "tool": arguments.tool, "file": arguments.file, "output": arguments.output,
            "cells": [cell["case"] for cell in content["cells"]], "left_out": content["failures"],
            "lacks": list(LACKS),
        }  # fmt: skip
        put_json(arguments.json, summary)
    if arguments.json != "-":
        sys.stdout.write(import_text(content, arguments.output))
    return 0


def import_text(content: Mapping[str, Any], output: str) -> str:
    """What was imported, what was left out and why, and what imported cells lack."""
    count = len(content["cells"])
    lines = [f"{count} cell{'s' * (count != 1)} of fio in {output}:"]
    for cell in content["cells"]:
        lines.append(f"    {short_case(cell['axes'])}: {numbers.rate(cell['gb_per_s'])} GB/s")
    lines += [f"left out: {failure['nodeid']}: {failure['reason']}" for failure in content["failures"]]
    lines += ["They lack:", *(f"    {lack}" for lack in LACKS)]
    return "\n".join(lines) + "\n"
