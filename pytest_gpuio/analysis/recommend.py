"""Which data path each phase should use on this machine, under the user's limits, and how sure that is."""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, Literal

from pytest_gpuio.analysis.metrics import METRICS, Metric, told
from pytest_gpuio.results.record import failed_gates
from pytest_gpuio.results.runs import RunFile

Confidence = Literal["decided", "too close", "one run"]
#: Bytes per second, and where they come from.
Ceiling = tuple[float, Literal["link", "measured"]]
Record = Mapping[str, Any]

#: Axes that say *what* is asked for; paths and geometry compete within one of them.
SITUATION: Final = ("medium", "target", "workload", "destination", "cache", "durability", "arrivals")
#: Of these, where bytes come from: what a ceiling belongs to.
_PLACE: Final = ("medium", "target", "cache")
#: What relative gains are quoted against, the first that was measured.
BASELINES: Final = ("psync", "libaio")
#: Differences below it are never called decided, however steady the runs were.
LEAST_MARGIN: Final = 0.03
#: Paths that move no data, or are not what they claim: never recommended.
NEVER: Final = frozenset({"null"})


@dataclass(frozen=True, slots=True)
class Limits:
    """What a recommendation must keep; None = no limit.

    Attributes:
        max_cores: cores reserved, pollers' whole ones included.
        p99_ns: p99 latency (response time in an open loop), nanoseconds.
        gpus: number of GPUs that must be fed at once: cores are counted for all of them.
    """

    max_cores: float | None = None
    p99_ns: float | None = None
    gpus: int | None = None

    def broken_by(self, option: Option) -> str | None:
        """Why an option is out, or None."""
        cores = option.cores_reserved * (self.gpus or 1) / max(option.gpus, 1)
        if self.max_cores is not None and cores > self.max_cores:
            return f"takes {cores:.2f} cores of {self.max_cores:g}"
        if self.p99_ns is not None and (option.p99_ns is None or option.p99_ns > self.p99_ns):
            p99 = "unknown" if option.p99_ns is None else f"{option.p99_ns / 1e6:.3g} ms"
            return f"p99 is {p99}, above {self.p99_ns / 1e6:g} ms"
        return None


@dataclass(frozen=True, slots=True)
class Option:
    """One path at one geometry, over all runs that measured it.

    Attributes:
        datapath: effective path. case, axes: of the cell.
        score: of the deciding metric, larger is better (reciprocal where smaller is).
        value: the deciding metric itself.
        spread: relative uncertainty of the score (95 %).
        runs: processes that measured it.
        bytes_per_s, p99_ns, cores_used, cores_reserved, cpu_s_per_gb: medians over the runs.
        gpus: GPUs of the cell, 0 without.
        knobs: effective ones.
    """

    datapath: str
    case: str
    axes: Mapping[str, Any]
    score: float
    value: float
    spread: float
    runs: int
    bytes_per_s: float
    p99_ns: float | None
    cores_used: float
    cores_reserved: float
    cpu_s_per_gb: float | None
    gpus: int
    knobs: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Recommendation:
    """The answer for one situation (medium, workload, destination ...).

    Attributes:
        situation: its axes. phase: of the workload.
        metric: name of the deciding metric; unit, better: of it.
        best: what to use; None when nothing keeps the limits.
        runner_up: best option of another path. margin: by how much the best is better (0.1 = 10 %).
        confidence: ``decided`` (more than the uncertainty of both), ``too close``, or ``one run`` (a single process a
            path, which says nothing about the next one).
        reason: one sentence.
        pareto: options no other beats in both throughput and CPU per GB, fastest first.
        relative: gain over ``baseline`` (0.5 = half as much again); None without a baseline.
        absolute: the same gain as a share of ``ceiling``.
        ceiling: bytes/s: of the device's ``link`` where the record knows it, else the most that anything ``measured``
            on this target reached (in this cache mode); ``ceiling_from`` says which.
        by_path: the best option of every path that keeps the limits, best first: for consumers that know one path only.
        out: options that break a limit, with why.
        unsettled: cases left out because a validity gate flagged them.
        not_measured: data paths with no result here, with the reason where one is known.
    """

    situation: Mapping[str, Any]
    phase: str
    metric: str
    unit: str
    better: str
    best: Option | None
    runner_up: Option | None
    margin: float | None
    confidence: Confidence
    reason: str
    pareto: tuple[Option, ...]
    baseline: Option | None
    relative: float | None
    absolute: float | None
    ceiling: float | None
    ceiling_from: Literal["link", "measured"] | None = None
    by_path: tuple[Option, ...] = ()
    out: Mapping[str, str] = field(default_factory=dict)
    unsettled: tuple[str, ...] = ()
    not_measured: Mapping[str, str] = field(default_factory=dict)


