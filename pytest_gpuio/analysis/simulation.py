"""The gate's rules tried on simulated hosts: how often they cry wolf, and what they find."""

from __future__ import annotations

import math
import random
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from pytest_gpuio.analysis.decision import decide
from pytest_gpuio.analysis.gate import Mode
from pytest_gpuio.analysis.policy import MIN_EFFECT

#: Rounds of a session, their spread within it and how alike neighbours are, as seen on real devices.
ROUNDS: Final = 20
_WITHIN: Final = 0.01
_ALIKE: Final = 0.5
#: Runs that the documentation recommends: (baseline, new, new ones of the confirmation).
RECOMMENDED: Final[dict[Mode, tuple[int, int, int]]] = {"pairs": (10, 10, 10), "lookback": (12, 6, 10)}


@dataclass(frozen=True, slots=True)
class Situation:
    """A host and a change.

    Attributes:
        mode: how runs are compared; the number of runs is the recommended one.
        noise: standard deviation from session to session, relative.
        change: what really happened to the metric: 0.05 = 5 % worse.
        rounds: values per session; 1 for metrics that have one per cell (p99, CPU cost).
    """

    mode: Mode
    noise: float
    change: float
    rounds: int = ROUNDS


@dataclass(frozen=True, slots=True)
class Rates:
    """Shares of the trials: candidates of the first look, and verdicts after the confirmation."""

    candidates: float
    slower: float
    faster: float


#: What the documentation's table shows.
SITUATIONS: Final = tuple(
    Situation(mode, noise, change)
    for mode in ("pairs", "lookback")
    for noise, change in ((0.02, 0.0), (0.04, 0.0), (0.02, 0.05), (0.04, 0.10))
)


def try_rules(situation: Situation, trials: int, seed: int = 1) -> Rates:
    """The rules on as many simulated cases; the same seed gives the same rates.

    Noise is log-normal; rounds of a session follow each other with autocorrelation 0.5. A metric with one value per
    session is simulated by ``rounds=1``.
    """
    draw = random.Random(f"{seed} {situation}")
    old_runs, new_runs, again = RECOMMENDED[situation.mode]
    paired = situation.mode == "pairs"
    effect = math.log1p(situation.change)
    candidates = slower = faster = 0
    for _ in range(trials):
        old = [list(_session(draw, situation, 0.0)) for _ in range(old_runs)]
        new = [list(_session(draw, situation, effect)) for _ in range(new_runs)]
        rules = {"paired": paired, "higher_is_better": False, "min_effect": MIN_EFFECT, "draws": 0}
        first = decide(old, new, **rules)  # type: ignore[arg-type]
        if first.candidate is None:
            continue
        candidates += 1
        old_again = [list(_session(draw, situation, 0.0)) for _ in range(again if paired else 0)]
        new_again = [list(_session(draw, situation, effect)) for _ in range(again)]
        verdict = decide(old, new, old_again, new_again, **rules).verdict  # type: ignore[arg-type]
        slower += verdict == "SLOWER"
        faster += verdict == "FASTER"
    return Rates(candidates / trials, slower / trials, faster / trials)


def _session(draw: random.Random, situation: Situation, effect: float) -> Iterator[float]:
    level = effect + draw.gauss(0.0, situation.noise)
    fresh = math.sqrt(1.0 - _ALIKE**2)
    wander = draw.gauss(0.0, _WITHIN)
    for _ in range(situation.rounds):
        yield level + wander
        wander = _ALIKE * wander + fresh * draw.gauss(0.0, _WITHIN)
