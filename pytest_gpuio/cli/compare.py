"""``gpuio compare``: pytest-benchmark's compare command with our grouping, from any folder."""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final

import pytest_gpuio
from pytest_gpuio.core.errors import ConfigError
from pytest_gpuio.report.compare_hooks import GROUPINGS, check_group_by
from pytest_gpuio.results.run_file import KIND

_EXAMPLES: Final = """\
examples:

    gpuio compare --between=mean,ops before.json after.json
        One row per test, the first file as the reference: seconds per I/O (mean) and IOPS (ops) with their change.

    gpuio compare --group-by=gpuio --columns=median,ops,rounds before.json after.json
        One table per medium and workload, so that its rows compare data paths.

    gpuio compare 0001 0002
        Saved runs by number, from the storage (.benchmarks in this folder).
"""

#: Given on to pytest-benchmark as they are.
_PLAIN: Final = (
    ("--sort", "COL", "column to sort on: min, max, mean, stddev, name, fullname"),
    ("--columns", "LABELS", "comma list of min, max, mean, stddev, median, iqr, ops, outliers, rounds, iterations"),
    ("--name", "FORMAT", "how names are shown: short, normal, long, trial"),
    ("--time-unit", "UNIT", "ns, us, ms, s or auto"),
    ("--between", "COLUMNS", "one row per test, and a column per file with the change: mean,ops"),
    ("-k", "EXPR", "only tests whose name matches, as pytest's -k"),
)
#: A closed pipe or Ctrl-C ends it without a traceback.
_START: Final = (
    "import runpy, signal\n"
    "signal.signal(signal.SIGPIPE, signal.SIG_DFL)\n"
    "signal.signal(signal.SIGINT, signal.SIG_DFL)\n"
    "runpy.run_module('pytest_benchmark', run_name='__main__', alter_sys=True)"
)
#: Loads what this process runs, appended last so that it shadows nothing.
_CONFTEST: Final = """\
import sys

sys.path.append({root!r})

from pytest_gpuio.report.compare_hooks import pytest_benchmark_group_stats, pytest_benchmark_scale_unit  # noqa
"""


