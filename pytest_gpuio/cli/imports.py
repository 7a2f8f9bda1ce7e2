"""``gpuio import``: results of another tool, labelled as such."""

from __future__ import annotations

import argparse
import sys
from typing import Final

from pytest_gpuio.core.errors import ConfigError
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
    sys.stdout.write(f"{len(content['cells'])} cells of fio in {arguments.output}; they lack what --help lists\n")
    for failure in content["failures"]:
        sys.stdout.write(f"left out: {failure['nodeid']}: {failure['reason']}\n")
    return 0
