"""Key-value cache traffic of real requests: a trace runs through tiers of memory, and what is left reaches storage."""

from __future__ import annotations

from typing import Final

from pytest_gpuio.core.errors import CapabilityMissing, ConfigError
from pytest_gpuio.phases.model import RecordModel
from pytest_gpuio.phases.models import GRANULARITIES, active_parameters, find, kv_geometry
from pytest_gpuio.phases.models.architecture import DTYPES
from pytest_gpuio.phases.parameter import Parameter
from pytest_gpuio.phases.records import Records
from pytest_gpuio.phases.scaling import check_share, share
from pytest_gpuio.phases.workloads.binding import NO_FILE, by_name, model_parameter


def records(
    *,
    file: str,
    model: str,
    granularity: str,
    tensor_parallel: int,
    kv_dtype: str,
    hbm_gib: float,
    dram_gib: float,
    pool_gib: float,
    skip: int,
    speed: float,
    layerwise: bool,
    scale: float,
    seed: int,
) -> Records:
    """A group per request's reads, when it arrives, and one per its writes, when its prefill is over.

    All of the trace runs through the tiers; ``scale`` of its requests, from ``skip`` on, become I/O.

    Raises:
        ConfigError: no file, or a trace whose blocks do not fit the pieces.
        CapabilityMissing: it is a trace of something else than requests.
        TraceError: the file cannot be read.
    """
    # numpy comes with these, and nothing that only lists workloads needs it.
    from pytest_gpuio.phases.kv_cache import Layout, Prefill, Traffic
    from pytest_gpuio.phases.traces import RequestTrace, load

    if file == NO_FILE:
        raise ConfigError(
            "inference/kv_trace replays a file: --gpuio-workload-param file=PATH (Mooncake, Qwen-Bailian, Azure, "
            "BurstGPT or ServeGen; `gpuio trace info PATH` says what it is)."
        )
    check_share(scale)
    trace = load(file)
    if not isinstance(trace, RequestTrace):
        raise CapabilityMissing(
            f"{file} is a trace of I/O ({trace.format}), not of requests: the workload micro/block_trace replays it."
        )
    if skip >= len(trace):
        raise ConfigError(f"skip={skip:,} leaves none of the {len(trace):,} requests of {file}.")
    architecture = find(model)
    layout = Layout(
        kv_geometry(architecture, kv_dtype, tensor_parallel),
        granularity,
        layer_wise=layerwise,
        capacity=round(pool_gib * scale * 2**30),
        seed=seed,
    )
    prefill = Prefill.of_model(active_parameters(architecture), gpus=tensor_parallel)
    traffic = Traffic.of(
        trace.jittered(seed).scaled(speed),
        layout,
        prefill,
        hbm_bytes=round(hbm_gib * 2**30),
        dram_bytes=round(dram_gib * 2**30),
    )
    return traffic.records(skip, share(len(trace) - skip, scale)).records


MODEL: Final = RecordModel(
    "inference/kv_trace",
    "Real requests run through tiers of memory; what reaches storage of their cache is replayed at their times.",
    source="the trace that is named; tiers as Mooncake has them: LRU in HBM and DRAM, everything written through to "
    "storage; prefill at 2 x parameters operations a token and 40 % of an H100's peak.",
    build=by_name(records),
    deciding="completion",
    parameters=(
        Parameter("file", NO_FILE, "trace of requests"),
        model_parameter("llama-3.1-8b"),
        Parameter("granularity", "page512", "piece in which the cache is stored", choices=("fragment", *GRANULARITIES)),
        Parameter("tensor_parallel", 1, "ranks over which heads are spread; this is one of them", least=1, most=1024),
        Parameter("kv_dtype", "fp16", "type of the cache", choices=tuple(DTYPES)),
        Parameter("hbm_gib", 0.0, "tier in GPU memory, in GiB", least=0.0, most=1e6),
        Parameter("dram_gib", 0.0, "tier in host memory, in GiB", least=0.0, most=1e6),
        Parameter("pool_gib", 512.0, "cache on storage at scale 1, in GiB", least=1e-3, most=1e7),
        Parameter("skip", 0, "requests at the start that only fill the tiers", least=0, most=1 << 30),
        Parameter("speed", 1.0, "how many times as fast as in the trace", least=1e-3, most=1e6),
        Parameter("layerwise", False, "each layer is due before its compute"),
    ),
    scale=1 / 512,
    bs=2 << 20,
    qd=32,
    writes=True,
    by_name=True,
)
