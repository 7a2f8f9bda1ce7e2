"""``gpuio clean``: takes the files away that runs left below a target for the next ones."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import Any, Final

from pytest_gpuio.core.spdk_address import spdk_address
from pytest_gpuio.isolation import HostLock
from pytest_gpuio.report import numbers
from pytest_gpuio.results import strict_json
from pytest_gpuio.targets import leftovers

_EXAMPLES: Final = """\
examples:

    gpuio clean /mnt/nvme0 --dry-run
    gpuio clean /mnt/nvme0 /mnt/hdd
    gpuio clean --models-only

Runs keep what they laid out, because laying out takes longer than measuring; the next run uses it again. Only files
that begin with gpuio's header are removed, whatever else lies beside them. A run in progress is waited for, or refused.

exit status: 0 removed (or nothing was there), 2 wrong usage, or a file cannot be removed
"""


def parser() -> argparse.ArgumentParser:
    """Arguments of ``gpuio clean``."""
    result = argparse.ArgumentParser(
        "gpuio clean",
        description="Removes files that runs laid out below a target, with their size.",
        epilog=_EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    result.add_argument(
        "targets",
        metavar="TARGET",
        nargs="*",
        type=Path,
        help="folder or file that was a --gpuio-target; default .gpuio",
    )
    result.add_argument("--dry-run", action="store_true", help="say what would be removed")
    result.add_argument("--models-only", action="store_true", help="leave gpuio-read.dat and gpuio-write.dat there")
    result.add_argument("--json", action="store_true", help="write JSON instead of text")
    return result


def run(arguments: argparse.Namespace) -> int:
    """Looks, removes and prints.

    Returns:
        0.

    Raises:
        GpuioError: a target cannot be looked at, a file cannot be removed, or a run is in progress.
    """
    told: list[dict[str, Any]] = []
    for target in arguments.targets or [Path(".gpuio")]:
        if spdk_address(target) is not None or (not arguments.targets and not target.exists()):
            continue  # nothing of ours lies there
        found = leftovers.find(target)
        if arguments.models_only:
            found = tuple(one for one in found if target / leftovers.MODELS in one.path.parents)
        if found and not arguments.dry_run:
            with HostLock(0.0):
                leftovers.remove(found, target)
        told.append(
            {
                "target": str(target),
                "removed": not arguments.dry_run,
                "files": [{"path": str(one.path), "bytes": one.bytes} for one in found],
                "bytes": sum(one.bytes for one in found),
            }
        )
    if arguments.json:
        sys.stdout.write(strict_json.dumps(told, indent=1) + "\n")
        return 0
    verb = "would be removed" if arguments.dry_run else "removed"
    for one in told:
        if arguments.dry_run:
            for file in one["files"]:
                sys.stdout.write(f"{file['path']}  {numbers.exact_bytes(file['bytes'])}\n")
        sys.stdout.write(f"{one['target']}: {len(one['files']):,} files, {numbers.exact_bytes(one['bytes'])}, {verb}\n")
    if not told:
        sys.stdout.write("nothing is there\n")
    return 0
