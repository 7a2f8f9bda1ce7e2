"""The gate's rules tried on simulated hosts: how often they cry wolf, and what they find."""

from __future__ import annotations

import math
import random
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

from pytest_gpuio.analysis.decision import decide
from pytest_gpuio.analysis.gate import Mode
from pytest_gpuio.analysis.metrics import DEFAULT_METRICS, metric
from pytest_gpuio.analysis.policy import MIN_EFFECT

#: Rounds of a session, their spread within it and how alike neighbours are, as seen on real devices.
ROUNDS: Final = 20
_WITHIN: Final = 0.01
_ALIKE: Final = 0.5
#: Runs that the documentation recommends: (baseline, new, new ones of the confirmation).
RECOMMENDED: Final[dict[Mode, tuple[int, int, int]]] = {"pairs": (10, 10, 10), "lookback": (16, 6, 10)}


@dataclass(frozen=True, slots=True)
class Situation:
    """A host and a change.

    Attributes:
        mode: how runs are compared; the number of runs is the recommended one.
        metric: what is judged. Throughput has a value per round, latency and CPU cost have one per cell.
        noise: standard deviation from session to session, relative.
        change: what really happened to the metric: 0.05 = 5 % worse.
    """

    mode: Mode
    metric: str
    noise: float
    change: float


@dataclass(frozen=True, slots=True)
class Rates:
    """Shares of the trials: candidates of the first look, and verdicts after the confirmation."""

    candidates: float
    slower: float
    faster: float


#: What the documentation's table shows.
SITUATIONS: Final = tuple(
    Situation(mode, name, noise, change)
    for mode in ("pairs", "lookback")
    for name in DEFAULT_METRICS
    for noise, change in ((0.02, 0.0), (0.04, 0.0), (0.02, 0.05), (0.04, 0.10))
)


def try_rules(situation: Situation, trials: int, seed: int = 1) -> Rates:
    """The rules on as many simulated cases; the same seed gives the same rates.

    Noise is log-normal; rounds of a session follow each other with autocorrelation 0.5. Values go into records and are
    read back as those of real runs are, so that a metric's direction is tried, too.
    """
    draw = random.Random(f"{seed} {situation}")
    old_runs, new_runs, again = RECOMMENDED[situation.mode]
    paired = situation.mode == "pairs"
    judged = metric(situation.metric)
    rules = {"paired": paired, "higher_is_better": judged.better == "higher", "min_effect": MIN_EFFECT, "draws": 0}

    def sessions(count: int, change: float) -> list[tuple[float, ...]]:
        worse = math.log1p(change)
        return [judged.logs(_record(situation.metric, _rounds(draw, situation, worse))) for _ in range(count)]

    candidates = slower = faster = 0
    for _ in range(trials):
        old, new = sessions(old_runs, 0.0), sessions(new_runs, situation.change)
        if decide(old, new, **rules).candidate is None:  # type: ignore[arg-type]
            continue
        candidates += 1
        old_again, new_again = sessions(again if paired else 0, 0.0), sessions(again, situation.change)
        verdict = decide(old, new, old_again, new_again, **rules).verdict  # type: ignore[arg-type]
        slower += verdict == "SLOWER"
        faster += verdict == "FASTER"
    return Rates(candidates / trials, slower / trials, faster / trials)


def _rounds(draw: random.Random, situation: Situation, effect: float) -> Iterator[float]:
    """What each round of a session costs, 1 = as always."""
    level = effect + draw.gauss(0.0, situation.noise)
    fresh = math.sqrt(1.0 - _ALIKE**2)
    wander = draw.gauss(0.0, _WITHIN)
    for _ in range(ROUNDS if situation.metric in ("bytes_per_s", "seconds_per_io") else 1):
        yield math.exp(level + wander)
        wander = _ALIKE * wander + fresh * draw.gauss(0.0, _WITHIN)


def _record(name: str, costs: Iterator[float]) -> Mapping[str, Any]:
    """The part of a record that holds a metric: 256 requests of 4 KiB a round, 0.1 s of CPU per GB, 1 ms of p99."""
    match name:
        case "p99":
            return {"latency": {"lat": {"p99_ns": 1e6 * next(costs)}}}
        case "cpu_s_per_gb":
            return {"cpu": {"gb_per_s_per_core": 10.0 / next(costs)}}
        case _:
            seconds = list(costs)
            return {"bytes": 4096, "ios": 1, "windows": {"ios_per_window": 256, "seconds": seconds}}
