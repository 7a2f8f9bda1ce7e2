"""Experiments against a bare io_uring loop that measures nothing: what our stamps and histograms cost."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Final

from pytest_gpuio import datapaths
from pytest_gpuio.core.errors import CapabilityMissing
from pytest_gpuio.crosscheck.claims import Claim, Experiment, Row
from pytest_gpuio.crosscheck.compare import disturbed, foreign
from pytest_gpuio.crosscheck.lab import Lab, PlaceName
from pytest_gpuio.crosscheck.ours import for_seconds
from pytest_gpuio.crosscheck.pair import Turn, run_pairs
from pytest_gpuio.crosscheck.side import Side
from pytest_gpuio.crosscheck.truth import Watch
from pytest_gpuio.crosscheck.verdict import Target, noise_floor
from pytest_gpuio.isolation import Children
from pytest_gpuio.measure.plan import Plan

CHILD_MODULE: Final = "pytest_gpuio.crosscheck.child"
_SLACK_S: Final = 60.0
_BLOCK: Final = 4096
_DEPTH: Final = 32


@dataclass(frozen=True, slots=True)
class _Race:
    claim: Claim
    nop: bool
    batch: int
    merged: bool


def _claim(name: str, title: str, value: float) -> Claim:
    return Claim(name, title, "x bare", Target(">=", value))


_RACES: Final = (
    _Race(_claim("bare-cached-b1", "against a bare loop: cached file batch 1", 0.97), nop=False, batch=1, merged=True),
    _Race(_claim("bare-cached-b32", "against a bare loop: cached file batch 32", 0.97), False, 32, True),
    _Race(_claim("bare-nop-merged", "against a bare loop: NOP, submit and wait merged", 0.93), True, 1, True),
    _Race(_claim("bare-nop-split", "against a bare loop: NOP, submit and wait split", 0.90), True, 1, False),
)


def _run(race: _Race, lab: Lab) -> Sequence[Row]:
    path = datapaths.get("io_uring")
    reason = lab.ours.ask("probe", "probe", {"name": "io_uring", "target": None}, deadline_s=15.0)
    if reason is not None:
        raise CapabilityMissing(str(reason))
    where: PlaceName = "none" if race.nop else "cached"
    with lab.place(where) as place, Children(CHILD_MODULE) as children:
        plan = lab.plan(path, place, qd=_DEPTH, bs=_BLOCK, batch=race.batch)
        knobs = set(plan.knobs) if race.merged else set(plan.knobs) - {"merged_wait"}
        if race.nop:
            knobs -= {"fixed_buffers", "registered_files"}
        changes: dict[str, Any] = {"engine": "io_uring_nop"} if race.nop else {}
        plan = lab.plan(path, place, qd=_DEPTH, bs=_BLOCK, batch=race.batch, knobs=tuple(sorted(knobs)), **changes)
        plan = for_seconds(plan, lab.settings.seconds)

        def turn(number: int, who: Turn) -> None:
            name = {"ours": "gpuio", "theirs": "bare", "again": "bare again"}[who]
            lab.say(f"{race.claim.name}: pair {number + 1}/{lab.settings.pairs}: {name}")

        pairs = run_pairs(
            lambda: lab.ours.measure(plan).side,
            lambda: _bare(children, plan, lab.settings.seconds, race),
            lab.settings.pairs,
            turn,
        )
    lab.interrupted = pairs.interrupted
    ours, theirs = pairs.side("ours", "iops"), pairs.side("theirs", "iops")
    notes = [] if ours is None or theirs is None else [f"ours {ours.median:,.0f}/s, bare {theirs.median:,.0f}/s"]
    per_cpu = pairs.per_cpu_second()
    notes += [] if per_cpu is None else [f"per CPU second {per_cpu}"]
    strangers = foreign(pairs)
    noisy = disturbed(None if strangers is None else strangers.median)
    details = {"plan": plan.to_params(), "ours": pairs.ratios("iops"), "self": pairs.self_ratios("iops")}
    floor = noise_floor(pairs.self_ratios("iops"))
    return [race.claim.of_ratio(pairs.spread("iops"), floor, notes, details, disturbed=noisy)]


def _bare(children: Children, plan: Plan, seconds: float, race: _Race) -> Side:
    child = children.get("bare")
    params = {
        "path": plan.path or "",
        "offset": plan.region_offset,
        "region_bytes": plan.region_bytes,
        "depth": plan.qd,
        "batch": race.batch,
        "block": plan.bs,
        "seconds": seconds,
        "cpu": plan.cpus[0],
        "split": not race.merged,
        "knobs": sorted(plan.knobs),
    }
    began = time.monotonic()
    with Watch(child.pid, plan.cpus) as watch:
        result = child.request("bare", params, deadline_s=seconds + _SLACK_S)
    ended, ran = time.monotonic(), result["seconds"]
    return Side(
        tool="bare",
        ios=result["ios"],
        bytes=result["ios"] * plan.bs,
        seconds=ran,
        latency={},
        cores_told=result["cpu_seconds"] / ran,
        observed=watch.between(max(began, ended - ran), ended),
    )


EXPERIMENTS: Final = tuple(Experiment((race.claim,), partial(_run, race)) for race in _RACES)
