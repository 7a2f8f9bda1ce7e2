"""fio as a subprocess: which one is there, running one job under a deadline, and reading its JSON."""

from __future__ import annotations

import contextlib
import json
import os
import re
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from pytest_gpuio.core.errors import CapabilityMissing, GpuioError, errno_text
from pytest_gpuio.crosscheck.side import PERCENTILES, Side
from pytest_gpuio.crosscheck.truth import Watch

#: Older versions lack ``lat_percentiles`` beside others, or queue io_uring's requests differently.
LEAST_VERSION: Final = (3, 33)
_VERSION: Final = re.compile(r"fio-(\d+)\.(\d+)")
_VERSION_DEADLINE_S: Final = 10.0
#: Beyond the job's own time: start, layout of its tables, output.
_SLACK_S: Final = 60.0
_KILL_WAIT_S: Final = 5.0
#: fio looks for finished jobs now and then: its end is seen up to so many seconds late.
_END_SEEN_LATE_S: Final = 0.3
_START_S: Final = 0.05
_TAIL: Final = 600


class FioError(GpuioError):
    """fio could not be run, failed, or said something that cannot be understood."""


@dataclass(frozen=True, slots=True)
class Fio:
    """An fio on this machine: its path and version."""

    path: str
    version: tuple[int, int]
    name: str

    def __str__(self) -> str:
        return self.name


@dataclass(frozen=True, slots=True)
class FioResult:
    """One job (or group of jobs) of fio's JSON; reads and writes together.

    Attributes:
        ios, bytes: completed. seconds: the timed window, whole milliseconds.
        short_ios: requests that moved fewer bytes.
        latency: total latency (``lat_ns``), nanoseconds.
        cores_told: CPU seconds per second by ``usr_cpu`` and ``sys_cpu``.
    """

    ios: int
    bytes: int
    seconds: float
    short_ios: int
    latency: Mapping[str, float]
    cores_told: float


def find_fio(path: str | None = None) -> Fio:
    """The fio to compare with.

    Args:
        path: of the program; None = the one on PATH.

    Raises:
        CapabilityMissing: there is none, or it is too old.
    """
    found = shutil.which(path or "fio")
    if found is None:
        where = f"{path} cannot be run" if path else "fio is not on PATH"
        raise CapabilityMissing(f"{where}: install it (Debian: apt-get install fio), or name it with --fio PATH.")
    try:
        told = subprocess.run([found, "--version"], capture_output=True, text=True, timeout=_VERSION_DEADLINE_S)
    except (OSError, subprocess.SubprocessError) as error:
        raise CapabilityMissing(f"{found} cannot be run: {error}. Name another with --fio PATH.") from None
    match = _VERSION.search(told.stdout)
    if match is None:
        said = (told.stdout or told.stderr).strip()[:80]
        raise CapabilityMissing(f"{found} does not say fio's version but {said!r}: name another with --fio PATH.")
    version = int(match[1]), int(match[2])
    if version < LEAST_VERSION:
        least = ".".join(map(str, LEAST_VERSION))
        raise CapabilityMissing(
            f"{found} is fio {match[1]}.{match[2]}, {least} is needed: name another with --fio PATH."
        )
    return Fio(found, version, told.stdout.strip())


def parse(text: str, jobs: int = 1) -> FioResult:
    """Reads what ``--output-format=json`` printed.

    Args:
        text: standard output; lines before the first brace (fio prints errors there) are passed over.
        jobs: threads of the group, which fio's CPU shares are a mean over.

    Raises:
        FioError: no JSON, no job, an error of the job, or nothing was done.
    """
    start = text.find("{")
    if start < 0:
        raise FioError(f"fio printed no JSON but: {_shown(text)}")
    try:
        told = json.JSONDecoder().raw_decode(text, start)[0]
        listed = list(told["jobs"])
    except (ValueError, KeyError, TypeError):
        raise FioError(f"fio's JSON cannot be read: {_shown(text[start:])}") from None
    if len(listed) != 1:
        raise FioError(f"fio reports {len(listed)} jobs where one group was asked for: {_shown(text[start:])}")
    try:
        return _job(listed[0], jobs, preamble=text[:start])
    except (KeyError, TypeError, ValueError) as error:
        raise FioError(f"fio's JSON lacks or garbles {error}: {_shown(text[start:])}") from None


