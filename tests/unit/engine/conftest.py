"""What the engine's tests share: a clock, a pool, target files, engines built from their C source."""

from __future__ import annotations

import mmap
import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from pytest_gpuio.engine import Clock, Pool, pattern_fill

MIB = 1 << 20
SEED = 7


@pytest.fixture(scope="session")
def clock() -> Clock:
    return Clock.calibrate()


@pytest.fixture
def pool() -> Iterator[Pool]:
    pool = Pool()
    yield pool
    pool.close()


OpenTarget = Callable[..., int]


@pytest.fixture
def target(tmp_path: Path) -> Iterator[OpenTarget]:
    """A function that lays out a file of the pattern and opens it."""
    opened: list[int] = []
    made: list[Path] = []

    def open_target(
        size: int = 4 * MIB, *, flags: int = os.O_RDWR, seed: int = SEED, folder: Path = tmp_path, direct: bool = False
    ) -> int:
        path = folder / f"gpuio-test-{os.getpid()}-{len(made)}"
        content = mmap.mmap(-1, size)
        pattern_fill(content, 0, seed)
        made.append(path)
        path.write_bytes(content)
        try:
            fd = os.open(path, flags | (os.O_DIRECT if direct else 0))
        except OSError as error:
            pytest.skip(f"{folder} does not take O_DIRECT: {error}")
        opened.append(fd)
        if direct:
            os.fsync(fd)  # dirty pages would be written back by the first direct read
        return fd

    yield open_target
    for fd in opened:
        os.close(fd)
    for path in made:
        path.unlink()


Traced = Callable[..., tuple[str, dict[str, str]]]


@pytest.fixture
def traced(tmp_path: Path) -> Traced:
    """Function: runs code under strace; what it printed, and each thread's calls of the given names, by its id."""

    def trace(calls: str, code: str, *arguments: object) -> tuple[str, dict[str, str]]:
        strace = shutil.which("strace")
        if strace is None:
            pytest.skip("strace is missing: apt-get install strace")
        log = tmp_path / "trace"
        command = [strace, "-ff", "-s", "4", "-e", f"trace={calls}", "-o", log, sys.executable, "-P", "-c", code]
        done = subprocess.run([*command, *map(str, arguments)], capture_output=True, text=True, timeout=120)
        if "ptrace" in done.stderr.lower() and "Operation not permitted" in done.stderr:
            pytest.skip(f"ptrace is forbidden here (container): {done.stderr}")
        assert done.returncode == 0, done.stderr
        return done.stdout, {file.suffix[1:]: file.read_text() for file in tmp_path.glob("trace.*")}

    return trace
