"""LoRA adapters of a model: two thin matrices beside each projection, and the optimiser's state of both."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pytest_gpuio.core.errors import ConfigError
from pytest_gpuio.phases.models.architecture import DTYPES
from pytest_gpuio.phases.models.tensors import Tensor, tensors

if TYPE_CHECKING:
    from pytest_gpuio.phases.models.architecture import Architecture

_NOT_ADAPTED = ("embed", "lm_head", "experts", "gate.weight", "router", "eh_proj")


def adapter(model: Architecture, rank: int = 16, dtype: str = "bf16") -> tuple[Tensor, ...]:
    """Tensors of an adapter on every projection of every layer (experts and routers are left alone).

    Args:
        model: what is adapted.
        rank: inner width r: each [out, in] projection gets A [r, in] and B [out, r].
        dtype: of the adapter.

    Raises:
        ConfigError: rank below 1 or wider than the model, or no such type.
    """
    if not 1 <= rank <= model.hidden:
        raise ConfigError(f"LoRA rank {rank} is outside 1 .. {model.hidden} (hidden of {model.name}).")
    if dtype not in DTYPES:
        raise ConfigError(f"adapter type {dtype!r} is none of {', '.join(DTYPES)}.")
    made = []
    for tensor in tensors(model):
        if len(tensor.shape) != 2 or not tensor.name.endswith(".weight") or ".layers." not in tensor.name:
            continue
        if any(part in tensor.name for part in _NOT_ADAPTED):
            continue
        out, inner = tensor.shape
        base = f"base_model.model.{tensor.name.removesuffix('.weight')}"
        made.append(Tensor(f"{base}.lora_A.weight", (rank, inner), DTYPES[dtype], rank * inner))
        made.append(Tensor(f"{base}.lora_B.weight", (out, rank), DTYPES[dtype], out * rank))
    return tuple(made)


def adam_state(adapter_tensors: tuple[Tensor, ...]) -> tuple[Tensor, ...]:
    """Adam's two moments in fp32 of each tensor."""
    return tuple(
        Tensor(f"{tensor.name}.{moment}", tensor.shape, "F32", 0)
        for tensor in adapter_tensors
        for moment in ("exp_avg", "exp_avg_sq")
    )
