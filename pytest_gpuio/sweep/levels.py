"""What is known of each cell's deciding figure from its measurements so far, and how well."""

from __future__ import annotations

import math
import statistics
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, Final

from pytest_gpuio.analysis.recommend import deciding
from pytest_gpuio.analysis.statistics import student_sf
from pytest_gpuio.measure.stopping import effective_count
from pytest_gpuio.results.record import failed_gates

#: Relative spread of windows that is assumed of a machine nobody has measured windows on, and how much it weighs.
_SPREAD: Final = 0.05
_SPREAD_WEIGHT: Final = 2.0
#: Relative spread from one measurement of a cell to the next that is assumed before any was measured twice (runs on
#: quiet machines differ by about a percent), and how many repeats that is worth.
_BETWEEN: Final = 0.01
_BETWEEN_WEIGHT: Final = 8.0
#: Degrees of freedom that what is known of a cell's neighbours is worth beside the cell's own windows.
_SHARED: Final = 3.0
#: Degrees of freedom of a data path's spread that weigh as much as all data paths together.
_COMMON: Final = 8.0
#: More degrees of freedom change no quantile that matters.
_MOST_FREEDOM: Final = 60


@dataclass(frozen=True, slots=True)
class Sample:
    """One measurement of a cell.

    Attributes:
        level: mean of the deciding figure's logarithm over the windows, turned so that more is better.
        spread2: variance of one window's logarithm; None = there was one value only.
        independent: number of independent windows.
        settled: no gate flagged the machine as disturbed.
    """

    level: float
    spread2: float | None
    independent: float
    settled: bool = True


@dataclass(frozen=True, slots=True)
class Level:
    """What all measurements of a cell say.

    Attributes:
        value: a logarithm, more is better. variance: of it. freedom: degrees of freedom of the variance.
        times: number of measurements that say it.
        settled: none of them was made on a disturbed machine.
    """

    value: float
    variance: float
    freedom: float
    times: int
    settled: bool


def sample_of(record: Mapping[str, Any]) -> Sample | None:
    """A record as a sample of what decides its phase; None when it has no such figure.

    What gate ``stable`` flags counts as settled: a short measurement's uncertainty is known here, and counted.
    """
    settled = all(gate["gate"] == "stable" for gate in failed_gates(record, "unsettled"))
    metric = deciding(record)
    logs = metric.logs(record)
    if not logs:
        return None
    sign = 1.0 if metric.better == "higher" else -1.0
    if len(logs) < 2:
        return Sample(sign * logs[0], None, 1.0, settled)
    return Sample(sign * math.fsum(logs) / len(logs), statistics.variance(logs), effective_count(logs), settled)


def levels(samples: Mapping[int, Sequence[Sample]], kinds: Mapping[int, Hashable]) -> dict[int, Level]:
    """What is known of each measured cell.

    A handful of windows says little about how much they scatter, so that a cell's variance is moderated by that of its
    kind, and a kind's by that of all (Smyth 2004). What repeated measurements of a cell differ by beyond their windows
    is estimated over all cells, and added; a cell that differs by more than that is known less well (Birge 1932).

    What was measured on a disturbed machine counts only for cells that have nothing better.

    Args:
        samples: measurements of each cell, oldest first.
        kinds: cells of one kind scatter alike.
    """
    samples = {cell: [sample for sample in own if sample.settled] or own for cell, own in samples.items()}
    priors = _priors(samples, kinds)
    spreads = {cell: _moderated(own, priors[kinds[cell]]) for cell, own in samples.items() if own}
    between2 = _between2(samples, spreads)
    found = {}
    for cell, own in samples.items():
        if not own:
            continue
        spread2, freedom = spreads[cell]
        weights = [1.0 / (spread2 / sample.independent + between2) for sample in own]
        value = math.fsum(w * s.level for w, s in zip(weights, own, strict=True)) / math.fsum(weights)
        surprise = math.fsum(w * (s.level - value) ** 2 for w, s in zip(weights, own, strict=True))
        excess = max(1.0, (_SHARED + surprise) / (_SHARED + len(own) - 1))
        found[cell] = Level(value, excess / math.fsum(weights), freedom, len(own), own[0].settled)
    return found


def chance_above(one: Level, other: Level, by: float) -> float:
    """Chance that ``one`` truly lies above ``other`` by more than ``by`` (logarithms), from Student's t after Welch."""
    variance = one.variance + other.variance
    freedom = variance**2 / (one.variance**2 / one.freedom + other.variance**2 / other.freedom)
    whole = max(1, min(_MOST_FREEDOM, math.floor(freedom)))
    return student_sf((other.value + by - one.value) / math.sqrt(variance), whole)


def _priors(samples: Mapping[int, Sequence[Sample]], kinds: Mapping[int, Hashable]) -> dict[Hashable, float]:
    sums: dict[Hashable, tuple[float, float]] = {}
    for cell, own in samples.items():
        square, freedom = sums.get(kinds[cell], (0.0, 0.0))
        for sample in own:
            if sample.spread2 is not None:
                square += sample.spread2 * (sample.independent - 1.0)
                freedom += sample.independent - 1.0
        sums[kinds[cell]] = (square, freedom)
    known, seen = math.fsum(square for square, _ in sums.values()), math.fsum(freedom for _, freedom in sums.values())
    common = (_SPREAD_WEIGHT * _SPREAD**2 + known) / (_SPREAD_WEIGHT + seen)
    return {kind: (_COMMON * common + square) / (_COMMON + freedom) for kind, (square, freedom) in sums.items()}


def _moderated(own: Sequence[Sample], prior: float) -> tuple[float, float]:
    told = [(sample.spread2, sample.independent - 1.0) for sample in own if sample.spread2 is not None]
    freedom = _SHARED + math.fsum(part for _, part in told)
    return (_SHARED * prior + math.fsum(square * part for square, part in told)) / freedom, freedom


def _between2(samples: Mapping[int, Sequence[Sample]], spreads: Mapping[int, tuple[float, float]]) -> float:
    beyond, count = 0.0, 0
    for cell, own in samples.items():
        for one, other in pairwise(own):
            within = spreads[cell][0] * (1.0 / one.independent + 1.0 / other.independent)
            # Of two measurements each differs from the truth.
            beyond += ((one.level - other.level) ** 2 - within) / 2.0
            count += 1
    return max((_BETWEEN_WEIGHT * _BETWEEN**2 + beyond) / (_BETWEEN_WEIGHT + count), 1e-8)
