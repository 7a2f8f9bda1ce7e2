"""``gpuio probe``: what can be measured on this machine and target, and what is missing."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import Any, Final

from pytest_gpuio import __version__
from pytest_gpuio.core.errors import CapabilityMissing
from pytest_gpuio.crosscheck.fio import find_fio
from pytest_gpuio.measure.survey import survey
from pytest_gpuio.report.probe import probe_text
from pytest_gpuio.results import owned_file, strict_json

_EXAMPLES: Final = """\
examples:

    gpuio probe
    gpuio probe /mnt/nvme0
    gpuio probe /mnt/nvme0 --json probe.json

exit status: 0 looked at, 2 wrong usage, or the target cannot be one
"""


def _fio() -> dict[str, str | None]:
    """The fio that ``gpuio crosscheck`` would use."""
    try:
        return {"version": str(find_fio()), "reason": None}
    except CapabilityMissing as error:
        return {"version": None, "reason": str(error)}


def parser() -> argparse.ArgumentParser:
    """Arguments of ``gpuio probe``."""
    result = argparse.ArgumentParser(
        "gpuio probe",
        description="Says what this machine can measure, and on TARGET which data paths, with a remedy for each thing "
        "that is missing. Every probe runs in a child under a deadline; nothing is changed.",
        epilog=_EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    result.add_argument("target", metavar="TARGET", nargs="?", type=Path, help="folder, file or device")
    result.add_argument("--json", metavar="FILE", type=Path, help="write it as JSON; - = stdout")
    return result


def run(arguments: argparse.Namespace) -> int:
    """Looks and prints.

    Returns:
        0.

    Raises:
        GpuioError: the target cannot be one, or the file cannot be written.
    """
    if arguments.json is not None and str(arguments.json) != "-":
        owned_file.check_replaceable(arguments.json, "gpuio-probe", "gpuio probe file")
    found: dict[str, Any] = {"schema": 1, "kind": "gpuio-probe", "gpuio_version": __version__}
    found |= survey(arguments.target) | {"fio": _fio()}
    if arguments.json is not None and str(arguments.json) == "-":
        sys.stdout.write(strict_json.dumps(found, indent=1) + "\n")
        return 0
    sys.stdout.write(probe_text(found))
    if arguments.json is not None:
        owned_file.write(arguments.json, found, what="gpuio probe file")
    return 0
