"""Key-value cache of a returning conversation is fetched: the hit prefix of each request is one group."""

from __future__ import annotations

from typing import Any, Final

from pytest_gpuio.core.errors import ConfigError
from pytest_gpuio.phases.model import RecordModel
from pytest_gpuio.phases.models import find
from pytest_gpuio.phases.parameter import Parameter
from pytest_gpuio.phases.records import Records
from pytest_gpuio.phases.workloads import kv_pool
from pytest_gpuio.phases.workloads.binding import by_name, compute_parameter

#: Layers whose cache may be on its way while an earlier one is computed.
_LAYERS_AHEAD: Final = 4


def records(
    *,
    trace: str,
    requests: int,
    rate: float,
    cv: float,
    clients: int,
    run: float,
    layerwise: bool,
    compute_ms: float,
    scale: float,
    seed: int,
    **shape: Any,
) -> Records:
    """A group per request, or per layer of it, in the order in which layers are needed.

    Raises:
        ConfigError: layer by layer, but not in fragments.
    """
    import numpy as np

    if layerwise and shape["granularity"] != "fragment":
        raise ConfigError(f"layerwise=on needs granularity=fragment, not {shape['granularity']}.")
    draw = np.random.default_rng(seed)
    counts = kv_pool.pieces(kv_pool.HITS[trace], shape["granularity"], requests, scale, draw)
    pool = kv_pool.lay_out(**shape, scale=scale, most=int(counts.max()))
    slot = kv_pool.runs(counts, pool.slots, run, draw)
    file, offset, length, group = kv_pool.requests(pool, counts, slot)
    times, chain = kv_pool.starts(requests, rate, cv, clients, seed)
    compute_ns = round(max(compute_ms, 0.0) * 1e6)
    prefill_ns = kv_pool.prefill_ns(trace, requests, scale, draw, shape["model"], shape["tensor_parallel"])
    if not layerwise:
        return Records.build(
            pool.files, offset=offset, length=length, file=file, group=group, time_ns=times, compute_ns=compute_ns,
            chain=chain, apart_ns=prefill_ns, stages=("fetch",),
        )  # fmt: skip
    layers = find(shape["model"]).layers
    region = offset // (pool.slots * (pool.piece // pool.requests))
    layer = region * layers // pool.requests
    # Only the first layer of a request has a time; a chain per request, or per client in the closed loop.
    first = np.full((requests, layers), -1)
    first[:, 0] = times
    return Records.build(
        pool.files,
        offset=offset,
        length=length,
        file=file,
        group=group * layers + layer,
        time_ns=first.ravel(),
        compute_ns=compute_ns,
        chain=np.repeat(chain, layers),
        prefetch=_LAYERS_AHEAD,
        stages=("fetch",),
    )


MODEL: Final = RecordModel(
    "inference/kv_prefix_fetch",
    "The cached prefix of each request is fetched before its new tokens can be computed.",
    source="Mooncake's traces (pages of 512 tokens hit per request: median 12, p99 147 in conversations); "
    "granularities of vLLM (fragment, block), SGLang (64 tokens), LMCache (chunk of 256) and Mooncake (512); Gamma "
    "arrivals as ServeGen fits them.",
    build=by_name(records),
    deciding="completion",
    parameters=(
        *kv_pool.SHAPE,
        Parameter("run", 8.0, "mean of pieces that lie one after the other", least=1.0, most=1e6),
        Parameter("layerwise", False, "each layer is due before its compute (fragments only)"),
        compute_parameter(0.0, "a layer (layerwise) or a request"),
    ),
    scale=1 / 128,
    bs=2 << 20,
    qd=32,
)
