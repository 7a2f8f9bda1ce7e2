"""Language models by their architecture numbers: tensors, files, cache and checkpoints, to the byte."""

from __future__ import annotations

from pytest_gpuio.phases.models.architecture import Architecture
from pytest_gpuio.phases.models.cache import GRANULARITIES, KvGeometry, kv_geometry
from pytest_gpuio.phases.models.catalog import find, packaged, read
from pytest_gpuio.phases.models.checkpoint import MLPERF, Checkpoint, Parallelism
from pytest_gpuio.phases.models.lora import adam_state, adapter
from pytest_gpuio.phases.models.safetensors import Shard, manifest
from pytest_gpuio.phases.models.tensors import Tensor, active_parameters, layer_bytes, parameters, tensors

__all__ = [
    "GRANULARITIES",
    "MLPERF",
    "Architecture",
    "Checkpoint",
    "KvGeometry",
    "Parallelism",
    "Shard",
    "Tensor",
    "active_parameters",
    "adam_state",
    "adapter",
    "find",
    "kv_geometry",
    "layer_bytes",
    "manifest",
    "packaged",
    "parameters",
    "read",
    "tensors",
]
