"""What cache tiers leave for storage to do, in numbers: for people and JSON."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from pytest_gpuio.phases.kv_cache.projection import completion_ns
from pytest_gpuio.phases.kv_cache.tiers import DRAM, HBM, MISS, STORAGE, Tiers
from pytest_gpuio.phases.slo import slo_report

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pytest_gpuio.phases.kv_cache.traffic import Traffic


def summary(
    traffic: Traffic, sweep_bytes: Sequence[int] = (), device: tuple[float, float] | None = None
) -> dict[str, Any]:
    """Hits by tier, traffic of storage, and what other memory sizes or a device's speed would make of it.

    Args:
        traffic: of a trace, at the speed at which it is to be replayed.
        sweep_bytes: sizes of HBM and DRAM together to compare.
        device: bytes per second and seconds of latency to project the reads on; None = no projection.
    """
    placement, layout, trace = traffic.placement, traffic.layout, traffic.trace
    read, written = traffic.bytes_read(), traffic.bytes_written()
    span_s = trace.span_ns / 1e9
    prefill = traffic.prefill_ns()
    page = trace.block_tokens * layout.geometry.token_bytes
    return {
        "path": str(trace.path),
        "format": trace.format,
        "requests": len(trace),
        "span_s": span_s,
        "token_bytes": layout.geometry.token_bytes,
        "page": {"tokens": trace.block_tokens, "bytes": page},
        "granularity": layout.granularity,
        "layer_wise": layout.planes > 1,
        "tiers": {
            "hbm_pages": placement.tiers.hbm,
            "dram_pages": placement.tiers.dram,
            "storage_pages": placement.tiers.storage,
        },
        "pages": {
            "uses": placement.uses,
            "hits": placement.hits,
            "hit_ratio": placement.hit_ratio,
            "hbm": placement.blocks(HBM),
            "dram": placement.blocks(DRAM),
            "storage": placement.blocks(STORAGE),
            "computed": placement.blocks(MISS),
            "written": placement.writes,
            "storage_share": placement.storage_share,
        },
        "storage": {
            "records": traffic.count(),
            "fetching_requests": int(np.count_nonzero(read)),
            "offloading_requests": int(np.count_nonzero(written)),
            "bytes_read": int(read.sum()),
            "bytes_written": int(written.sum()),
            "read_per_written": float(read.sum() / written.sum()) if written.any() else None,
            "read_bytes_per_s": float(read.sum() / span_s) if span_s else None,
            "written_bytes_per_s": float(written.sum() / span_s) if span_s else None,
        },
        "prefill": {
            "tokens_per_s": traffic.prefill.tokens_per_s,
            "new_tokens": int(placement.new_tokens().sum()),
            "mean_ns": float(prefill.mean()),
            "break_even_bytes_per_s": traffic.prefill.tokens_per_s * layout.geometry.token_bytes,
        },
        "sweep": [_sweep(traffic, size, page) for size in sweep_bytes],
        "projection": None if device is None else _projection(traffic, *device),
        "notes": list(trace.notes),
    }


def _sweep(traffic: Traffic, memory_bytes: int, page: int) -> dict[str, Any]:
    placed = traffic.placement.reuse.place(Tiers(dram=memory_bytes // page))
    span_s = traffic.trace.span_ns / 1e9
    reads, writes = placed.blocks(STORAGE) * page, placed.writes * page
    return {
        "memory_bytes": memory_bytes,
        "pages": memory_bytes // page,
        "storage_share": placed.storage_share,
        "read_per_written": reads / writes if writes else None,
        "read_bytes_per_s": reads / span_s if span_s else None,
        "written_bytes_per_s": writes / span_s if span_s else None,
    }


def _projection(traffic: Traffic, bytes_per_s: float, latency_s: float) -> dict[str, Any] | None:
    read = traffic.bytes_read()
    rows = np.flatnonzero(read)
    if not len(rows):
        return None
    took = completion_ns(traffic.trace.time_ns[rows], read[rows], bytes_per_s, latency_s)
    report = slo_report(took, requests=len(read), prefill_ns=traffic.prefill_ns()[rows])
    return {"bytes_per_s": bytes_per_s, "latency_s": latency_s, "fetch": report.as_json()}
