"""Experiments on what a cell costs beyond its windows, and what a large suite costs pytest."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import Any, Final

from pytest_gpuio import datapaths
from pytest_gpuio.crosscheck.claims import Claim, Experiment, Row
from pytest_gpuio.crosscheck.lab import Lab
from pytest_gpuio.crosscheck.verdict import Spread, Target
from pytest_gpuio.measure.plan import Plan

_CELLS: Final = 20
_STARTS: Final = 7
#: Cells are as short as they may be: their windows are not what is measured.
_SHORT: Final[dict[str, Any]] = {"window_s": 0.1, "max_time": 0.3, "precision": 0.5}
_FAMILY: Final = "cost"

_WARM = Claim("cell-null", "cell in a warm child: null QD 32", "ms", Target("<=", 10.0))
_WARM_PSYNC = Claim("cell-psync", "cell in a warm child: psync on the disk", "ms", Target("<=", 10.0))
_LARGE = Claim("cell-32x1m", "cell in a warm child: io_uring 32 x 1 MiB", "ms", Target("<=", 25.0))
_START = Claim("cell-start", "cell that starts its child: null QD 32", "ms", Target("<=", 250.0))


def _beyond_windows(lab: Lab, plan: Plan, family: str) -> tuple[float, float]:
    """Milliseconds that a cell took in all, less its windows (warm-up included) and verification; and those of that."""
    began = time.monotonic()
    outcome, _ = lab.ours.observe(plan, family)
    whole = time.monotonic() - began
    windows = sum(window["end_ns"] - window["start_ns"] for window in outcome["windows"]) / 1e9
    windows += outcome["warmup_seconds"]
    return (whole - windows - outcome["sweep_seconds"]) * 1e3, outcome["sweep_seconds"] * 1e3


def _repeat(lab: Lab, claim: Claim, plan: Plan, count: int, family: Callable[[int], str] = lambda _: _FAMILY) -> Row:
    figures, sweeps = [], []
    for number in range(count):
        if number % 5 == 0:
            lab.say(f"{claim.name}: cell {number + 1}/{count}")
        figure, swept = _beyond_windows(lab, plan, family(number))
        figures.append(figure)
        sweeps.append(swept)
    spread, sweep = Spread.of(figures), Spread.of(sweeps)
    reason = f"median of {count} cells"
    if sweep is not None and plan.verify != "none":
        reason += f"; their verification took {sweep.median:.1f} ms more"
    return claim.of_figures(spread, reason, {"milliseconds": figures, "verification_milliseconds": sweeps})


def _null(lab: Lab) -> Sequence[Row]:
    with lab.place("none") as place:
        plan = lab.plan(datapaths.get("null"), place, qd=32, **_SHORT)
    lab.ours.observe(plan, _FAMILY)  # starts the child, pools the buffers
    return [_repeat(lab, _WARM, plan, _CELLS)]


def _psync(lab: Lab) -> Sequence[Row]:
    with lab.place("disk") as place:
        plan = lab.plan(datapaths.get("psync"), place, qd=1, **_SHORT)
        lab.ours.observe(plan, _FAMILY)
        return [_repeat(lab, _WARM_PSYNC, plan, _CELLS)]


def _large(lab: Lab) -> Sequence[Row]:
    with lab.place("disk") as place:
        plan = lab.plan(datapaths.get("io_uring"), place, qd=32, bs=1 << 20, **_SHORT)
        lab.ours.observe(plan, _FAMILY)
        return [_repeat(lab, _LARGE, plan, _CELLS)]


def _start(lab: Lab) -> Sequence[Row]:
    with lab.place("none") as place:
        plan = lab.plan(datapaths.get("null"), place, qd=32, **_SHORT)
    # A family of its own for each cell: nothing has to end before the next one starts.
    return [_repeat(lab, _START, plan, _STARTS, family=lambda number: f"{_FAMILY}{number}")]


EXPERIMENTS: Final = (
    Experiment((_WARM,), _null),
    Experiment((_WARM_PSYNC,), _psync),
    Experiment((_LARGE,), _large),
    Experiment((_START,), _start),
)
