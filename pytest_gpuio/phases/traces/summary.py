"""What a trace holds, in numbers: for people and JSON."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import numpy as np

from pytest_gpuio.phases.kv_cache.tiers import MISS, Reuse, Tiers
from pytest_gpuio.phases.records import FSYNC
from pytest_gpuio.phases.traces.block_records import sequential_share
from pytest_gpuio.phases.traces.block_trace import OPS, STORAGE_TIER
from pytest_gpuio.phases.traces.request_trace import RequestTrace

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from pytest_gpuio.phases.traces.block_trace import BlockTrace

_QUANTILES: Final = (5, 50, 95, 99)


def summary(trace: RequestTrace | BlockTrace, speed: float = 1.0) -> dict[str, Any]:
    """Counts, spans and distributions of a trace.

    Args:
        trace: as recorded.
        speed: of the replay whose duration is projected.
    """
    kind = "request" if isinstance(trace, RequestTrace) else "block"
    timed = isinstance(trace, RequestTrace) or trace.timed
    span_s = trace.span_ns / 1e9
    common = {
        "path": str(trace.path),
        "format": trace.format,
        "kind": kind,
        "records": len(trace),
        "timed": timed,
        "span_s": span_s if timed else None,
        "speed": speed,
        "projected_s": span_s / speed if timed else None,
        "rate_per_s": (len(trace) - 1) / span_s if span_s > 0 else None,
        "interarrival_cv": _cv(np.diff(trace.time_ns)) if timed else None,
    }
    told = _requests(trace) if isinstance(trace, RequestTrace) else _blocks(trace)
    return common | told | {"notes": list(trace.notes)}


def _requests(trace: RequestTrace) -> dict[str, Any]:
    blocks = None
    if trace.block_ids is not None:
        placed = Reuse.of(trace).place(Tiers())
        per_request = placed.per_request(placed.found != MISS)
        blocks = {
            "tokens": trace.block_tokens,
            "uses": placed.uses,
            "unique": placed.writes,
            "hits": placed.hits,
            "hit_ratio": placed.hit_ratio,
            "requests_with_hits": float(np.mean(per_request > 1)),
        }
    quantum = trace.quantum_ns()
    return {
        "quantum_s": quantum / 1e9 if quantum else None,
        "input_tokens": _distribution(trace.input_tokens),
        "output_tokens": _distribution(trace.output_tokens),
        "blocks": blocks,
    }


def _blocks(trace: BlockTrace) -> dict[str, Any]:
    operations = {
        name: {"count": int(np.count_nonzero(trace.op == op)), "bytes": trace.bytes_of(op)}
        for op, name in enumerate(OPS)
    }
    moves = trace.length[trace.op < FSYNC]
    tiers = None
    if trace.tier is not None:
        tiers = {
            f"Tier-{tier}": {
                name: {
                    "count": int(np.count_nonzero((trace.tier == tier) & (trace.op == op))),
                    "bytes": int(trace.length[(trace.tier == tier) & (trace.op == op)].sum()),
                }
                for op, name in enumerate(OPS[:2])
            }
            for tier in range(STORAGE_TIER + 1)
        }
    extents = trace.extents()
    return {
        "files": len(trace.files),
        "extent_bytes": int(extents.sum()),
        "operations": operations,
        "request_bytes": _distribution(moves) if len(moves) else None,
        "sequential_share": sequential_share(trace),
        "tiers": tiers,
    }


def _distribution(values: NDArray[np.int64]) -> dict[str, int]:
    ordered = np.sort(values)
    at = {f"p{share}": int(ordered[max(0, -(-share * len(ordered) // 100) - 1)]) for share in _QUANTILES}
    return {"total": int(values.sum()), **at, "max": int(ordered[-1])}


def _cv(gaps: NDArray[np.int64]) -> float | None:
    """Standard deviation over mean; None without two gaps or when all arrive at once."""
    if len(gaps) < 2 or not gaps.any():
        return None
    return float(gaps.std() / gaps.mean())
