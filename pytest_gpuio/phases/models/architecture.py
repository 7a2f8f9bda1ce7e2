"""The architecture: the numbers of a language model that decide the bytes of its weights, cache and checkpoints."""

from __future__ import annotations

import re
from dataclasses import dataclass, fields
from types import MappingProxyType
from typing import TYPE_CHECKING, Final

from pytest_gpuio.core.errors import ConfigError

if TYPE_CHECKING:
    from collections.abc import Mapping

#: Bytes of one element, by the name that safetensors gives a type.
DTYPE_BYTES: Final[Mapping[str, int]] = MappingProxyType(
    {"F64": 8, "F32": 4, "BF16": 2, "F16": 2, "F8_E4M3": 1, "U8": 1}
)
#: The same by the names that people use, for options and TOML.
DTYPES: Final[Mapping[str, str]] = MappingProxyType(
    {"fp32": "F32", "bf16": "BF16", "fp16": "F16", "fp8": "F8_E4M3", "int8": "U8"}
)
_EXPERTS: Final = frozenset({"experts", "experts_per_token"})
_LATENT: Final = frozenset({"q_lora_rank", "kv_lora_rank", "rope_dim", "nope_dim", "v_head_dim"})
#: What each family needs beyond the common numbers; every other number must stay 0.
FAMILIES: Final[Mapping[str, frozenset[str]]] = MappingProxyType(
    {
        "llama": frozenset(),
        "qwen2": frozenset(),
        "opt": frozenset({"positions"}),
        "mixtral": _EXPERTS,
        "gpt_oss": _EXPERTS | {"window", "window_layers"},
        "deepseek_v3": _EXPERTS | _LATENT | {"expert_ffn", "shared_experts", "dense_layers", "mtp_layers"},
    }
)
_MAY_BE_ZERO: Final = frozenset({"window", "window_layers", "dense_layers", "mtp_layers", "shared_experts"})
_NAME: Final = re.compile(r"[a-z0-9][a-z0-9._-]{0,63}", re.ASCII)
#: Far above every model known, far below where a product of four of them leaves 64 bits.
_MOST: Final = 1 << 22


@dataclass(frozen=True, slots=True, kw_only=True)
class Architecture:
    """Architecture numbers, named as in the ``config.json`` of published models where that has a short name.

    Attributes:
        name: lower case, as in ``llama-3.1-8b``.
        family: how its tensors are named and shaped: one of :data:`FAMILIES`.
        source: where the numbers were read.
        layers: transformer layers.
        hidden: width of the residual stream.
        ffn: inner width of the (dense) feed-forward part.
        heads: query heads.
        kv_heads: key-value heads; equal to ``heads`` without grouping.
        head_dim: width of one head; ``hidden // heads`` when 0 is given.
        vocab: rows of the embedding.
        dtype: of the published weights: ``bf16``, ``fp16``, ``fp32``.
        tied_embeddings: the output head is the embedding and not stored twice.
        positions: rows of a learnt position embedding (opt).
        experts: routed experts per layer.
        experts_per_token: of these, used by one token.
        expert_ffn: inner width of one expert where it differs from ``ffn``.
        shared_experts: experts that every token uses.
        dense_layers: first layers without experts.
        mtp_layers: layers for multi-token prediction behind the last.
        q_lora_rank: width of the latent of queries (MLA).
        kv_lora_rank: width of the latent of keys and values (MLA); that is what its cache holds.
        rope_dim: rotary part of a head, cached once per token (MLA).
        nope_dim: other part of a head (MLA).
        v_head_dim: width of a value head (MLA).
        window: tokens that a sliding-window layer looks back.
        window_layers: layers with a sliding window.

    Raises:
        ConfigError: a number that no such model could have, naming the key.
    """

    name: str
    family: str
    source: str
    layers: int
    hidden: int
    ffn: int
    heads: int
    kv_heads: int
    vocab: int
    head_dim: int = 0
    dtype: str = "bf16"
    tied_embeddings: bool = False
    positions: int = 0
    experts: int = 0
    experts_per_token: int = 0
    expert_ffn: int = 0
    shared_experts: int = 0
    dense_layers: int = 0
    mtp_layers: int = 0
    q_lora_rank: int = 0
    kv_lora_rank: int = 0
    rope_dim: int = 0
    nope_dim: int = 0
    v_head_dim: int = 0
    window: int = 0
    window_layers: int = 0

    def __post_init__(self) -> None:
        if _NAME.fullmatch(self.name) is None:
            raise ConfigError(f"model name {self.name!r} is malformed: use up to 64 of a-z, 0-9, '.', '_' and '-'.")
        if self.family not in FAMILIES:
            raise self._refuse("family", f"{self.family!r} is none of {', '.join(FAMILIES)}")
        if self.dtype not in ("bf16", "fp16", "fp32"):
            raise self._refuse("dtype", f"{self.dtype!r} is none of bf16, fp16, fp32")
        if not self.source.strip():
            raise self._refuse("source", "is empty: say where the numbers come from")
        needed = FAMILIES[self.family]
        for field in fields(self):
            value = getattr(self, field.name)
            if field.type != "int":
                continue
            common = field.name in ("layers", "hidden", "ffn", "heads", "kv_heads", "vocab")
            least = 1 if common or (field.name in needed and field.name not in _MAY_BE_ZERO) else 0
            if not least <= value <= _MOST:
                raise self._refuse(field.name, f"{value:,} is outside {least} .. {_MOST:,}")
            if value and not common and field.name != "head_dim" and field.name not in needed:
                raise self._refuse(field.name, f"means nothing in family {self.family!r}: leave it out")
        if not self.head_dim and self.hidden % self.heads:
            raise self._refuse(
                "head_dim", f"is missing, and hidden {self.hidden:,} is no multiple of {self.heads} heads: give it"
            )
        if not self.head_dim:
            object.__setattr__(self, "head_dim", self.hidden // self.heads)
        if self.heads % self.kv_heads:
            raise self._refuse("kv_heads", f"{self.kv_heads} does not divide {self.heads} heads")
        for part, whole in (
            ("experts_per_token", "experts"),
            ("dense_layers", "layers"),
            ("window_layers", "layers"),
        ):
            if getattr(self, part) > getattr(self, whole):
                raise self._refuse(part, f"{getattr(self, part)} is more than {whole}, {getattr(self, whole)}")

    def _refuse(self, key: str, why: str) -> ConfigError:
        return ConfigError(f"model {self.name!r}: {key} {why}.")
