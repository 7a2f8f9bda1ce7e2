"""A command run to its end: how long it took, and the most memory it had."""

from __future__ import annotations

import contextlib
import os
import subprocess
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Final

from pytest_gpuio.core.errors import GpuioError
from pytest_gpuio.machine.reading import slurp, value_of

_LOOK_EVERY_S: Final = 0.005
#: Memory is looked at at every one of so many looks: its peak is kept by the kernel until the process ends.
_MEMORY_EVERY: Final = 5


@dataclass(frozen=True, slots=True)
class Ended:
    """How it ended.

    Attributes:
        status: its exit status; -N when signal N ended it.
        seconds: from its start to its end.
        peak: most resident bytes that it or one of its descendants had, as seen every 25 ms. wait4(2) would tell the
            memory of whoever started it when that was more.
        ended: moment of its end, CLOCK_MONOTONIC.
    """

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
    peak = looks = 0
    try:
        while process.poll() is None:
            if looks % _MEMORY_EVERY == 0:
                peak = max(peak, _largest(process.pid))
            looks += 1
            if time.monotonic() - began > deadline_s:
                raise GpuioError(f"{name} was not done within {deadline_s:g} s and was killed.")
            time.sleep(_LOOK_EVERY_S)
    finally:
        if process.returncode is None:
            process.kill()
            process.wait()
    ended = time.monotonic()
    return Ended(process.returncode, ended - began, peak, ended)


def _largest(pid: int) -> int:
    """Peak resident bytes of the largest among a process and its descendants."""
    kilobytes = (value_of(slurp(f"/proc/{pid}/status"), "VmHWM") or "0").split()[0]
    found = 1024 * int(kilobytes)
    with contextlib.suppress(OSError):
        for tid in os.listdir(f"/proc/{pid}/task"):  # noqa: PTH208 - names only
            for child in (slurp(f"/proc/{pid}/task/{tid}/children") or "").split():
                found = max(found, _largest(int(child)))
    return found
