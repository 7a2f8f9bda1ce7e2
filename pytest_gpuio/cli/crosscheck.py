"""``gpuio crosscheck``: the same cell by our engine and by fio, and the suite of what our own overhead may be."""

from __future__ import annotations

import argparse
import re
import sys
import time
from pathlib import Path
from typing import Any, Final

from pytest_gpuio import datapaths, phases
from pytest_gpuio.core.cell import Cell
from pytest_gpuio.core.errors import ConfigError
from pytest_gpuio.core.sizes import parse_duration, parse_size
from pytest_gpuio.crosscheck import suite
from pytest_gpuio.crosscheck.compare import compare
from pytest_gpuio.crosscheck.fio import find_fio
from pytest_gpuio.crosscheck.ours import Ours
from pytest_gpuio.crosscheck.request import DEFAULT_BYTES, Request, prepare
from pytest_gpuio.crosscheck.verdict import LEAST_PAIRS
from pytest_gpuio.isolation import HostLock
from pytest_gpuio.machine import describe
from pytest_gpuio.report.crosscheck import cell_text, suite_text
from pytest_gpuio.report.labels import short_case
from pytest_gpuio.results import owned_file, strict_json

_INTERRUPTED: Final = 130
_FILE: Final = "gpuio crosscheck file"
_LOCK_TIMEOUT_S: Final = 60.0
_QUICK_PAIRS: Final = 3
_EXAMPLES: Final = """\
examples:

    gpuio crosscheck /mnt/nvme0
    gpuio crosscheck /mnt/nvme0 --datapath libaio --bs 64k --qd 32 --batch 8
    gpuio crosscheck --datapath null --qd 32
    gpuio crosscheck --suite overhead /mnt/nvme0
    gpuio crosscheck --suite overhead --only 'null*' --quick
    gpuio crosscheck --suite gpu --only 'tmpfs*'

exit status: 0 measured, 1 a line of the suite missed its target, 2 wrong usage or a refusal, 130 interrupted (what
was done is printed)
"""


