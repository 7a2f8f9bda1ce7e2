"""``gpuio validate``: are these result files what they should be?"""

from __future__ import annotations

import argparse
import sys
from typing import Final

from pytest_gpuio.results.validate import validate_file

_EXAMPLES: Final = """\
examples:

    gpuio validate gpuio-results.json
    gpuio validate before.json after.json

exit status: 0 valid, 1 problems (one a line), 2 a file cannot be read
"""


def parser() -> argparse.ArgumentParser:
    """Arguments of ``gpuio validate``."""
    result = argparse.ArgumentParser(
        "gpuio validate",
        description="Checks gpuio-results.json files, journals of runs that were cut off (.jsonl), and "
        "pytest-benchmark JSON that gpuio took part in: the schema, and whether totals, rates and percentiles agree.",
        epilog=_EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    result.add_argument("files", metavar="FILE", nargs="+", help="a results file")
    return result


def run(arguments: argparse.Namespace) -> int:
    """Prints one line per problem, or that a file is valid.

    Returns:
        0 when every file is valid, else 1.

    Raises:
        GpuioError: a file cannot be read, or jsonschema is not installed.
    """
    status = 0
    for file in arguments.files:
        problems = validate_file(file)
        for problem in problems:
            # A problem of the text itself starts with its place in the file already.
            sys.stdout.write(f"{problem}\n" if problem.startswith(f"{file}:") else f"{file}: {problem}\n")
        if problems:
            status = 1
        else:
            sys.stdout.write(f"{file}: valid\n")
    return status
