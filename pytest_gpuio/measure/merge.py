"""One cell's observations on several ranks as one: windows from first start to last end, sums, each share."""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from pytest_gpuio.measure.binned import pack, unpack
from pytest_gpuio.measure.gates.verdict import GateResult
from pytest_gpuio.results.record import HostRank, HostRanks, Straggler

#: Below this share of the median rank's rate a rank is named as a straggler.
STRAGGLES: Final = 0.9
#: Share of a window by which starts may lie apart.
OUT_OF_STEP: Final = 0.1
_SUMS: Final = (
    "ios", "reads", "writes", "bytes", "errors", "short_ios", "syncs", "sync_ns", "cpu_ns", "user_ns", "system_ns",
    "minor_faults", "major_faults", "voluntary_switches", "involuntary_switches", "steady_ios", "steady_lat_ns",
    "max_in_flight", "verified", "bad", "scheduled", "late", "total_ios", "total_lat_ns", "max_total", "copies",
    "copied_bytes",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class RankPart:
    """What one rank observed.

    Attributes:
        rank: number. host: its name. machine: id of its kernel's boot, the same for all ranks of one machine.
        outcome: the child's observations. target: path it worked on. counted: devices whose counters are in it.
        offset_ns: the host's CLOCK_MONOTONIC less rank 0's. uncertainty_ns: how far that may be off, either way.
        drift_ns: change of the offset from the cell's begin to its end.
    """

    rank: int
    host: str
    machine: str
    outcome: Mapping[str, Any]
    target: str
    counted: tuple[str, ...]
    offset_ns: int = 0
    uncertainty_ns: int = 0
    drift_ns: int = 0


def merge_outcomes(parts: Sequence[RankPart]) -> dict[str, Any]:
    """The outcome of all ranks, in the form of one; times are rank 0's clock's.

    What a kernel counts for the whole machine (interrupts, steal, block-layer counters) is taken once per machine. What
    cannot be added up (placement, surroundings, the control of the CPU account) is rank 0's.

    Raises:
        ValueError: ranks measured different numbers of windows.
    """
    outcomes = [part.outcome for part in parts]
    if len({len(outcome["windows"]) for outcome in outcomes}) != 1:
        raise ValueError("ranks measured different numbers of windows")
    first = outcomes[0]
    gpu = first.get("gpu")
    return {
        **first,
        "windows": [
            _merge_windows([_moved(window, part.offset_ns) for window, part in zip(row, parts, strict=True)])
            for row in zip(*(outcome["windows"] for outcome in outcomes), strict=True)
        ],
        "latency": {name: _merge_latency([o["latency"][name] for o in outcomes]) for name in first["latency"]},
        "threads": [
            # Thread ids are of other processes, on other machines.
            thread | ({} if part.rank == 0 else {"tid": None})
            for part in parts
            for thread in part.outcome["threads"]
        ],
        "cpu": _merge_cpu(parts),
        "counters": _merge_counters(parts),
        "called_bytes": _total(outcome.get("called_bytes") for outcome in outcomes),
        "interrupts": _total(part.outcome["interrupts"] for part in _one_per_machine(parts)),
        "resident_before": _total(outcome["resident_before"] for outcome in outcomes),
        "resident_after": _total(outcome["resident_after"] for outcome in outcomes),
        "sweep": _merge_sweeps([outcome["sweep"] for outcome in outcomes]),
        "buffers": {name: sum(o["buffers"][name] for o in outcomes) for name in first["buffers"]},
        "knobs": sorted(set.intersection(*(set(outcome["knobs"]) for outcome in outcomes))),
        "ios_per_window": sum(outcome["ios_per_window"] for outcome in outcomes),
        "offered_rate": _total(outcome["offered_rate"] for outcome in outcomes),
        "setup_seconds": max(outcome["setup_seconds"] for outcome in outcomes),
        "warmup": max(outcome["warmup"] for outcome in outcomes),
        "warmup_seconds": max(outcome["warmup_seconds"] for outcome in outcomes),
        **({} if gpu is None else {"gpu": gpu | {"shares": [s for o in outcomes for s in o["gpu"]["shares"]]}}),
    }


def _total(values: Any) -> Any:
    """Sum; None where one is unknown."""
    found = list(values)
    return None if None in found else sum(found)


def _one_per_machine(parts: Sequence[RankPart]) -> list[RankPart]:
    return list({part.machine: part for part in reversed(parts)}.values())[::-1]


def _moved(window: Mapping[str, Any], offset_ns: int) -> dict[str, Any]:
    moved = {name: window[name] - offset_ns for name in ("start_ns", "end_ns")}
    return {**window, **moved}


def _weighed(windows: Sequence[Mapping[str, Any]], part: str, mean: str) -> dict[str, Any]:
    """Requests in flight and rate over the longest rank's steady stretch."""
    longest = max(w[f"{part}_ns"] for w in windows)
    return {
        f"{part}_ns": longest,
        mean: sum(w[mean] * w[f"{part}_ns"] for w in windows) / longest if longest else 0.0,
        f"{part}_rate": sum(w[f"{part}_ios"] for w in windows) * 1e9 / longest if longest else 0.0,
    }


def _merge_windows(windows: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    failed = next((w for w in windows if w["errors"]), windows[0])
    wrong = next((w for w in windows if w["bad"]), windows[0])
    return {
        **windows[0],
        **{name: sum(w[name] for w in windows) for name in _SUMS},
        **_weighed(windows, "steady", "mean_in_flight"),
        **_weighed(windows, "total", "total_in_flight"),
        **{name: failed[name] for name in ("first_error", "first_error_op", "first_error_offset")},
        "first_bad_offset": wrong["first_bad_offset"],
        "start_ns": min(w["start_ns"] for w in windows),
        "end_ns": max(w["end_ns"] for w in windows),
        "clock_ppm": max(w["clock_ppm"] for w in windows),
    }


def _merge_latency(values: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    bins: dict[int, int] = {}
    for value in values:
        for index, count in unpack(value["bins"]).items():
            bins[index] = bins.get(index, 0) + count
    filled = [value for value in values if value["count"]] or values[:1]
    return {
        **{name: sum(value[name] for value in values) for name in ("count", "overflow", "sum_ns")},
        "min_ns": min(value["min_ns"] for value in filled),
        "max_ns": max(value["max_ns"] for value in filled),
        "bins": pack(dict(sorted(bins.items()))),
    }


def _merge_cpu(parts: Sequence[RankPart]) -> dict[str, Any]:
    accounts = [part.outcome["cpu"] for part in parts]
    machines = [part.outcome["cpu"] for part in _one_per_machine(parts)]
    daemons: dict[tuple[str, int], Mapping[str, Any]] = {}
    for part in parts:
        for daemon in part.outcome["cpu"]["daemons"]:
            seen = daemons.setdefault((part.machine, daemon["pid"]), daemon)
            if daemon["seconds"] > seen["seconds"]:
                daemons[part.machine, daemon["pid"]] = daemon
    ios = [max(sum(w["ios"] for w in part.outcome["windows"]), 1) for part in parts]

    def per_io(name: str) -> float | None:
        values = [account[name] for account in accounts]
        if None in values:
            return None
        return float(sum(value * n for value, n in zip(values, ios, strict=True)) / sum(ios))

    useful = [account["sq_useful_share"] for account in accounts]
    cycles = per_io("cycles_per_io")
    reasons = [account["perf_reason"] for account in accounts if account["perf_reason"]]
    return {
        **accounts[0],
        "runqueue_wait_s": _total(account["runqueue_wait_s"] for account in accounts),
        **{name: _total(account[name] for account in machines) for name in ("steal_s", "irq_s", "softirq_s")},
        "daemons": list(daemons.values()),
        "sq_useful_share": None if None in useful else statistics.fmean(useful),
        "cycles_per_io": cycles,
        "instructions_per_io": None if cycles is None else per_io("instructions_per_io"),
        "perf_reason": None if cycles is not None else reasons[0] if reasons else accounts[0]["perf_reason"],
    }


def _merge_counters(parts: Sequence[RankPart]) -> dict[str, Any] | None:
    """Ranks of one machine that share devices see one another's bytes in them: each set of devices counts once."""
    distinct = {(part.machine, part.counted): part.outcome["counters"] for part in reversed(parts)}
    counters = list(distinct.values())
    if None in counters:
        return None
    return {name: sum(counter[name] for counter in counters) for name in counters[0]}


def _merge_sweeps(sweeps: Sequence[Mapping[str, Any] | None]) -> dict[str, Any] | None:
    known = [sweep for sweep in sweeps if sweep is not None]
    if not known:
        return None
    wrong = next((sweep for sweep in known if sweep["bad"]), known[0])
    sums = {name: sum(sweep[name] for sweep in known) for name in ("checked", "bad")}
    return {**sums, "first_bad": wrong["first_bad"]}


def shares(parts: Sequence[RankPart]) -> HostRanks:
    """What each rank did, who was slowest, and how well their clocks are known."""
    each = [_share(part) for part in parts]
    rows = list(zip(*(part.outcome["windows"] for part in parts), strict=True))
    starts = [[w["start_ns"] - part.offset_ns for w, part in zip(row, parts, strict=True)] for row in rows]
    rates = [one["bytes"] / one["seconds"] if one["bytes"] else one["ios"] / one["seconds"] for one in each]
    median = statistics.median(rates)
    stragglers: list[Straggler] = [
        {"rank": one["rank"], "host": one["host"], "share_of_median_rate": rate / median}
        for one, rate in zip(each, rates, strict=True)
        if rate < STRAGGLES * median
    ]
    return {
        "count": len(parts),
        "hosts": len({part.machine for part in parts}),
        "max_rank_s": statistics.median(max(w["end_ns"] - w["start_ns"] for w in row) / 1e9 for row in rows),
        "min_rank_gb_per_s": min(one["gb_per_s"] for one in each),
        "start_spread_s": max(max(row) - min(row) for row in starts) / 1e9,
        "clock_uncertainty_s": max(part.uncertainty_ns for part in parts) / 1e9,
        "stragglers": stragglers,
        "each": each,
    }


def in_step(found: HostRanks) -> GateResult:
    """Gate of cells on several ranks: windows that hardly overlapped say little about doing it together."""
    share = found["start_spread_s"] / found["max_rank_s"]
    detail = (
        f"ranks began a window up to {found['start_spread_s'] * 1e3:.3g} ms apart, {share:.1%} of one (limit "
        f"{OUT_OF_STEP:.0%}), clocks known to +-{found['clock_uncertainty_s'] * 1e6:.3g} us"
    )
    if share <= OUT_OF_STEP:
        return GateResult("in_step", "unsettled", "passed", detail)
    return GateResult("in_step", "unsettled", "failed", f"{detail}: use longer windows, or quieten the hosts")


def _share(part: RankPart) -> HostRank:
    windows = part.outcome["windows"]
    seconds = sum(w["end_ns"] - w["start_ns"] for w in windows) / 1e9
    moved, cpu = sum(w["bytes"] for w in windows), sum(w["cpu_ns"] for w in windows) / 1e9
    gpu = part.outcome.get("gpu")
    return {
        "rank": part.rank,
        "host": part.host,
        "target": part.target,
        "ios": sum(w["ios"] for w in windows),
        "bytes": moved,
        "seconds": seconds,
        "gb_per_s": moved / 1e9 / seconds,
        "cpu_seconds": cpu,
        "cores_used": cpu / seconds,
        "gpus": [] if gpu is None else [share["ordinal"] for share in gpu["shares"]],
        "clock_offset_s": part.offset_ns / 1e9,
        "clock_uncertainty_s": part.uncertainty_ns / 1e9,
        "clock_drift_s": part.drift_ns / 1e9,
    }