def _job(job: Mapping[str, Any], jobs: int, preamble: str) -> FioResult:
    if job["error"]:
        said = f" It said: {_shown(preamble)}" if preamble.strip() else ""
        raise FioError(f"fio's job failed: {errno_text(int(job['error']))}.{said}")
    # One of reads and writes, or both as one with unified_rw_reporting.
    (part,) = [job[name] for name in ("read", "write", "mixed") if job.get(name, {}).get("total_ios")] or [None]
    if part is None or not part["runtime"]:
        raise FioError("fio's job ended without a single request.")
    lat = part["lat_ns"]
    shares = {f"{float(share):.6f}": value for share, value in lat.get("percentile", {}).items()}
    latency = {"mean": float(lat["mean"])}
    for name, share in PERCENTILES.items():
        value = shares.get(f"{share * 100:.6f}")
        if value is not None:
            latency[name] = float(value)
    return FioResult(
        ios=int(part["total_ios"]),
        bytes=int(part["io_bytes"]),
        seconds=part["runtime"] / 1e3,
        short_ios=int(part["short_ios"]),
        latency=latency,
        cores_told=(job["usr_cpu"] + job["sys_cpu"]) / 100 * jobs,
    )


def _shown(text: str) -> str:
    text = " ".join(text.split())
    return text if len(text) <= _TAIL else f"... {text[-_TAIL:]}"


def run(
    fio: Fio,
    arguments: Sequence[str],
    *,
    seconds: float,
    jobs: int = 1,
    environment: Mapping[str, str] | None = None,
    avoid: Sequence[int] = (),
) -> Side:
    """Runs one job and watches its CPU from outside.

    Args:
        fio: the program.
        arguments: of the job; the output format is added here.
        seconds: its timed window and ramp together.
        jobs: threads of the group.
        environment: variables added to this process's environment.
        avoid: CPUs of its workers, for the observer to keep off.

    Raises:
        FioError: it failed, was late, or printed no result.
    """
    command = [fio.path, *arguments, "--output-format=json", "--eta=never"]
    # In a folder of its own: interrupted, fio leaves state files where it stands.
    with tempfile.TemporaryDirectory(prefix="gpuio-fio-") as folder, tempfile.TemporaryFile("w+") as errors:
        try:
            process = subprocess.Popen(
                command,
                cwd=folder,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=errors,
                text=True,
                start_new_session=True,
                env={**os.environ, "LC_ALL": "C", **(environment or {})},
            )
        except OSError as error:
            raise FioError(f"{fio.path} cannot be started: {errno_text(error.errno or 0)}.") from None
        with _killed_at_the_end(process), Watch(process.pid, avoid) as watch:
            try:
                output, _ = process.communicate(timeout=seconds + _SLACK_S)
            except subprocess.TimeoutExpired:
                raise FioError(f"{fio} was not done within {seconds + _SLACK_S:g} s and was killed.") from None
            ended = time.monotonic()
        errors.seek(0)
        said = errors.read()
    if process.returncode:
        detail = _failure(output, said)
        raise FioError(f"{fio} ended with status {process.returncode}: {detail}")
    result = parse(output, jobs)
    if result.short_ios:
        raise FioError(f"{fio} counted {result.short_ios:,} short requests: the file is smaller than its job.")
    return Side(
        tool="fio",
        ios=result.ios,
        bytes=result.bytes,
        seconds=result.seconds,
        latency=result.latency,
        cores_told=result.cores_told,
        observed=watch.between(ended - result.seconds + _START_S, ended - _END_SEEN_LATE_S),
    )


def _failure(output: str, errors: str) -> str:
    """The reason in words: fio's own lines, else the error number in its JSON."""
    lines = [line for line in (*errors.splitlines(), *output.partition("{")[0].splitlines()) if line.strip()]
    if lines:
        return _shown("; ".join(lines))
    try:
        parse(output)
    except FioError as error:
        return str(error)
    return "it gave no reason"


@contextlib.contextmanager
def _killed_at_the_end(process: subprocess.Popen[str]) -> Any:
    """Whatever happens inside, the process group is gone and reaped, within bounded time."""
    try:
        yield
    finally:
        if process.poll() is None:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(_KILL_WAIT_S)
        if process.stdout is not None:
            process.stdout.close()
