"""The key-value cache of a model: bytes per token, per layer, and of the pieces in which serving systems store it."""

from __future__ import annotations

from dataclasses import dataclass
from types import MappingProxyType
from typing import TYPE_CHECKING, Final

from pytest_gpuio.core.errors import ConfigError
from pytest_gpuio.phases.models.architecture import DTYPE_BYTES, DTYPES, Architecture

if TYPE_CHECKING:
    from collections.abc import Mapping

#: Tokens of one piece by granularity: vLLM's block, SGLang's page, LMCache's chunk, Mooncake's page.
GRANULARITIES: Final[Mapping[str, int]] = MappingProxyType({"block": 16, "page64": 64, "chunk": 256, "page512": 512})


@dataclass(frozen=True, slots=True)
class KvGeometry:
    """How many bytes one token leaves in the cache of one rank.

    Attributes:
        layers: layers that hold a cache.
        regions: separate regions per layer: 2 (keys and values), or 1 where both come from one latent (MLA).
        region_bytes: bytes of one token in one region.
        window_layers: layers of these that need the last tokens only.
        window: how many tokens these need.
    """

    layers: int
    regions: int
    region_bytes: int
    window_layers: int = 0
    window: int = 0

    @property
    def layer_bytes(self) -> int:
        """Bytes of one token in one layer."""
        return self.regions * self.region_bytes

    @property
    def token_bytes(self) -> int:
        """Bytes of one token in all layers."""
        return self.layers * self.layer_bytes

    @property
    def growing_bytes(self) -> int:
        """Bytes that each token adds for ever, sliding-window layers left out."""
        return (self.layers - self.window_layers) * self.layer_bytes

    def fragment_bytes(self, tokens: int) -> int:
        """Bytes of one region of one layer of so many tokens."""
        return tokens * self.region_bytes


def kv_geometry(model: Architecture, dtype: str = "fp16", tensor_parallel: int = 1) -> KvGeometry:
    """Cache geometry of one rank of a model.

    Key-value heads are spread over tensor-parallel ranks, and copied once there are fewer heads than ranks; the latent
    of MLA is copied to every rank.

    Raises:
        ConfigError: no such type, or the heads cannot be spread so.
    """
    if dtype not in DTYPES:
        raise ConfigError(f"cache type {dtype!r} is none of {', '.join(DTYPES)}.")
    width = DTYPE_BYTES[DTYPES[dtype]]
    if tensor_parallel < 1:
        raise ConfigError(f"tensor parallelism {tensor_parallel} is below 1.")
    if model.kv_lora_rank:
        return KvGeometry(model.layers, 1, (model.kv_lora_rank + model.rope_dim) * width)
    if model.kv_heads % tensor_parallel and tensor_parallel % model.kv_heads:
        raise ConfigError(
            f"{model.kv_heads} key-value heads of {model.name} cannot be spread over {tensor_parallel} ranks: one must "
            "divide the other."
        )
    heads = max(1, model.kv_heads // tensor_parallel)
    return KvGeometry(model.layers, 2, heads * model.head_dim * width, model.window_layers, model.window)
