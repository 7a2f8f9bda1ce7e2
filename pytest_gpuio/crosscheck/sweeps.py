"""Experiments on sweeps: short cells a minute beside a shell loop of fio, and the share of windows in the time."""

from __future__ import annotations

import json
import math
import shlex
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from pytest_gpuio.core.errors import GpuioError
from pytest_gpuio.core.sizes import parse_size
from pytest_gpuio.crosscheck.claims import Claim, Experiment, Row
from pytest_gpuio.crosscheck.lab import Lab
from pytest_gpuio.crosscheck.timed_process import run_timed
from pytest_gpuio.crosscheck.verdict import Spread, Target
from pytest_gpuio.results import journal
from pytest_gpuio.targets import HEADER_BYTES, target_file

_RATE: Final = Claim("sweep-rate", "cells a minute, 100 ms measured each", "x loop of fio", Target(">=", 3.0))
_SHARE: Final = Claim("sweep-share", "wall time inside windows of 1 s", "", Target(">=", 0.95))
_MEMORY: Final = Claim("sweep-memory", "sweep of 25,000 cells: peak memory", "MB", Target("<=", 300.0))
_RESUME: Final = Claim("sweep-resume", "going on with 25,000 cells: start to first word", "s", Target("<=", 5.0))
_EXPORT: Final = Claim("sweep-export", "pytest-benchmark JSON of 25,000 cells", "s", Target("<=", 15.0))
_EXPORT_MEMORY: Final = Claim("sweep-export-memory", "... peak memory", "MB", Target("<=", 100.0))

_BYTES: Final = 256 << 20
_PLAN: Final = """\
name = "race"
[options]
size = "{size}"
[windows]
length = "{length}"
count = {count}
warm_up = "5ms"
[axes]
workload = {workloads}
datapath = {paths}
bs = {sizes}
qd = {depths}
jobs = 1
"""
_MANY: Final = {
    "size": "256M", "length": "20ms", "count": 1, "workloads": '["micro/randread", "micro/seqread"]',
    "paths": '["null", "psync"]', "sizes": '"4k..3136k+4k"', "depths": '"1..15+1"',
}  # fmt: skip
_RACES: Final = 3
_ORDER: Final[Mapping[str, str]] = {"micro/randread": "randread", "micro/seqread": "read"}
_DEADLINE_S: Final = 6 * 3600.0


def _gpuio(*arguments: str) -> tuple[float, float, str]:
    """Runs ``gpuio``; seconds, peak megabytes, standard output.

    Raises:
        GpuioError: its status is neither 0 nor 1 (some cells are void).
    """
    with tempfile.TemporaryFile("w+") as out, tempfile.TemporaryFile("w+") as errors:
        done = run_timed(
            [sys.executable, "-P", "-m", "pytest_gpuio.cli", *arguments],
            name=f"gpuio {arguments[0]}", deadline_s=_DEADLINE_S, stdout=out, stderr=errors,
        )  # fmt: skip
        for file in (out, errors):
            file.seek(0)
        if done.status not in (0, 1):
            raise GpuioError(f"gpuio {shlex.join(arguments)} ended with {done.status}: {errors.read()[-600:]}")
        return done.seconds, done.peak / 1e6, out.read()


def _written(folder: Path, **values: Any) -> Path:
    file = folder / "race.toml"
    file.write_text(_PLAN.format(**values))
    return file


def _fio_line(fio: str, axes: Mapping[str, str], file: Path) -> str:
    return shlex.join([
        fio, "--name=cell", f"--filename={file}", f"--offset={HEADER_BYTES}", f"--size={_BYTES}", "--readonly",
        f"--ioengine={axes['datapath']}", f"--rw={_ORDER[axes['workload']]}", f"--bs={parse_size(axes['bs'])}",
        f"--iodepth={axes['qd']}", "--direct=1", "--thread", "--time_based", "--runtime=100ms",
        "--output-format=json", "--output=/dev/null",
    ])  # fmt: skip


