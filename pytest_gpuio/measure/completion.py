"""What the groups of a model came to: completion, stalls, seconds of ranks, and the deciding metric."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from typing import TYPE_CHECKING

from pytest_gpuio.measure.records import ReplaySet
from pytest_gpuio.measure.totals import Totals
from pytest_gpuio.phases.parameter import spell
from pytest_gpuio.phases.slo import slo_report
from pytest_gpuio.phases.stall import Stall, stall
from pytest_gpuio.results.record import Completion, Deciding, KernelSteps, Ranks, Replayed, StallRecord

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
    took = (results[:, :, _END] - results[:, :, _DUE]).ravel().astype(np.int64)
    completion = slo_report(np.maximum(took, 0)).as_json()
    ranks = _ranks(records, results, replay.processes)
    kernel = None not in alone_ns
    stalls = [_stall(records, window, kernel=kernel) for window in results]
    known = [found for found in stalls if found is not None]
    stalled: StallRecord | None = None
    if known:
        used = [found.utilization for found in known if found.utilization is not None]
        stalled = {
            "utilization": statistics.fmean(used) if used else None,
            "compute_s": sum(found.compute_s for found in known),
            "stall_s": sum(found.stall_s for found in known),
            "longest_stall_s": max(found.longest_stall_s for found in known),
            "steps_per_s": statistics.fmean(found.steps_per_s for found in known),
        }
        if kernel:
            stalled["kernel"] = _kernel_steps(records, results, [ns for ns in alone_ns if ns is not None])
    moved = totals.bytes / 1e9
    figures: Completion = {
        "groups": completion["groups"],
        "mean_ns": completion["mean_ns"],
        "p50_ns": completion["p50_ns"],
        "p95_ns": completion["p95_ns"],
        "p99_ns": completion["p99_ns"],
        "max_ns": completion["max_ns"],
        "over_ms": completion["over_ms"],
    }
    return {
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
        "deciding": _deciding(replay, figures, stalled, ranks, totals),
    }


def _stall(records: Records, window: NDArray[np.uint64], *, kernel: bool) -> Stall | None:
    """Of the slowest chain that computes; None when none does."""
    import numpy as np

    found: list[Stall] = []
    computing = np.bincount(records.chain, weights=records.compute_ns.astype(np.float64), minlength=records.chains)
    for chain in np.flatnonzero(computing > 0)[:10_000]:
        mine = records.chain == chain
        took = window[mine, _COMPUTE].tolist() if kernel else None
        found.append(stall(window[mine, _CONSUME].tolist(), records.compute_ns[mine].tolist(), took))
    return min(found, key=lambda one: (one.utilization is None, one.utilization or 0.0), default=None)


def _kernel_steps(records: Records, results: NDArray[np.uint64], alone_ns: Sequence[float]) -> KernelSteps:
    """Of all steps of all windows, those that were to compute something."""
    import numpy as np

    computes = records.compute_ns > 0
    step = int(np.median(records.compute_ns[computes]))
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
    replay: ReplaySet, completion: Completion, stalled: StallRecord | None, ranks: Ranks, totals: Totals
) -> Deciding:
    kind = replay.model.deciding
    if kind == "utilization" and stalled is not None and stalled["utilization"] is not None:
        return {"metric": "utilization", "value": stalled["utilization"], "unit": "share", "better": "higher"}
    if kind in ("durable", "resident"):
        return {"metric": kind, "value": ranks["max_rank_s"], "unit": "s", "better": "lower"}
    if kind == "completion":
        return {"metric": "completion_p99", "value": completion["p99_ns"] / 1e9, "unit": "s", "better": "lower"}
    return {"metric": "throughput", "value": totals.bytes / totals.seconds, "unit": "B/s", "better": "higher"}
