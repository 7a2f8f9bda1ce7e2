"""``gpuio init``: a suite of one's own, started from the packaged ones."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Iterator
from importlib.resources import files
from importlib.resources.abc import Traversable
from pathlib import Path
from typing import Final

import pytest_gpuio
from pytest_gpuio.core.errors import ConfigError, GpuioError

_EXAMPLES: Final = """\
example:

    gpuio init my_bench
    pytest my_bench --gpuio-target fast=/mnt/nvme0 --benchmark-json before.json
"""

_CONFTEST: Final = '''\
"""Re-exports the two hooks that ``pytest-benchmark compare`` looks for in the folder it is started in."""

import pytest

from pytest_gpuio.report import compare_hooks

# Optional, because pytest refuses hooks of a plugin that is switched off (-p no:benchmark).
pytest_benchmark_group_stats = pytest.hookimpl(optionalhook=True)(compare_hooks.pytest_benchmark_group_stats)
pytest_benchmark_scale_unit = pytest.hookimpl(optionalhook=True)(compare_hooks.pytest_benchmark_scale_unit)
'''

_README: Final = """\
# Storage benchmarks

Started with `gpuio init`; the suites are yours to change. A test names a workload and runs it:

```python
@pytest.mark.workload("inference/kv_fetch")
def test_kv_fetch(gpuio):
    gpuio.run()
```

Measure (the target is a folder or file on the storage to be measured; data is laid out there once):

```
pytest . --gpuio-target fast=/mnt/nvme0 --benchmark-json before.json
```

Change something, measure again, compare:

```
pytest . --gpuio-target fast=/mnt/nvme0 --benchmark-json after.json
gpuio compare --between=mean,ops before.json after.json
```

`conftest.py` leaves out suites that take long, write much or need a file of yours; name one to run it, or take it off
the list:

```
pytest mlperf inference/test_mixes.py --gpuio-target fast=/mnt/nvme0
```

`pytest --help` lists the `--gpuio-*` options, `gpuio --help` the rest.
"""


def parser() -> argparse.ArgumentParser:
    """Arguments of ``gpuio init``."""
    result = argparse.ArgumentParser(
        "gpuio init",
        description="Copies the packaged suites into DIR, with a conftest.py and a README.md. Nothing that exists is "
        "overwritten.",
        epilog=_EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    result.add_argument("folder", metavar="DIR", type=Path, help="made if it does not exist; its parent must")
    return result


def run(arguments: argparse.Namespace) -> int:
    """Writes the files and says what to do next.

    Returns:
        0.

    Raises:
        ConfigError: a file exists already, or the folder cannot be made; nothing was written.
        GpuioError: the package holds no suites, or a file cannot be written; what was written is taken back.
    """
    folder: Path = arguments.folder
    content = suites()
    left_out = content.pop("conftest.py", "").partition('"""\n\n')[2]
    content |= {"conftest.py": f"{_CONFTEST}\n{left_out}" if left_out else _CONFTEST, "README.md": _README}
    write_new(folder, content)
    sys.stdout.write("".join(f"{folder / name}\n" for name in content))
    sys.stdout.write(f"\nNow: pytest {folder} --gpuio-target NAME=PATH --benchmark-json before.json\n")
    return 0


def suites(package: Traversable | None = None) -> dict[str, str]:
    """The packaged suites, and what their conftest.py leaves out: text by path relative to their folder.

    Args:
        package: the package's folder; that of pytest_gpuio by default.

    Raises:
        GpuioError: none are there.
    """
    package = package or files(pytest_gpuio)
    source = package / "bench_suites"
    if not source.is_dir() and isinstance(package, Path):
        source = package.parent / "bench_suites"  # a checkout: the wheel moves them into the package
    found = dict(_python_files(source)) if source.is_dir() else {}
    if not found:
        raise GpuioError("this installation of pytest-gpuio holds no suites: install it again (pip install .).")
    return found


def write_new(folder: Path, content: dict[str, str]) -> None:
    """Writes files that do not exist yet, all of them or none.

    Args:
        folder: made if it does not exist.
        content: text by relative path.

    Raises:
        ConfigError: one of them exists, or the folder cannot be made.
        GpuioError: one of them cannot be written.
    """
    if not folder.is_dir() and (os.path.lexists(folder) or not folder.absolute().parent.is_dir()):
        raise ConfigError(f"{folder} cannot be made: it is a file, or its parent folder does not exist.")
    for name in content:
        if os.path.lexists(folder / name):
            raise ConfigError(f"{folder / name} exists already, and nothing is overwritten: name another folder.")
    made: list[Path] = []
    try:
        for name, text in content.items():
            path = folder / name
            _make_folder(path.parent, made)
            with path.open("x", encoding="utf-8") as file:
                made.append(path)
                file.write(text)
    except OSError as error:
        for path in reversed(made):
            if path.is_dir():
                path.rmdir()
            else:
                path.unlink()
        raise GpuioError(f"{error.filename or folder} cannot be written: {error.strerror}.") from error


def _make_folder(folder: Path, made: list[Path]) -> None:
    if not folder.is_dir():
        _make_folder(folder.parent, made)
        folder.mkdir()
        made.append(folder)


def _python_files(folder: Traversable, prefix: str = "") -> Iterator[tuple[str, str]]:
    """Modules below a folder; ``__init__.py`` only serves ``--pyargs``, and a copied suite needs none."""
    for entry in sorted(folder.iterdir(), key=lambda entry: entry.name):
        if entry.is_dir() and entry.name != "__pycache__":
            yield from _python_files(entry, f"{prefix}{entry.name}/")
        elif entry.name.endswith(".py") and entry.name != "__init__.py":
            yield f"{prefix}{entry.name}", entry.read_text(encoding="utf-8")