def recommend(runs: Sequence[RunFile], limits: Limits | None = None, metric: str | None = None) -> list[Recommendation]:
    """One recommendation per situation, in the order the phases are lived through.

    Args:
        runs: of one machine.
        limits: that must be kept.
        metric: deciding metric instead of the phase's own.
    """
    limits = limits or Limits()
    groups: dict[tuple[Any, ...], dict[str, list[Record]]] = {}
    for run in runs:
        for case, record in run.cells.items():
            # What another tool said has no CPU truth and no proved path: never a reason to choose one.
            if record["effective"]["datapath"] not in NEVER and "imported" not in record:
                key = tuple(record["axes"].get(axis) for axis in SITUATION)
                groups.setdefault(key, {}).setdefault(case, []).append(record)
    absent, ceilings = _absent(runs), _ceilings(runs)
    found = [
        _one(dict(zip(SITUATION, key, strict=True)), cells, limits, metric, absent, ceilings)
        for key, cells in groups.items()
    ]
    order = {"pretrain": 0, "finetune": 1, "inference": 2}
    return sorted(found, key=lambda one: (order.get(one.phase, 3), str(one.situation["workload"]), str(one.situation)))


def recommend_by_machine(runs: Sequence[RunFile]) -> dict[str, list[Recommendation]]:
    """Recommendations without limits for each machine that has any, by its fingerprint id."""
    by_machine: dict[str, list[RunFile]] = {}
    for run in runs:
        by_machine.setdefault(run.machine_id, []).append(run)
    return {machine: found for machine, own in by_machine.items() if (found := recommend(own))}


def _one(
    situation: Mapping[str, Any],
    cells: Mapping[str, list[Record]],
    limits: Limits,
    metric: str | None,
    absent: Mapping[tuple[str, str], str],
    ceilings: Mapping[tuple[str, ...], Ceiling],
) -> Recommendation:
    phase = str(situation["workload"]).partition("/")[0]
    chosen = METRICS[metric] if metric is not None else deciding(next(iter(cells.values()))[0])
    options: list[Option] = []
    unsettled: list[str] = []
    for case, records in cells.items():
        steady = [record for record in records if not failed_gates(record, "unsettled")]
        if not steady:
            unsettled.append(case)
        elif (option := _option(case, steady, chosen)) is not None:
            options.append(option)
    out = {option.case: why for option in options if (why := limits.broken_by(option)) is not None}
    kept = sorted((o for o in options if o.case not in out), key=lambda option: option.score, reverse=True)
    best_of: dict[str, Option] = {}
    for option in kept:
        best_of.setdefault(option.datapath, option)
    best = kept[0] if kept else None
    runner_up = next((o for o in kept if best is not None and o.datapath != best.datapath), None)
    baseline = _baseline(options)
    ceiling, ceiling_from = ceilings[tuple(str(situation[axis]) for axis in _PLACE)]
    relative = absolute = None
    if best is not None and baseline is not None:
        relative = best.bytes_per_s / baseline.bytes_per_s - 1.0
        absolute = (best.bytes_per_s - baseline.bytes_per_s) / ceiling
    margin = best.score / runner_up.score - 1.0 if best is not None and runner_up is not None else None
    confidence, reason = _confidence(best, runner_up, margin, bool(options), bool(unsettled))
    measured = {option.datapath for option in options} | {cells[case][0]["axes"]["datapath"] for case in unsettled}
    lacking = {
        path: why
        for (path, target), why in absent.items()
        if target == situation["target"] and path not in measured and path not in NEVER
    }
    return Recommendation(
        situation, phase, chosen.name, chosen.unit, chosen.better, best, runner_up, margin, confidence, reason,
        pareto(kept), baseline, relative, absolute, ceiling, ceiling_from, tuple(best_of.values()), out,
        tuple(unsettled), lacking,
    )  # fmt: skip


def deciding(record: Record) -> Metric:
    """The metric that decides a record's phase: what its workload names, else throughput, in an open loop p99."""
    found = told(record)
    if found is not None and found["metric"] in METRICS:
        return METRICS[found["metric"]]
    if found is not None:
        return Metric(
            str(found["metric"]), str(found["metric"]), str(found["unit"]), found["better"],
            lambda one: [own["value"]] if (own := told(one)) is not None else [],
        )  # fmt: skip
    return METRICS["p99" if record.get("open_loop") else "bytes_per_s"]


