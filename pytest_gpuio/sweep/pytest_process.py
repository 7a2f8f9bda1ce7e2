"""One pytest process that measures: started, watched, and told apart by what it left behind."""

from __future__ import annotations

import contextlib
import os
import shlex
import signal
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from pytest_gpuio.core.errors import ConfigError, GpuioError
from pytest_gpuio.results.runs import RunFile, read_run

#: Exit statuses of pytest with which its results file is complete: all passed, some failed, interrupted.
_COMPLETE: Final = frozenset({0, 1, 2})
#: After Ctrl-C pytest writes what it has; it gets this long.
_GRACE_S: Final = 60.0
_TAIL: Final = 15


@dataclass(frozen=True, slots=True)
class Side:
    """How one side of a comparison is started.

    Attributes:
        name: shown in progress.
        arguments: of pytest.
        env: variables added to this process's.
        python: interpreter whose pytest-gpuio measures.
        before: shell command run before each process (a kernel knob, a mount); None = none.
    """

    name: str
    arguments: tuple[str, ...]
    env: Mapping[str, str] = field(default_factory=dict)
    python: str = sys.executable
    before: str | None = None


def measure(side: Side, results: Path, extra: Sequence[str] = (), *, timeout_s: float | None = None) -> RunFile:
    """Runs pytest once and reads what it measured.

    Its output goes to a file beside the results, for the case that something is wrong with it.

    Args:
        side: what to start.
        results: results file to be written; its folder must exist.
        extra: more arguments of pytest.
        timeout_s: it is ended (and this is an error) after that long.

    Raises:
        GpuioError: it measured nothing: the text has the end of its output.
        KeyboardInterrupt: passed on once the process has ended.
    """
    log = results.with_suffix(".log")
    if side.before is not None:
        _run_before(side)
    # -P: a checkout in the current folder would shadow the installed package and its compiled module.
    command = [
        side.python, "-P", "-m", "pytest", *side.arguments, *extra,
        f"--gpuio-results={results}", "-p", "no:cacheprovider",
    ]  # fmt: skip
    with log.open("wb") as out:
        try:
            process = subprocess.Popen(
                command, stdout=out, stderr=subprocess.STDOUT, stdin=subprocess.DEVNULL,
                env={**os.environ, **side.env}, start_new_session=True,
            )  # fmt: skip
        except OSError as error:
            raise ConfigError(f"side {side.name}: {side.python} cannot be started: {error.strerror}.") from None
        status = _wait(process, timeout_s, side)
    if status not in _COMPLETE or not results.exists():
        tail = "\n".join(log.read_text(encoding="utf-8", errors="replace").splitlines()[-_TAIL:])
        raise GpuioError(f"side {side.name}: pytest ended with status {status} and measured nothing:\n{tail}")
    run = read_run(results)
    if not run.cells:
        reasons = [*(f"{void['gate']}: {void['reason']}" for void in run.voids.values()), *run.failures.values()]
        why = next(iter([*reasons, *run.skips.values()]), "no cell was selected")
        raise GpuioError(f"side {side.name}: pytest measured nothing: {why} (see {log})")
    return run


def _wait(process: subprocess.Popen[bytes], timeout_s: float | None, side: Side) -> int:
    try:
        return process.wait(timeout_s)
    except subprocess.TimeoutExpired:
        _end(process)
        raise GpuioError(f"side {side.name}: pytest did not end within {timeout_s:g} s and was ended.") from None
    except KeyboardInterrupt:
        _end(process)
        raise


def _end(process: subprocess.Popen[bytes]) -> None:
    """Ctrl-C for its whole group, then harder; a process stuck in the kernel is given up."""
    for number, patience in ((signal.SIGINT, _GRACE_S), (signal.SIGKILL, 5.0)):
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, number)
        try:
            process.wait(patience)
            return
        except subprocess.TimeoutExpired:
            continue


def _run_before(side: Side) -> None:
    done = subprocess.run(["/bin/sh", "-c", side.before or ""], capture_output=True, text=True, check=False)
    if done.returncode:
        raise ConfigError(
            f"side {side.name}: {side.before!r} ended with status {done.returncode}: {done.stderr.strip()}"
        )


def split(text: str) -> tuple[str, ...]:
    """Words of a command line.

    Raises:
        ConfigError: an unclosed quote.
    """
    try:
        return tuple(shlex.split(text))
    except ValueError as error:
        raise ConfigError(f"{text!r} is no command line: {error}.") from None