def parser() -> argparse.ArgumentParser:
    """Arguments of ``gpuio crosscheck``."""
    result = argparse.ArgumentParser(
        "gpuio crosscheck",
        description="Runs a cell with our engine and with fio (3.33 or later) on the same file, region, block, depth, "
        "batch and CPU, in interleaved pairs, and fio against itself as the noise floor. Files are laid out under "
        "TARGET as pytest does it; a writing workload is written by both.",
        epilog=_EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    result.add_argument("target", metavar="TARGET", nargs="?", type=Path, default=Path(".gpuio"), help="folder or file")
    result.add_argument("--datapath", default="io_uring", help="data path (%(default)s)")
    result.add_argument("--workload", default="micro/randread", help="access pattern (%(default)s)")
    result.add_argument("--bs", help="block size; the workload's by default")
    result.add_argument("--qd", type=int, help="requests in flight per job; the workload's by default")
    result.add_argument("--jobs", type=int, help="worker threads; the workload's by default")
    result.add_argument("--batch", default="1x1", help="requests per submit x completions per reap (%(default)s)")
    result.add_argument("--cache", choices=("direct", "hot"), default="direct", help="O_DIRECT, or page cache filled")
    result.add_argument("--size", help="bytes of the target that are used (1G)")
    result.add_argument("--seed", type=int, default=1, help="of the offsets (%(default)s)")
    result.add_argument("--pairs", type=int, help=f"pairs of runs; {LEAST_PAIRS} for a verdict (the default)")
    result.add_argument("--seconds", default="2s", help="timed part of each run (%(default)s)")
    result.add_argument("--fio", metavar="PATH", help="the fio to compare with; the one on PATH by default")
    result.add_argument("--fio-default-buffers", action="store_true", help="leave fio's buffers on small pages")
    result.add_argument("--json", metavar="FILE", type=Path, help="write everything measured there; - = stdout")
    group = result.add_argument_group("suite")
    group.add_argument(
        "--suite",
        choices=tuple(suite.SUITES),
        help="measure every claim about our own overhead, or about the way into GPU memory (cuFile, KvikIO, host)",
    )
    group.add_argument("--only", metavar="PATTERN", help="lines of the suite to measure: 'null*'")
    group.add_argument("--quick", action="store_true", help="few short runs: figures, no verdicts")
    group.add_argument("--full", action="store_true", help="the long lines, too: a session of 25,000 cells")
    group.add_argument("--list", action="store_true", help="name the lines of the suite and do nothing")
    return result


def run(arguments: argparse.Namespace) -> int:
    """Measures and prints.

    Returns:
        0; 1 when a line of the suite missed its target; 130 when interrupted.

    Raises:
        GpuioError: fio is missing, the target cannot be used, or a run failed.
    """
    if arguments.list:
        sys.stdout.write(
            "".join(f"{claim.name:<24} {claim.title}\n" for claim in suite.claims(arguments.suite or "overhead"))
        )
        return 0
    kind = "gpuio-crosscheck-suite" if arguments.suite else "gpuio-crosscheck"
    if arguments.json is not None and str(arguments.json) != "-":
        owned_file.check_replaceable(arguments.json, kind, _FILE)
    if arguments.pairs is not None and arguments.pairs < 1:
        raise ConfigError(f"--pairs {arguments.pairs}: at least 1.")
    with HostLock(_LOCK_TIMEOUT_S) as lock:
        return _suite(arguments, lock) if arguments.suite else _cell(arguments)


def _stream(name: str) -> phases.Workload:
    workload = phases.get(name)
    if isinstance(workload, phases.Workload):
        return workload
    raise ConfigError(f"--workload {name}: a model's records are not compared here; name a generated stream.")


def _cell(arguments: argparse.Namespace) -> int:
    fio = find_fio(arguments.fio)
    seconds = _seconds(arguments)
    request = Request(
        target=arguments.target.absolute(),
        path=datapaths.get(arguments.datapath),
        workload=_stream(arguments.workload),
        bs=parse_size(arguments.bs, what="--bs") if arguments.bs else None,
        qd=arguments.qd,
        jobs=arguments.jobs,
        batch=_batch(arguments.batch),
        cache=arguments.cache,
        size=parse_size(arguments.size, what="--size") if arguments.size else DEFAULT_BYTES,
        seed=arguments.seed,
    )
    pairs = arguments.pairs or LEAST_PAIRS
    with Ours() as ours:
        plan, medium = prepare(request, ours)
        cell: Cell = request.cell(medium)
        found = compare(
            plan, ours, fio, pairs=pairs, seconds=seconds, say=say, huge_buffers=not arguments.fio_default_buffers
        )
    where = f" on {request.target}" if request.path.moves_data else ""
    title = f"{short_case(cell.axes())}{where}: {len(found.pairs.done)} pairs of {seconds:g} s"
    result = {"schema": 1, "kind": "gpuio-crosscheck", "title": title, "machine": describe(), **found.to_json()}
    _write(arguments.json, result, cell_text(result))
    return _INTERRUPTED if found.pairs.interrupted else 0


def _suite(arguments: argparse.Namespace, lock: HostLock) -> int:
    settings = suite.Settings(
        folder=arguments.target.absolute(),
        fio=arguments.fio,
        pairs=arguments.pairs or (_QUICK_PAIRS if arguments.quick else LEAST_PAIRS),
        seconds=1.0 if arguments.quick else _seconds(arguments),
        quick=arguments.quick,
        full=arguments.full,
        only=arguments.only or "*",
        lock=lock,
    )
    found = suite.run(settings, say, suite.SUITES[arguments.suite])
    result = {"schema": 1, "kind": "gpuio-crosscheck-suite", "machine": describe(), **found.to_json()}
    _write(arguments.json, result, suite_text(result))
    if found.interrupted:
        return _INTERRUPTED
    return 1 if any(row.verdict == "missed" for row in found.rows) else 0


def say(line: str) -> None:
    """One line of progress with the time, on standard error."""
    sys.stderr.write(f"{time.strftime('%H:%M:%S')} {line}\n")
    sys.stderr.flush()


def _seconds(arguments: argparse.Namespace) -> float:
    seconds = parse_duration(arguments.seconds, what="--seconds")
    if not 0.4 <= seconds <= 3600:
        raise ConfigError(f"--seconds {arguments.seconds}: 0.4 to 3600, so that both tools have windows that last.")
    return seconds


def _batch(text: str) -> tuple[int, int]:
    match = re.fullmatch(r"(\d{1,6})(?:x(\d{1,6}))?", text, re.ASCII)
    if match is None:
        raise ConfigError(f"--batch {text!r} is not a batch: write SxR, submit x reap, like 1x1 or 32x8, or N for NxN.")
    return int(match[1]), int(match[2] or match[1])


def _write(file: Path | None, result: dict[str, Any], text: str) -> None:
    if file is not None and str(file) == "-":
        sys.stdout.write(strict_json.dumps(result, indent=1) + "\n")
        return
    sys.stdout.write(text)
    if file is not None:
        owned_file.write(file, result, what=_FILE)