def _option(case: str, records: Sequence[Record], metric: Metric) -> Option | None:
    logs = [values for record in records if (values := metric.logs(record))]
    if not logs:
        return None
    sign = 1.0 if metric.better == "higher" else -1.0
    levels = [statistics.median(values) for values in logs]
    centre = statistics.median(levels)
    within = max(float(record["windows"]["rel_ci"] or 0.0) for record in records)
    # Between runs: the standard error of their mean, widened as for a handful of values.
    between = 2.5 * statistics.stdev(levels) / math.sqrt(len(levels)) if len(levels) > 1 else 0.0

    def median(read: Metric) -> float | None:
        values = [math.exp(statistics.median(found)) for record in records if (found := read.logs(record))]
        return statistics.median(values) if values else None

    first = records[0]
    return Option(
        datapath=first["effective"]["datapath"],
        case=case,
        axes=first["axes"],
        score=math.exp(sign * centre),
        value=math.exp(centre),
        spread=max(within, between),
        runs=len(logs),
        bytes_per_s=statistics.median(float(record["bytes_per_s"]) for record in records),
        p99_ns=median(METRICS["p99"]),
        cores_used=statistics.median(float(record["cpu"]["cores_used"]) for record in records),
        cores_reserved=statistics.median(float(record["cpu"]["cores_reserved"]) for record in records),
        cpu_s_per_gb=median(METRICS["cpu_reserved_s_per_gb"]),
        gpus=int(first["axes"].get("gpus") or 0),
        knobs=tuple(sorted(first["effective"]["knobs"])),
    )


def pareto(options: Iterable[Option]) -> tuple[Option, ...]:
    """Options that no other beats in throughput without costing more CPU per GB; fastest first."""
    kept: list[Option] = []
    cheapest = math.inf
    for option in sorted(options, key=lambda o: (-o.bytes_per_s, o.cpu_s_per_gb or math.inf)):
        cost = option.cpu_s_per_gb if option.cpu_s_per_gb is not None else math.inf
        if cost < cheapest:
            kept.append(option)
            cheapest = cost
    return tuple(kept)


def saturation(runs: Sequence[RunFile], cpus: int) -> dict[str, float]:
    """How many GPUs each path feeds before the CPU is full, from cells that feed some: CPUs / cores per GPU."""
    found: dict[str, list[float]] = {}
    for run in runs:
        for record in run.cells.values():
            gpus = int(record["axes"].get("gpus") or 0)
            cores = float(record["cpu"]["cores_reserved"])
            if gpus and cores > 0:
                found.setdefault(record["effective"]["datapath"], []).append(cpus / (cores / gpus))
    return {path: statistics.median(values) for path, values in found.items()}


def _baseline(options: Sequence[Option]) -> Option | None:
    for name in BASELINES:
        same = [option for option in options if option.datapath == name]
        if same:
            return max(same, key=lambda option: option.bytes_per_s)
    return None


def _confidence(
    best: Option | None, runner_up: Option | None, margin: float | None, any_option: bool, any_unsettled: bool
) -> tuple[Confidence, str]:
    if best is None:
        if any_option:
            return "too close", "nothing measured keeps the limits"
        return "too close", "every result is unsettled" if any_unsettled else "no result has the deciding metric"
    if runner_up is None or margin is None:
        return "one run" if best.runs < 2 else "decided", f"{best.datapath} is the only path with a result"
    unsure = max(LEAST_MARGIN, math.hypot(best.spread, runner_up.spread))
    told = f"{best.datapath} beats {runner_up.datapath} by {margin:.1%}"
    if margin <= unsure:
        return "too close", f"{told}, which is within the {unsure:.1%} that runs differ by"
    if min(best.runs, runner_up.runs) < 3:
        return "one run", f"{told}; fewer than three runs each, so the next one may say otherwise"
    return "decided", f"{told} in {min(best.runs, runner_up.runs)} runs or more"


def _ceilings(runs: Sequence[RunFile]) -> dict[tuple[str, ...], Ceiling]:
    """The most a target can give, by :data:`_PLACE`: what its link carries, else the most that was measured."""
    found: dict[tuple[str, ...], Ceiling] = {}
    for run in runs:
        for record in run.cells.values():
            key = tuple(str(record["axes"][axis]) for axis in _PLACE)
            links = [device.get("link_bytes_per_s") for device in record["target"].get("devices", [])]
            # From the page cache bytes come faster than over any link of the device.
            if links and None not in links and record["axes"]["cache"] != "hot":
                found[key] = float(sum(links)), "link"
            elif "imported" not in record and record["effective"]["datapath"] not in NEVER:
                most, source = found.get(key, (0.0, "measured"))
                if source == "measured":
                    found[key] = max(most, float(record["bytes_per_s"])), "measured"
    return found


def _absent(runs: Sequence[RunFile]) -> dict[tuple[str, str], str]:
    """Why paths have no result, by path and target."""
    found: dict[tuple[str, str], str] = {}
    for run in runs:
        told = {**run.skips, **run.failures, **{case: f"void: {v['gate']}" for case, v in run.voids.items()}}
        for case, why in told.items():
            parts = dict(part.split("=", 1) for part in case.split("|") if "=" in part)
            if "datapath" in parts:
                found.setdefault((parts["datapath"], parts.get("target", "default")), why)
    return found
