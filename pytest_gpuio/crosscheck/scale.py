"""Experiments on size: what 25,000 cells cost pytest, before a single one is measured and after the last."""

from __future__ import annotations

import os
import re
import statistics
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from pytest_gpuio.core.errors import GpuioError
from pytest_gpuio.crosscheck.claims import Claim, Experiment, Row
from pytest_gpuio.crosscheck.lab import Lab
from pytest_gpuio.crosscheck.timed_process import Ended, run_timed
from pytest_gpuio.crosscheck.verdict import Spread, Target

CELLS: Final = 25_000
_COLLECTIONS: Final = 3
_COLLECTION_DEADLINE_S: Final = 300.0
_SESSION_DEADLINE_S: Final = 24 * 3600.0
#: Data path, medium, workload, block size, depth, jobs and batch: 2 x 1 x 5 x 10 x 10 x 5 x 5 cells.
_AXES: Final = (
    "--gpuio-bs=4k,8k,16k,32k,64k,128k,256k,512k,1M,2M",
    "--gpuio-qd=32,40,48,56,64,72,80,88,96,104",
    "--gpuio-jobs=1,2,3,4,5",
    "--gpuio-batch=1,2,4,8,16",
)
_SUITE: Final = """\
import pytest


@pytest.mark.workload("micro/randread", "micro/randwrite", "micro/zipfread", "micro/randrw70", "inference/kv_fetch")
def test_cell(gpuio):
    gpuio.run()
"""
#: As many cells to be measured, each as shortly as may be: what they leave in memory does not depend on it. Blocks are
#: small: the buffers of 5 jobs with 35 requests of 2 MiB would be the largest part of all.
_PLAN: Final = """\
name = "many"
[windows]
length = "10ms"
count = 1
warm_up = "2ms"
[axes]
datapath = "null"
workload = ["micro/randread", "micro/randwrite", "micro/zipfread", "micro/randrw70", "inference/kv_fetch"]
bs = "512..256k"
qd = "16..35+1"
jobs = "1..5+1"
batch = ["1x1", "2x2", "4x4", "8x8", "16x16"]
"""
#: Notes when the last cell has been measured.
_CONFTEST: Final = """\
import time
from pathlib import Path


def pytest_runtest_logfinish(nodeid, location):
    Path(__file__).with_name("last").write_text(str(time.monotonic()))
"""

_TIME = Claim("collect-time", "collecting 25,000 cells (7 axes, -m): time", "s", Target("<=", 5.0))
_MEMORY = Claim("collect-memory", "collecting 25,000 cells: peak memory", "MB", Target("<=", 300.0))
_PEAK = Claim("session-memory", "session of 25,000 null cells: peak memory", "MB", Target("<=", 400.0))
_END = Claim("session-end", "session of 25,000 null cells: end after its last cell", "s", Target("<=", 15.0))


def _pytest(folder: Path, *options: str, deadline_s: float) -> tuple[Ended, str]:
    """Runs pytest in ``folder``; how it ended, and its output.

    Raises:
        GpuioError: it was late, or its status is neither 0 nor 1 (some cells failed).
    """
    command = [sys.executable, "-P", "-m", "pytest", "-p", "no:cacheprovider", "-p", "no:codspeed", "-q"]
    command += [f"--gpuio-target={folder}", *options]
    environment = {name: value for name, value in os.environ.items() if not name.startswith("PYTEST_")}
    # As on any day but the first: modules were compiled before, pytest's rewriting of plugins included.
    environment.pop("PYTHONDONTWRITEBYTECODE", None)
    environment["PYTHONPYCACHEPREFIX"] = str(folder / "bytecode")
    log = folder / "output.txt"
    with log.open("wb") as output:
        done = run_timed(
            command, name="pytest", deadline_s=deadline_s, stdout=output, stderr=output, cwd=folder, env=environment
        )
    text = log.read_text(errors="replace")
    if done.status not in (0, 1):
        raise GpuioError(f"pytest ended with status {done.status}: {text[-600:]}")
    return done, text


def _collect(lab: Lab) -> Sequence[Row]:
    times, whole, peaks, kept = [], [], [], 0
    with tempfile.TemporaryDirectory(prefix="gpuio-collect-") as name:
        folder = Path(name)
        (folder / "test_many.py").write_text(_SUITE)
        options = ("--collect-only", "-m", "gpuio(bs=4096)", "--gpuio-datapath=libaio,io_uring", *_AXES)
        for number in range(_COLLECTIONS + 1):
            lab.say(f"{_TIME.name}: run {number}/{_COLLECTIONS}" if number else f"{_TIME.name}: writing byte code")
            done, output = _pytest(folder, *options, deadline_s=_COLLECTION_DEADLINE_S)
            found = re.search(r"(\d+)/(\d+) tests collected.* in ([\d.]+)s", output)
            if found is None or int(found[2]) != CELLS:
                raise GpuioError(f"pytest did not collect {CELLS:,} cells: {output[-300:]}")
            kept = int(found[1])
            if number:
                times.append(float(found[3]))
                whole.append(done.seconds)
                peaks.append(done.peak / 1e6)
    reason = (
        f"as pytest tells it, byte code there, median of {_COLLECTIONS}; -m keeps {kept:,} cells; with the process's "
        f"start and end {statistics.median(whole):.2f} s"
    )
    return [_TIME.of_figures(Spread.of(times), reason), _MEMORY.of_figures(Spread.of(peaks))]


def _session(lab: Lab) -> Sequence[Row]:
    if not lab.settings.full:
        return [claim.not_measurable("takes a quarter of an hour: add --full") for claim in (_PEAK, _END)]
    with tempfile.TemporaryDirectory(prefix="gpuio-session-") as name:
        folder = Path(name)
        (folder / "test_many.py").write_text(_SUITE)
        (folder / "many.toml").write_text(_PLAN)
        (folder / "conftest.py").write_text(_CONFTEST)
        lab.say(f"{_PEAK.name}: {CELLS:,} cells, this takes a quarter of an hour")
        with lab.lent_lock():
            done, output = _pytest(folder, "--gpuio-plan=many.toml", "test_many.py", deadline_s=_SESSION_DEADLINE_S)
        last = float((folder / "last").read_text())
    passed = re.search(r"(\d+) passed", output)
    reason = f"{passed[1] if passed else 'no'} cells passed in {done.seconds / 60:.0f} min"
    return [
        _PEAK.of_figures(Spread.of([done.peak / 1e6]), reason),
        _END.of_figures(Spread.of([done.ended - last])),
    ]


EXPERIMENTS: Final = (Experiment((_TIME, _MEMORY), _collect), Experiment((_PEAK, _END), _session))
