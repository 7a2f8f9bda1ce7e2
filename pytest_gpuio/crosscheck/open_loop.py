"""Experiments on the open loop: does it keep an absolute schedule of 10,000 arrivals a second?"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any, Final, Literal

from pytest_gpuio import datapaths
from pytest_gpuio.crosscheck.claims import Claim, Experiment, Row
from pytest_gpuio.crosscheck.lab import Lab
from pytest_gpuio.crosscheck.ours import Measured, for_seconds, latency
from pytest_gpuio.crosscheck.verdict import Spread, Target

Wait = Literal["sleep", "spin"]

_RUNS: Final = 5
_ARRIVALS: Final = "poisson:10000"
_CLAIMS: Final[Mapping[Wait, tuple[Claim, Claim]]] = {
    "sleep": (
        Claim("open-waiting", "open loop 10k/s waiting: completed off schedule", "%", Target("<=", 0.1)),
        Claim("open-waiting-lag", "open loop 10k/s waiting: p99 lag", "us", Target("<=", 100.0)),
    ),
    "spin": (
        Claim("open-spinning", "open loop 10k/s spinning: completed off schedule", "%", Target("<=", 0.1)),
        Claim("open-spinning-lag", "open loop 10k/s spinning: p99 lag", "us", Target("<=", 30.0)),
    ),
}


def _run(wait: Wait, lab: Lab) -> Sequence[Row]:
    off_claim, lag_claim = _CLAIMS[wait]
    off, lags, runs = [], [], []
    with lab.place("cached") as place:
        plan = lab.plan(datapaths.get("io_uring"), place, qd=32, arrivals=_ARRIVALS, arrival_wait=wait)
        plan = for_seconds(plan, lab.settings.seconds)
        for number in range(_RUNS):
            lab.say(f"{off_claim.name}: run {number + 1}/{_RUNS}")
            measured = lab.ours.measure(plan)
            found = _figures(measured)
            runs.append(found)
            off.append(abs(found["completed_rate"] / found["scheduled_rate"] - 1.0) * 100)
            lags.append(found["lag_p99_us"])
    last = runs[-1]
    reason = (
        f"io_uring on the cached file, median of {_RUNS} runs, mode {wait}: asked {_ARRIVALS}, the draw is "
        f"{last['scheduled_rate']:,.1f}/s, completed {last['completed_rate']:,.1f}/s at {last['cores']:.2f} cores, "
        f"lag p50 {last['lag_p50_us']:.1f} us"
    )
    return [
        off_claim.of_figures(Spread.of(off), reason, {"runs": runs}),
        lag_claim.of_figures(Spread.of(lags), "see the line above", {"runs": runs}),
    ]


def _figures(measured: Measured) -> dict[str, Any]:
    """Rates over the windows, each from the first arrival to the last completion; lag in microseconds."""
    windows, outcome = measured.outcome["windows"], measured.outcome
    lag = latency(outcome["latency"]["lag"])
    # n arrivals span n - 1 gaps; the window ends with the last completion.
    gaps = sum(window["ios"] - 1 for window in windows)
    return {
        "scheduled": sum(window["scheduled"] for window in windows),
        "completed": measured.totals.ios,
        "scheduled_rate": outcome["offered_rate"],
        "completed_rate": gaps / measured.totals.seconds,
        "late": sum(window["late"] for window in windows),
        "lag_p50_us": lag["p50"] / 1e3,
        "lag_p99_us": lag["p99"] / 1e3,
        "cores": measured.side.cores_told,
    }


EXPERIMENTS: Final = tuple(Experiment(_CLAIMS[wait], partial(_run, wait)) for wait in _CLAIMS)
