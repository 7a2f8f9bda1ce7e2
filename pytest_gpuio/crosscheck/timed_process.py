"""A command run to its end: how long it took, and the most memory it had."""

from __future__ import annotations

import os
import subprocess
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Final

from pytest_gpuio.core.errors import GpuioError

_LOOK_EVERY_S: Final = 0.005


@dataclass(frozen=True, slots=True)
class Ended:
    """How it ended: exit status, seconds it took, peak resident bytes, moment of its end (CLOCK_MONOTONIC)."""

    status: int
    seconds: float
    peak: int
    ended: float


def run_timed(
    command: Sequence[str],
    *,
    name: str,
    deadline_s: float,
    stdout: IO[str] | IO[bytes],
    stderr: IO[str] | IO[bytes],
    cwd: Path | None = None,
    env: Mapping[str, str] | None = None,
) -> Ended:
    """Runs a command without input; it is killed when it is late, or when waiting for it is broken off.

    Raises:
        GpuioError: it was late; the text calls it ``name``.
    """
    began = time.monotonic()
    process = subprocess.Popen(command, cwd=cwd, stdin=subprocess.DEVNULL, stdout=stdout, stderr=stderr, env=env)
    try:
        while True:
            pid, status, usage = os.wait4(process.pid, os.WNOHANG)
            if pid:
                process.returncode = os.waitstatus_to_exitcode(status)
                break
            if time.monotonic() - began > deadline_s:
                raise GpuioError(f"{name} was not done within {deadline_s:g} s and was killed.")
            time.sleep(_LOOK_EVERY_S)
    finally:
        if process.returncode is None:
            process.kill()
            process.wait()
    ended = time.monotonic()
    return Ended(process.returncode, ended - began, usage.ru_maxrss * 1024, ended)
