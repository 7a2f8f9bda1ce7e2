"""All that follows from a model's architecture numbers, as plain values for reports and JSON."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any

from pytest_gpuio.core.errors import ConfigError
from pytest_gpuio.phases.models.cache import GRANULARITIES, kv_geometry
from pytest_gpuio.phases.models.lora import adam_state, adapter
from pytest_gpuio.phases.models.safetensors import SHARD_BYTES, manifest
from pytest_gpuio.phases.models.tensors import active_parameters, layer_bytes, parameters, tensors

if TYPE_CHECKING:
    from pytest_gpuio.phases.models.architecture import Architecture


def headline(model: Architecture, kv_dtype: str = "fp16") -> dict[str, Any]:
    """What a list of models shows of each; a part of its summary.

    Raises:
        ConfigError: no such type of cache.
    """
    every = tensors(model)
    return {
        "name": model.name,
        "family": model.family,
        "source": model.source,
        "parameters": parameters(model),
        "weights": {"bytes": sum(tensor.nbytes for tensor in every), "tensors": len(every)},
        "kv_cache": {"dtype": kv_dtype, "token_bytes": kv_geometry(model, kv_dtype).token_bytes},
    }


def summary(
    model: Architecture,
    *,
    tensor_parallel: int = 1,
    kv_dtype: str = "fp16",
    lora_rank: int = 16,
    shard_bytes: int = SHARD_BYTES,
) -> dict[str, Any]:
    """Weights, files, cache and adapter of a model, in bytes.

    Args:
        model: which.
        tensor_parallel: ranks over which key-value heads are spread.
        kv_dtype: type of the cache.
        lora_rank: inner width of the adapter.
        shard_bytes: where files are cut.

    Raises:
        ConfigError: a value that does not fit the model.
    """
    every = tensors(model)
    shards = manifest(every, shard_bytes)
    cache = kv_geometry(model, kv_dtype, tensor_parallel)
    lora = adapter(model, lora_rank)
    if not lora:
        raise ConfigError(f"{model.name} has no projection that an adapter could be put on.")
    head = headline(model, kv_dtype)
    return head | {
        "active_parameters": active_parameters(model),
        "weights": head["weights"]
        | {
            "layer_bytes": layer_bytes(model),
            "sizes": [[size, count] for size, count in sorted(Counter(tensor.nbytes for tensor in every).items())],
        },
        "files": {
            "shards": len(shards),
            "bytes": sum(shard.nbytes for shard in shards),
            "largest": max(shard.nbytes for shard in shards),
        },
        "kv_cache": {
            "dtype": kv_dtype,
            "tensor_parallel": tensor_parallel,
            "token_bytes": cache.token_bytes,
            "growing_token_bytes": cache.growing_bytes,
            "layer_token_bytes": cache.layer_bytes,
            "fragment16_bytes": cache.fragment_bytes(16),
            "granularities": {name: tokens * cache.token_bytes for name, tokens in GRANULARITIES.items()},
        },
        "adapter": {
            "rank": lora_rank,
            "tensors": len(lora),
            "bytes": sum(tensor.nbytes for tensor in lora),
            "adam_bytes": sum(tensor.nbytes for tensor in adam_state(lora)),
        },
    }