def _race(lab: Lab) -> Sequence[Row]:
    """The same cells in the same order: one sweep, and a shell script with a line of fio for each."""
    target = lab.settings.folder
    races = 1 if lab.settings.quick else _RACES
    ratios, ours, theirs = [], [], []
    with tempfile.TemporaryDirectory(prefix="gpuio-race-") as name, lab.lent_lock():
        folder = Path(name)
        plan = _written(
            folder, size=_BYTES, length="20ms", count=5, workloads=json.dumps(list(_ORDER)),
            paths='["psync", "libaio", "io_uring"]', sizes='"4k..64k+4k"', depths="[1, 8, 32]",
        )  # fmt: skip
        _, _, text = _gpuio("sweep", "plan", str(plan), "--gpuio-target", str(target), "--cells", "--json", "-")
        cells = [dict(part.split("=", 1) for part in case.split("|")[1:]) for case in json.loads(text)["cases"]]
        # Lays the file out, for both sides.
        lab.say(f"{_RATE.name}: {len(cells)} cells a side")
        _gpuio("sweep", "run", str(plan), "--journal", str(folder / "first.jsonl"), "--gpuio-target", str(target))
        file = target_file(target, writes=False)
        script = folder / "loop.sh"
        script.write_text("".join(f"{_fio_line(lab.fio.path, cell, file)} || exit 1\n" for cell in cells))
        for number in range(races):
            lab.say(f"{_RATE.name}: race {number + 1}/{races}")
            log = folder / f"{number}.jsonl"
            mine, _, _ = _gpuio("sweep", "run", str(plan), "--journal", str(log), "--gpuio-target", str(target))
            began = time.monotonic()
            done = subprocess.run(["/bin/sh", script], cwd=folder, capture_output=True, text=True, timeout=600)
            if done.returncode:
                raise GpuioError(f"{lab.fio} failed in the loop: {(done.stdout + done.stderr)[-300:]}")
            other = time.monotonic() - began
            ratios.append(other / mine)
            ours.append(60 * len(cells) / mine)
            theirs.append(60 * len(cells) / other)
    reason = (
        f"ours {sorted(ours)[len(ours) // 2]:.0f} cells a minute, interpreter start included, the loop "
        f"{sorted(theirs)[len(theirs) // 2]:.0f}; {len(cells)} cells each"
    )
    return [_RATE.of_figures(Spread.of(ratios), reason, judged=not lab.settings.quick)]


def _share(lab: Lab) -> Sequence[Row]:
    target = lab.settings.folder
    with tempfile.TemporaryDirectory(prefix="gpuio-share-") as name, lab.lent_lock():
        folder = Path(name)
        plan = _written(
            folder, size=_BYTES, length="1s", count=2 if lab.settings.quick else 5, workloads='["micro/randread"]',
            paths='["psync", "libaio"]', sizes='["4k", "64k"]', depths="[1, 8]",
        )  # fmt: skip
        log = folder / "share.jsonl"
        lab.say(f"{_SHARE.name}: some seconds a cell")
        _gpuio("sweep", "run", str(plan), "--journal", str(log), "--gpuio-target", str(target))
        lines = [line for line in journal.scan(log) if line.kind == "cell"]
    # From the end of the first cell, which lays the file out, to that of the last.
    inside = math.fsum(line.own_body()["seconds"] for line in lines[1:])
    return [
        _SHARE.of_figures(
            Spread.of([inside / (lines[-1].at - lines[0].at)]),
            f"{len(lines) - 1} cells; the rest is warm-up, opening, checking data and the journal",
            judged=not lab.settings.quick,
        )
    ]


def _many(lab: Lab) -> Sequence[Row]:
    claims = (_MEMORY, _RESUME, _EXPORT, _EXPORT_MEMORY)
    if not lab.settings.full:
        return [claim.not_measurable("takes half an hour: add --full") for claim in claims]
    with tempfile.TemporaryDirectory(prefix="gpuio-sweep-") as name, lab.lent_lock():
        folder = Path(name)
        plan, log = _written(folder, **_MANY), folder / "many.jsonl"
        command = ("sweep", "run", str(plan), "--journal", str(log), "--gpuio-target", str(lab.settings.folder))
        lab.say(f"{_MEMORY.name}: 25,000 cells, this takes half an hour")
        seconds, peak, _ = _gpuio(*command)
        again, _, _ = _gpuio(*command)
        out = folder / "many.json"
        exporting, memory, _ = _gpuio("sweep", "export", "--journal", str(log), "--benchmark-json", str(out))
        sizes = f"journal {log.stat().st_size / 1e6:.0f} MB, JSON {out.stat().st_size / 1e6:.0f} MB"
    return [
        _MEMORY.of_figures(Spread.of([peak]), f"in {seconds / 60:.0f} min; the largest of its processes"),
        _RESUME.of_figures(Spread.of([again]), "whole command, with nothing left to measure"),
        _EXPORT.of_figures(Spread.of([exporting]), sizes),
        _EXPORT_MEMORY.of_figures(Spread.of([memory])),
    ]


EXPERIMENTS: Final = (
    Experiment((_RATE,), _race),
    Experiment((_SHARE,), _share),
    Experiment((_MEMORY, _RESUME, _EXPORT, _EXPORT_MEMORY), _many),
)
