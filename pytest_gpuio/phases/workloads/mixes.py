"""Composite workloads: what happens at the same time on one device in production."""

from __future__ import annotations

from typing import Final

from pytest_gpuio.phases.mix import mix
from pytest_gpuio.phases.model import RecordModel
from pytest_gpuio.phases.parameter import Parameter, Value
from pytest_gpuio.phases.records import Records
from pytest_gpuio.phases.workloads import checkpoint_save, cold_start, dataset_media, kv_fetch, kv_offload
from pytest_gpuio.phases.workloads.binding import by_name, model_parameter
from pytest_gpuio.phases.workloads.dataset_media import PROFILES

_KV: Final = (
    model_parameter("llama-3.1-8b"),
    Parameter("granularity", "block", "piece in which the cache is stored", choices=("fragment", "block", "page512")),
    Parameter("trace", "conversation", "whose request sizes", choices=("conversation", "synthetic")),
    Parameter("requests", 64, "requests of a pass", least=1, most=1_000_000),
    Parameter("rate", 0.0, "requests per second, open loop; 0 = closed loop", least=0.0, most=1e6),
)


def _part(part: RecordModel, /, **values: Value) -> Records:
    return part.build(part.values | values)


def fetch_and_offload(**values: Value) -> Records:
    """Prefixes of requests are fetched while the cache of their new tokens is written."""
    return mix(fetch=_part(kv_fetch.MODEL, **values), offload=_part(kv_offload.MODEL, **values))


def start_and_fetch(*, model: str, scale: float, seed: int, **values: Value) -> Records:
    """A server starts while its neighbour fetches prefixes."""
    return mix(
        start=_part(cold_start.MODEL, model=model, scale=scale, seed=seed),
        fetch=_part(kv_fetch.MODEL, model=model, scale=scale, seed=seed, **values),
    )


def save_and_read(*, profile: str, model: str, epochs: int, scale: float, seed: int) -> Records:
    """A checkpoint is saved while the next batches are read."""
    return mix(
        save=_part(checkpoint_save.MODEL, model=model, scale=scale, seed=seed),
        dataset=_part(dataset_media.MODEL, profile=profile, epochs=epochs, scale=scale, seed=seed),
    )


MODELS: Final = (
    RecordModel(
        "inference/mix_kv",
        "Prefixes are fetched while the cache of new tokens is written, on one device.",
        source="inference/kv_prefix_fetch and inference/kv_offload; Mooncake's traces write more than they read.",
        build=by_name(fetch_and_offload),
        deciding="completion",
        parameters=_KV,
        scale=1 / 128,
        bs=2 << 20,
        qd=32,
        writes=True,
    ),
    RecordModel(
        "inference/mix_cold_start",
        "A model is loaded while another server fetches prefixes, on one device.",
        source="inference/cold_start and inference/kv_prefix_fetch; of 87 models in a serving log, three of four "
        "requests want another one than the last.",
        build=by_name(start_and_fetch),
        deciding="completion",
        parameters=_KV,
        scale=1 / 128,
        bs=2 << 20,
        qd=32,
    ),
    RecordModel(
        "pretrain/mix_checkpoint",
        "A checkpoint is saved while batches of the next steps are read, on one device.",
        source="pretrain/checkpoint_ranks and pretrain/dataset_media.",
        build=by_name(save_and_read),
        deciding="utilization",
        parameters=(
            Parameter("profile", "retinanet_b200", "workload and accelerator", choices=tuple(PROFILES)),
            Parameter("model", "mlperf-llama3-8b", "a dense model (gpuio model list), or FILE.toml:NAME"),
            Parameter("epochs", 5, "passes over the data set", least=1, most=1000),
        ),
        scale=1 / 128,
        bs=1 << 20,
        qd=32,
        writes=True,
        durability="fsync",
        note="not an MLPerf submission",
    ),
)
