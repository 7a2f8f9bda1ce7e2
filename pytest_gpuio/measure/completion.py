"""What the groups of a model came to: completion, stalls, seconds of ranks, and the deciding metric."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from typing import TYPE_CHECKING, cast

from pytest_gpuio.measure.records import ReplaySet
from pytest_gpuio.measure.totals import Totals
from pytest_gpuio.phases.parameter import spell
from pytest_gpuio.phases.slo import slo_report
from pytest_gpuio.phases.stall import Stall, stall
from pytest_gpuio.results.record import (
    Background,
    Completion,
    Deciding,
    KernelSteps,
    Lag,
    Ranks,
    Replayed,
    StallRecord,
)

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from pytest_gpuio.phases.records import Records

_DUE, _START, _END, _CONSUME, _COMPUTE = range(5)


def replayed(
    replay: ReplaySet,
    results: NDArray[np.uint64],
    totals: Totals,
    cpu_s: float,
    alone_ns: Sequence[float | None] = (None, None),
) -> Replayed:
    """The record's block about a model.

    Args:
        replay: what was issued.
        results: of every measured window, shape (windows, groups, 5): due, start, end and consumption in nanoseconds
            after the window's start, and how long the compute lasted.
        totals: of the windows.
        cpu_s: CPU seconds of the windows.
        alone_ns: what a usual step's kernel took alone, before and after; None = computing was time that passed.
    """
    import numpy as np

    records, model = replay.records, replay.model
    took = np.maximum((results[:, :, _END] - results[:, :, _DUE]).astype(np.int64), 0)
    ranks = _ranks(records, results, replay.processes)
    alone = statistics.fmean(ns for ns in alone_ns if ns is not None) if None not in alone_ns else None
    stalls = [_stall(records, window, alone) for window in results]
    known = [one for one in stalls if one is not None]
    stalled: StallRecord | None = None
    if known:
        used = [one.utilization for one in known if one.utilization is not None]
        stalled = {
            "utilization": statistics.fmean(used) if used else None,
            "compute_s": sum(one.compute_s for one in known),
            "stall_s": sum(one.stall_s for one in known),
            "longest_stall_s": max(one.longest_stall_s for one in known),
            "steps_per_s": statistics.fmean(one.steps_per_s for one in known),
        }
        if alone is not None:
            stalled["kernel"] = _kernel_steps(records, results, [ns for ns in alone_ns if ns is not None])
    moved = totals.bytes / 1e9
    figures = _completion(replay, took.ravel(), len(results))
    background = _background(records, took, known) if model.deciding == "stall" else None
    found: Replayed = {
        "model": model.name,
        "parameters": {name: spell(value) for name, value in model.values.items()},
        "note": model.note,
        "records": len(records),
        "groups": records.groups,
        "groups_in_model": replay.all_groups,
        "chains": records.chains,
        "concurrency": model.concurrency,
        "files": len(records.files),
        "file_bytes": records.files.bytes,
        "wanted_bytes": replay.wanted_bytes,
        "moved_bytes": records.bytes_of(),
        "amplification": records.bytes_of() / replay.wanted_bytes,
        "largest_request": replay.largest,
        "timed": records.timed,
        "completion": figures,
        "stall": stalled,
        "ranks": ranks,
        "cpu_s_per_gb": cpu_s / moved if moved > 0 else None,
        "deciding": _deciding(replay, figures, stalled, ranks, background, totals),
    }
    if background is not None:
        found["background"] = background
    if records.timed:
        found["lag"] = lag(records, results)
    return found


def _completion(replay: ReplaySet, took: NDArray[np.int64], windows: int) -> Completion:
    """Of the groups that a first token waits for, else of all; and of each stage that groups have."""
    import numpy as np

    records = replay.records
    apart = np.tile(records.apart_ns, windows)
    waited = apart >= 0
    if replay.model.deciding == "completion" and waited.any():
        figures = slo_report(took[waited], prefill_ns=apart[waited]).as_json()
    else:
        figures = slo_report(took).as_json()
    of_group = np.tile(records.stage[records.first[:-1]], windows)
    stages = {name: took[of_group == number] for number, name in enumerate(records.stages)}
    told = {name: slo_report(times).as_json() for name, times in stages.items() if len(times)}
    if len(told) > 1:
        figures["stages"] = {
            name: {figure: one[figure] for figure in ("groups", "p50_ns", "p99_ns", "max_ns")}
            for name, one in told.items()
        }
    return cast("Completion", figures)


def lag(records: Records, results: NDArray[np.uint64]) -> Lag:
    """How late groups with a time began, after it or after what their chain made them wait for.

    Args:
        records: of which some group has a time.
        results: as :func:`replayed` takes them.
    """
    import numpy as np

    timed = records.time_ns >= 0
    late = np.sort((results[:, timed, _START] - results[:, timed, _DUE]).ravel().astype(np.int64))
    at = {share: int(late[max(0, -(-share * len(late) // 100) - 1)]) for share in (50, 99)}
    return {
        "groups": len(late),
        "p50_ns": max(at[50], 0),
        "p99_ns": max(at[99], 0),
        "max_ns": max(int(late[-1]), 0),
        "within_1ms": float(np.count_nonzero(late <= 1_000_000) / len(late)),
    }


def _background(records: Records, took: NDArray[np.int64], stalls: Sequence[Stall]) -> Background:
    """Saves that go on while steps do: what the steps lose to each, and when it is durable.

    The copy to the host (``apart_ns``) is not emulated: nothing else happens meanwhile, so it adds to both.

    Args:
        records: chains of saves, each computing until the next one.
        took: of every group in each window, shape (windows, groups).
        stalls: of each window's slowest chain.
    """
    import numpy as np

    snapshot_s = max(int(records.apart_ns.max()), 0) / 1e9
    # Which save of its chain each group is: it is over when its last rank is.
    order = np.argsort(records.chain, kind="stable")
    turn = np.empty(records.groups, np.int64)
    counts = np.bincount(records.chain)
    turn[order] = np.arange(records.groups) - np.repeat(np.cumsum(counts) - counts, counts)
    slowest = np.zeros((len(took), int(counts.max())), np.int64)
    for save in range(slowest.shape[1]):
        slowest[:, save] = took[:, turn == save].max(axis=1)
    waits = sum(stall.steps - 1 for stall in stalls)
    return {
        "snapshot_s": snapshot_s,
        "stall_s": snapshot_s + (sum(stall.stall_s for stall in stalls) / waits if waits else 0.0),
        "durable_s": snapshot_s + float(np.median(slowest)) / 1e9,
    }


def _usual_step(records: Records) -> int:
    """Nanoseconds: the median of those that compute."""
    import numpy as np

    return int(np.median(records.compute_ns[records.compute_ns > 0]))


def _stall(records: Records, window: NDArray[np.uint64], alone_ns: float | None) -> Stall | None:
    """Of the slowest chain that computes; None when none does.

    Kernels are to take what they take alone: how well the given time was hit is no matter of the data path's.
    """
    import numpy as np

    found: list[Stall] = []
    wanted = records.compute_ns
    if alone_ns is not None:
        wanted = np.rint(records.compute_ns * (alone_ns / _usual_step(records))).astype(np.int64)
    computing = np.bincount(records.chain, weights=records.compute_ns.astype(np.float64), minlength=records.chains)
    for chain in np.flatnonzero(computing > 0)[:10_000]:
        mine = records.chain == chain
        took = None if alone_ns is None else window[mine, _COMPUTE].tolist()
        found.append(stall(window[mine, _CONSUME].tolist(), wanted[mine].tolist(), took))
    return min(found, key=lambda one: (one.utilization is None, one.utilization or 0.0), default=None)


def _kernel_steps(records: Records, results: NDArray[np.uint64], alone_ns: Sequence[float]) -> KernelSteps:
    """Of all steps of all windows, those that were to compute something."""
    computes = records.compute_ns > 0
    step = _usual_step(records)
    given = float(records.compute_ns[computes].sum()) * len(results)
    took = float(results[:, computes, _COMPUTE].sum())
    alone = statistics.fmean(alone_ns)
    return {
        "step_ns": step,
        "alone_ns": alone,
        "alone_drift": alone_ns[-1] / alone_ns[0],
        "given_s": given / 1e9,
        "took_s": took / 1e9,
        "stretch": took / given / (alone / step),
    }


def _ranks(records: Records, results: NDArray[np.uint64], processes: int) -> Ranks:
    """Seconds of the slowest rank, and GB/s of the one with the lowest, medians over the windows."""
    import numpy as np

    rank_of_group = records.rank[records.chain]
    sizes = np.bincount(rank_of_group, weights=records.group_bytes.astype(np.float64), minlength=records.ranks)
    slowest: list[float] = []
    lowest: list[float] = []
    for window in results:
        ends = np.zeros(records.ranks)
        begins = np.full(records.ranks, np.inf)
        np.maximum.at(ends, rank_of_group, window[:, _END].astype(np.float64))
        np.minimum.at(begins, rank_of_group, window[:, _DUE].astype(np.float64))
        present = sizes > 0
        # Ranks begin at a barrier: the window's start, or what the model lets begin first.
        seconds = np.maximum(ends[present] - begins[present].min(), 1.0) / 1e9
        slowest.append(float(seconds.max()))
        lowest.append(float((sizes[present] / 1e9 / seconds).min()))
    return {
        "count": records.ranks,
        "processes": processes,
        "max_rank_s": statistics.median(slowest),
        "min_rank_gb_per_s": statistics.median(lowest),
    }


def _deciding(
    replay: ReplaySet,
    completion: Completion,
    stalled: StallRecord | None,
    ranks: Ranks,
    background: Background | None,
    totals: Totals,
) -> Deciding:
    kind = replay.model.deciding
    if background is not None:
        return {"metric": "stall", "value": background["stall_s"], "unit": "s", "better": "lower"}
    if kind == "utilization" and stalled is not None and stalled["utilization"] is not None:
        return {"metric": "utilization", "value": stalled["utilization"], "unit": "share", "better": "higher"}
    if kind in ("durable", "resident"):
        return {"metric": kind, "value": ranks["max_rank_s"], "unit": "s", "better": "lower"}
    if kind == "completion":
        return {"metric": "completion_p99", "value": completion["p99_ns"] / 1e9, "unit": "s", "better": "lower"}
    return {"metric": "throughput", "value": totals.bytes / totals.seconds, "unit": "B/s", "better": "higher"}
