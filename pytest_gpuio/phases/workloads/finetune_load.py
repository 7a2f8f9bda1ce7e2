"""Fine-tuning's start: the base model, then the first batches of shuffled samples."""

from __future__ import annotations

from typing import Final

from pytest_gpuio.phases.files import Files
from pytest_gpuio.phases.model import RecordModel
from pytest_gpuio.phases.models import find
from pytest_gpuio.phases.parameter import Parameter
from pytest_gpuio.phases.records import Records
from pytest_gpuio.phases.scaling import share
from pytest_gpuio.phases.workloads import weights
from pytest_gpuio.phases.workloads.binding import by_name, compute_parameter, model_parameter

_LEAST_SAMPLE: Final = 2 << 10
_MOST_SAMPLE: Final = 8 << 10
_DATASET_BYTES: Final = 4 << 30


def records(
    *,
    model: str,
    strategy: str,
    chunk_kib: int,
    streams: int,
    samples: int,
    batch: int,
    workers: int,
    compute_ms: float,
    scale: float,
    seed: int,
) -> Records:
    """One group of all weights, then a group per batch; batches wait for the weights."""
    import numpy as np

    draw = np.random.default_rng(seed)
    held = weights.shards(find(model), scale)
    loading = weights.requests(held, strategy, chunk=chunk_kib << 10, streams=streams)
    of_weights = weights.files_of(held)
    dataset = share(_DATASET_BYTES, scale, 16 * _MOST_SAMPLE)
    files = Files.of(dict(zip(of_weights.names, of_weights.sizes.tolist(), strict=True)) | {"samples.arrow": dataset})
    count = share(samples, scale)
    length = draw.integers(_LEAST_SAMPLE, _MOST_SAMPLE + 1, count)
    offset = draw.integers(0, dataset - length + 1)
    batch_of = np.arange(count) // batch
    steps = int(batch_of[-1]) + 1
    many = len(loading.file)
    return Records.build(
        files,
        offset=np.concatenate([loading.offset, offset]),
        length=np.concatenate([loading.length, length]),
        file=np.concatenate([loading.file, np.full(count, len(held))]),
        group=np.concatenate([np.zeros(many, np.int64), batch_of + 1]),
        barrier=np.concatenate([loading.barrier, np.ones(count, np.bool_)]),
        stage=np.concatenate([np.zeros(many, np.int64), np.ones(count, np.int64)]),
        # A loader that prefetches would not wait for the weights; training does, so the first batches follow them.
        chain=np.concatenate([[0], np.ones(steps, np.int64)]),
        prefetch=np.array([0, workers]),
        compute_ns=np.concatenate([[0], np.full(steps, round(max(compute_ms, 0.0) * 1e6))]),
        stages=("weights", "samples"),
    )


MODEL: Final = RecordModel(
    "finetune/base_load",
    "The base model is loaded, and loaders assemble the first batches of shuffled samples.",
    source="safetensors' format and the published files; samples of 2 to 8 KiB (some hundred tokens of text) out of an "
    "Arrow file in random order, batches of 8.",
    build=by_name(records),
    deciding="resident",
    parameters=(
        model_parameter("llama-3.1-8b"),
        Parameter("strategy", "tensor", "how the weights are read", choices=weights.STRATEGIES[:-1]),
        Parameter("chunk_kib", 2048, "bytes of a read of chunk and shard, in KiB", least=4, most=1 << 20),
        Parameter("streams", 4, "files read side by side by tensor and shard", least=1, most=1024),
        Parameter("samples", 16_384, "samples of a pass at scale 1", least=1, most=1 << 24),
        Parameter("batch", 8, "samples of a step", least=1, most=65_536),
        Parameter("workers", 4, "loaders that assemble batches at the same time", least=1, most=1024),
        compute_parameter(0.0, "a training step"),
    ),
    scale=1 / 32,
    bs=8 << 20,
    qd=8,
)
