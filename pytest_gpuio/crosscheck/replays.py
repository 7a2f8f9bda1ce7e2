"""Experiments on traces: how long 12,031 requests take to become I/O, and whether their replay keeps its schedule."""

from __future__ import annotations

import json
import statistics
import tempfile
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final, cast

from pytest_gpuio import datapaths
from pytest_gpuio.crosscheck.claims import Claim, Experiment, Row
from pytest_gpuio.crosscheck.lab import Lab
from pytest_gpuio.crosscheck.verdict import Spread, Target
from pytest_gpuio.measure.completion import lag
from pytest_gpuio.measure.records import Exchange, ReplaySet, no_files
from pytest_gpuio.phases import RecordModel, get
from pytest_gpuio.phases.parameter import Value

#: As Mooncake's conversations: requests, stamps, ms between them, uses of blocks, share that goes on with a prefix.
_REQUESTS: Final = 12_031
_STAMPS: Final = 1_180
_STAMP_MS: Final = 2_998
_USES: Final = 288_500
_RETURNING: Final = 0.387
_SPEED: Final = 100
_SHARE: Final = 0.1
_RUNS: Final = 5
_EXPAND: Final = Claim(
    "trace-expand", "a trace of 12,031 requests: read, through tiers, to block level", "s", Target("<=", 1.0)
)
_START: Final = Claim(
    "trace-start", f"its replay, {_SPEED} times as fast: groups begun within 1 ms of schedule", "%", Target(">=", 99.0)
)


def lines() -> Iterator[str]:
    """A trace in Mooncake's format with the published shape: bursts at quantised stamps, prefixes that come again."""
    import numpy as np

    rng = np.random.default_rng(1)
    stamps = np.sort(rng.integers(0, _STAMPS, _REQUESTS)) * _STAMP_MS
    size = rng.lognormal(0.0, 1.0, _REQUESTS)
    sizes = np.maximum(1, np.rint(size * (_USES / size.sum()))).astype(int)
    told: list[list[int]] = [[0]]
    fresh = 1
    for stamp, blocks in zip(stamps.tolist(), sizes.tolist(), strict=True):
        before = told[int(rng.integers(len(told)))] if rng.random() < _RETURNING else [0]
        kept = before[: max(1, blocks - 1)]
        ids = [*kept, *range(fresh, fresh + blocks - len(kept))]
        fresh += blocks - len(kept)
        told.append(ids)
        yield json.dumps(
            {"timestamp": stamp, "input_length": 512 * len(ids), "output_length": 350, "hash_ids": ids}
        ) + "\n"  # fmt: skip


def _expand(lab: Lab) -> Sequence[Row]:
    took, spent = [], []
    with tempfile.TemporaryDirectory(prefix="gpuio-trace-") as folder:
        model = _model(Path(folder), scale=1.0)
        for number in range(_RUNS):
            lab.say(f"{_EXPAND.name}: run {number + 1}/{_RUNS}")
            begin, cpu = time.perf_counter(), time.process_time()
            records = model.records()
            took.append(time.perf_counter() - begin)
            spent.append(time.process_time() - cpu)
    reason = (
        f"median of {_RUNS - 1} after one: {len(records):,} I/Os in {records.groups:,} groups; "
        f"{statistics.median(spent[1:]):.2f} CPU seconds"
    )
    return [_EXPAND.of_figures(Spread.of(took[1:]), reason, {"seconds": took, "cpu_seconds": spent})]


def _start(lab: Lab) -> Sequence[Row]:
    lab.say(_START.name)
    with (
        tempfile.TemporaryDirectory(prefix="gpuio-trace-") as folder,
        lab.place("none") as place,
        Exchange() as exchange,
    ):
        model = _model(Path(folder), scale=_SHARE)
        whole = model.records()
        records = whole.split(model.bs)
        replay = ReplaySet(model, records, whole.groups, whole.bytes_of(), int(whole.length.max()))
        issued = exchange.plan(replay, no_files(records))
        plan = lab.plan(
            datapaths.get("null"), place, qd=model.qd, bs=model.bs, replay=issued, round="region", read_percent=50,
            timeout_s=60.0 + issued.least_s, max_time=2 * issued.least_s,
        )  # fmt: skip
        measured = lab.ours.measure(plan)
        found = lag(records, exchange.results(records.groups))
    real_time = bool(measured.outcome.get("real_time"))
    reason = (
        f"path null, {found['groups']:,} groups; late by {found['p50_ns'] / 1e3:.0f} us at the median, "
        f"{found['p99_ns'] / 1e3:.0f} us at p99, {found['max_ns'] / 1e6:.1f} ms at most; real-time priority "
        f"{'was had' if real_time else 'was not to be had'}"
    )
    return [_START.of_figures(Spread.of([100.0 * found["within_1ms"]]), reason, dict(found))]


def _model(folder: Path, scale: float) -> RecordModel:
    path = folder / "trace.jsonl"
    path.write_text("".join(lines()))
    values: dict[str, str | Value] = {"file": str(path), "speed": float(_SPEED), "pool_gib": 100_000.0, "scale": scale}
    return cast("RecordModel", get("inference/kv_trace")).with_values(values)


EXPERIMENTS: Final = (Experiment((_EXPAND,), _expand), Experiment((_START,), _start))