def parser() -> argparse.ArgumentParser:
    """Arguments of ``gpuio compare``."""
    result = argparse.ArgumentParser(
        "gpuio compare",
        usage="gpuio compare [options] [FILE ...]",
        description="Compares runs by their pytest-benchmark JSON (--benchmark-json, --benchmark-save).\n"
        "The options are those of `pytest-benchmark compare`; --group-by knows `gpuio`, too.",
        epilog=_EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    result.add_argument(
        "files", metavar="FILE", nargs="*", help="a JSON file, or a number or glob of the storage; all of it by default"
    )
    result.add_argument(
        "--group-by", metavar="LABEL", default="group", help=f"comma list of {', '.join(GROUPINGS)}, param:NAME"
    )
    for name, metavar, text in _PLAIN:
        result.add_argument(name, metavar=metavar, help=text)
    stamp = time.strftime("benchmark_%Y%m%d_%H%M%S")
    result.add_argument("--csv", metavar="FILENAME", nargs="?", const=stamp, help="write a CSV file, too")
    result.add_argument(
        "--histogram", metavar="PREFIX", nargs="?", const=stamp, help="plot to PREFIX-*.svg (needs pygal)"
    )
    result.add_argument("-s", "--storage", metavar="URI", default="file://./.benchmarks", help="default: %(default)s")
    result.add_argument(
        "--netrc", metavar="FILE", nargs="?", const="~/.netrc", help="credentials of an elasticsearch storage"
    )
    result.add_argument("-v", "--verbose", action="store_true", help="diagnostics")
    result.add_argument("-q", "--quiet", action="store_true", help="no reports")
    return result


def run(arguments: argparse.Namespace) -> int:
    """Runs ``pytest-benchmark compare`` in a folder of ours that holds the hooks and links to the files.

    Returns:
        The command's exit status.

    Raises:
        ConfigError: a file that cannot be compared, an unknown grouping, an output that would replace a run.
    """
    check_group_by(arguments.group_by)
    for option in ("csv", "histogram"):
        name = getattr(arguments, option)
        if name is not None and name.endswith(".json"):  # --csv a.json b.json: a.json was meant to be read
            raise ConfigError(f"--{option} {name} would overwrite a run: write --{option}=NAME before the files.")
    files = {file: Path(file).resolve() for file in arguments.files if Path(file).is_file()}
    for file in arguments.files:
        if file in files:
            _check_run(file)
    if len(files) != len(set(files.values())) or len(set(arguments.files)) != len(arguments.files):
        raise ConfigError(f"a run is named twice: {' '.join(arguments.files)}.")
    storage = _storage(arguments)
    with tempfile.TemporaryDirectory(prefix="gpuio-compare-") as name:
        folder = Path(name)
        root = str(Path(pytest_gpuio.__file__).absolute().parents[1])
        (folder / "conftest.py").write_text(_CONFTEST.format(root=root), encoding="utf-8")
        (folder / "pytest.ini").write_text("[pytest]\n", encoding="utf-8")  # no settings of folders above
        links = dict(zip(files, _link(list(files.values()), folder), strict=True))
        command = [sys.executable, "-P", "-c", _START]
        command += ["--storage", storage or f"file://{folder / 'storage'}"]
        command += _options(arguments)
        command += [links.get(file, file) for file in arguments.files]
        sys.stdout.flush()
        status = subprocess.run(command, cwd=folder, check=False).returncode
    return status if status >= 0 else 128 - status


def _options(arguments: argparse.Namespace) -> Iterator[str]:
    if arguments.netrc:
        yield f"--netrc={Path(arguments.netrc).expanduser().absolute()}"
    if arguments.verbose:
        yield "--verbose"
    if arguments.quiet:
        yield "--quiet"
    yield "compare"
    yield f"--group-by={arguments.group_by}"
    for name, _, _ in _PLAIN:
        value = getattr(arguments, name.lstrip("-").replace("-", "_"))
        if value is not None:
            yield f"{name}={value}" if name.startswith("--") else f"{name}{value}"
    for name in ("csv", "histogram"):
        value = getattr(arguments, name)
        if value is not None:
            yield f"--{name}={Path(value).absolute()}"


def _check_run(file: str) -> None:
    try:
        content = json.loads(Path(file).read_bytes())
    except (OSError, ValueError) as error:
        raise ConfigError(f"{file} cannot be compared: {error}.") from None
    if isinstance(content, dict) and content.get("kind") == KIND:
        raise ConfigError(
            f"{file} is gpuio's own results file: compare what --benchmark-json or --benchmark-save wrote."
        )
    if not isinstance(content, dict) or not isinstance(content.get("benchmarks"), list):
        raise ConfigError(f"{file} is not pytest-benchmark JSON: it has no list of benchmarks.")


def _storage(arguments: argparse.Namespace) -> str | None:
    """The storage as an absolute address; None when there is none here (pytest-benchmark would make it).

    Raises:
        ConfigError: a run to be taken from the storage, which does not exist or cannot hold it.
    """
    uri: str = arguments.storage
    if uri.startswith("elasticsearch+"):
        return uri
    path = Path(uri.removeprefix("file://")).absolute()
    for name in arguments.files:
        if not Path(name).is_file() and (name.endswith(".json") or len(Path(name).parts) > 2):
            raise ConfigError(f"{name} does not exist.")
    if path.is_dir():
        return f"file://{path.resolve()}"
    wanted = [name for name in arguments.files if not Path(name).is_file()]
    if wanted or not arguments.files:
        raise ConfigError(
            f"{wanted[0] if wanted else 'every run'} is to be found in the storage {path}, but there is no such folder."
        )
    return None


def _link(paths: Sequence[Path], folder: Path) -> list[str]:
    """Links the files under short names that pytest-benchmark shows and orders them by.

    It sorts files by name; where that is not the order given, a number goes in front, so that the first stays first.
    """
    if not paths:
        return []
    labels = [path.name for path in paths]
    if len(set(labels)) < len(labels):
        common = Path(os.path.commonpath([path.parent for path in paths]))
        labels = ["_".join(path.relative_to(common).parts) for path in paths]
    if labels != sorted(labels) or len(set(labels)) < len(labels):
        digits = len(str(len(labels)))
        labels = [f"{number:0{digits}}_{label}" for number, label in enumerate(labels, start=1)]
    runs = folder / "runs"
    runs.mkdir()
    for label, path in zip(labels, paths, strict=True):
        (runs / label).symlink_to(path)
    return [f"runs/{label}" for label in labels]
