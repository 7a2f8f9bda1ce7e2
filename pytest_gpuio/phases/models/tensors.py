"""The tensors of a model, in the order and under the names of its published files."""

from __future__ import annotations

from functools import lru_cache
from math import prod
from types import MappingProxyType
from typing import TYPE_CHECKING, Final, NamedTuple

from pytest_gpuio.phases.models.architecture import DTYPE_BYTES, DTYPES, Architecture

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

#: DeepSeek's FP8 weights have one scale per square of this edge; MXFP4 has one per this many values.
_FP8_BLOCK: Final = 128
_MXFP4_BLOCK: Final = 32
#: MXFP4 scales pack 32 values of 4 bits into this many bytes.
_MXFP4_BYTES: Final = 16


class Tensor(NamedTuple):
    """One stored tensor.

    Attributes:
        name: as in the published files.
        shape: as stored.
        dtype: safetensors' name of the type.
        params: parameters of the model in it; 0 for scales of quantised weights, twice the elements for packed 4 bits.
    """

    name: str
    shape: tuple[int, ...]
    dtype: str
    params: int

    @property
    def nbytes(self) -> int:
        """Bytes stored."""
        return prod(self.shape) * DTYPE_BYTES[self.dtype]


@lru_cache(maxsize=8)
def tensors(model: Architecture) -> tuple[Tensor, ...]:
    """Every tensor of a model in the order of its state dict (DeepSeek-V3: about 90,000)."""
    return tuple(_FAMILIES[model.family](model))


def parameters(model: Architecture) -> int:
    """Parameters of the model, layers for multi-token prediction left out."""
    return sum(tensor.params for tensor in tensors(model) if not _is_mtp(model, tensor.name))


def active_parameters(model: Architecture) -> int:
    """Parameters that one token's forward pass uses, embedding included: all of them without experts."""
    if not model.experts:
        return parameters(model)
    routed = sum(
        tensor.params for tensor in tensors(model) if ".experts." in tensor.name and not _is_mtp(model, tensor.name)
    )
    return parameters(model) - routed + routed * model.experts_per_token // model.experts


def layer_bytes(model: Architecture) -> int:
    """Bytes of the tensors of the last layer (where first layers differ, most are like the last)."""
    prefix = f"layers.{model.layers - 1}."
    return sum(tensor.nbytes for tensor in tensors(model) if prefix in tensor.name)


def _is_mtp(model: Architecture, name: str) -> bool:
    return any(f"layers.{model.layers + index}." in name for index in range(model.mtp_layers))


def _plain(dtype: str, name: str, *shape: int) -> Tensor:
    return Tensor(name, shape, dtype, prod(shape))


def _llama(model: Architecture, *, qkv_bias: bool = False) -> Iterator[Tensor]:
    dtype, hidden = DTYPES[model.dtype], model.hidden
    queries, keys = model.heads * model.head_dim, model.kv_heads * model.head_dim
    yield _plain(dtype, "model.embed_tokens.weight", model.vocab, hidden)
    for layer in range(model.layers):
        at = f"model.layers.{layer}."
        for projection, width in (("q", queries), ("k", keys), ("v", keys)):
            yield _plain(dtype, f"{at}self_attn.{projection}_proj.weight", width, hidden)
            if qkv_bias:
                yield _plain(dtype, f"{at}self_attn.{projection}_proj.bias", width)
        yield _plain(dtype, f"{at}self_attn.o_proj.weight", hidden, queries)
        if model.experts:
            yield _plain(dtype, f"{at}block_sparse_moe.gate.weight", model.experts, hidden)
            for expert in range(model.experts):
                for part, shape in (
                    ("w1", (model.ffn, hidden)),
                    ("w2", (hidden, model.ffn)),
                    ("w3", (model.ffn, hidden)),
                ):
                    yield _plain(dtype, f"{at}block_sparse_moe.experts.{expert}.{part}.weight", *shape)
        else:
            yield _plain(dtype, f"{at}mlp.gate_proj.weight", model.ffn, hidden)
            yield _plain(dtype, f"{at}mlp.up_proj.weight", model.ffn, hidden)
            yield _plain(dtype, f"{at}mlp.down_proj.weight", hidden, model.ffn)
        yield _plain(dtype, f"{at}input_layernorm.weight", hidden)
        yield _plain(dtype, f"{at}post_attention_layernorm.weight", hidden)
    yield _plain(dtype, "model.norm.weight", hidden)
    if not model.tied_embeddings:
        yield _plain(dtype, "lm_head.weight", model.vocab, hidden)


def _qwen2(model: Architecture) -> Iterator[Tensor]:
    return _llama(model, qkv_bias=True)


def _opt(model: Architecture) -> Iterator[Tensor]:
    dtype, hidden = DTYPES[model.dtype], model.hidden
    yield _plain(dtype, "model.decoder.embed_tokens.weight", model.vocab, hidden)
    yield _plain(dtype, "model.decoder.embed_positions.weight", model.positions, hidden)
    yield _plain(dtype, "model.decoder.final_layer_norm.weight", hidden)
    yield _plain(dtype, "model.decoder.final_layer_norm.bias", hidden)
    for layer in range(model.layers):
        at = f"model.decoder.layers.{layer}."
        for name, rows, columns in (
            ("self_attn.k_proj", hidden, hidden),
            ("self_attn.v_proj", hidden, hidden),
            ("self_attn.q_proj", hidden, hidden),
            ("self_attn.out_proj", hidden, hidden),
            ("fc1", model.ffn, hidden),
            ("fc2", hidden, model.ffn),
        ):
            yield _plain(dtype, f"{at}{name}.weight", rows, columns)
            yield _plain(dtype, f"{at}{name}.bias", rows)
        for name in ("self_attn_layer_norm", "final_layer_norm"):
            yield _plain(dtype, f"{at}{name}.weight", hidden)
            yield _plain(dtype, f"{at}{name}.bias", hidden)


def _gpt_oss(model: Architecture) -> Iterator[Tensor]:
    dtype, hidden, experts = DTYPES[model.dtype], model.hidden, model.experts
    queries, keys = model.heads * model.head_dim, model.kv_heads * model.head_dim
    yield _plain(dtype, "model.embed_tokens.weight", model.vocab, hidden)
    for layer in range(model.layers):
        at = f"model.layers.{layer}."
        yield _plain(dtype, f"{at}self_attn.sinks", model.heads)
        for projection, rows, columns in (
            ("q", queries, hidden),
            ("k", keys, hidden),
            ("v", keys, hidden),
            ("o", hidden, queries),
        ):
            yield _plain(dtype, f"{at}self_attn.{projection}_proj.weight", rows, columns)
            yield _plain(dtype, f"{at}self_attn.{projection}_proj.bias", rows)
        yield _plain(dtype, f"{at}mlp.router.weight", experts, hidden)
        yield _plain(dtype, f"{at}mlp.router.bias", experts)
        for part, rows, columns in (("gate_up_proj", 2 * model.ffn, hidden), ("down_proj", hidden, model.ffn)):
            blocks = -(-columns // _MXFP4_BLOCK)
            values = experts * rows * columns
            name = f"{at}mlp.experts.{part}"
            yield Tensor(f"{name}_blocks", (experts, rows, blocks, _MXFP4_BYTES), "U8", values)
            yield Tensor(f"{name}_scales", (experts, rows, blocks), "U8", 0)
            yield _plain(dtype, f"{name}_bias", experts, rows)
        yield _plain(dtype, f"{at}input_layernorm.weight", hidden)
        yield _plain(dtype, f"{at}post_attention_layernorm.weight", hidden)
    yield _plain(dtype, "model.norm.weight", hidden)
    if not model.tied_embeddings:
        yield _plain(dtype, "lm_head.weight", model.vocab, hidden)


def _fp8(name: str, rows: int, columns: int) -> Iterator[Tensor]:
    yield _plain("F8_E4M3", f"{name}.weight", rows, columns)
    yield Tensor(f"{name}.weight_scale_inv", (-(-rows // _FP8_BLOCK), -(-columns // _FP8_BLOCK)), "F32", 0)


def _gated(name: str, hidden: int, inner: int) -> Iterator[Tensor]:
    yield from _fp8(f"{name}.gate_proj", inner, hidden)
    yield from _fp8(f"{name}.up_proj", inner, hidden)
    yield from _fp8(f"{name}.down_proj", hidden, inner)


def _deepseek_layer(model: Architecture, layer: int) -> Iterator[Tensor]:
    dtype, hidden, at = DTYPES[model.dtype], model.hidden, f"model.layers.{layer}."
    attention = f"{at}self_attn."
    yield from _fp8(f"{attention}q_a_proj", model.q_lora_rank, hidden)
    yield _plain(dtype, f"{attention}q_a_layernorm.weight", model.q_lora_rank)
    yield from _fp8(f"{attention}q_b_proj", model.heads * (model.nope_dim + model.rope_dim), model.q_lora_rank)
    yield from _fp8(f"{attention}kv_a_proj_with_mqa", model.kv_lora_rank + model.rope_dim, hidden)
    yield _plain(dtype, f"{attention}kv_a_layernorm.weight", model.kv_lora_rank)
    yield from _fp8(f"{attention}kv_b_proj", model.heads * (model.nope_dim + model.v_head_dim), model.kv_lora_rank)
    yield from _fp8(f"{attention}o_proj", hidden, model.heads * model.v_head_dim)
    if layer < model.dense_layers:
        yield from _gated(f"{at}mlp", hidden, model.ffn)
    else:
        yield _plain(dtype, f"{at}mlp.gate.weight", model.experts, hidden)
        yield _plain("F32", f"{at}mlp.gate.e_score_correction_bias", model.experts)
        if model.shared_experts:
            yield from _gated(f"{at}mlp.shared_experts", hidden, model.shared_experts * model.expert_ffn)
        for expert in range(model.experts):
            yield from _gated(f"{at}mlp.experts.{expert}", hidden, model.expert_ffn)
    yield _plain(dtype, f"{at}input_layernorm.weight", hidden)
    yield _plain(dtype, f"{at}post_attention_layernorm.weight", hidden)


def _deepseek_v3(model: Architecture) -> Iterator[Tensor]:
    dtype, hidden = DTYPES[model.dtype], model.hidden
    yield _plain(dtype, "model.embed_tokens.weight", model.vocab, hidden)
    for layer in range(model.layers):
        yield from _deepseek_layer(model, layer)
    yield _plain(dtype, "model.norm.weight", hidden)
    yield _plain(dtype, "lm_head.weight", model.vocab, hidden)
    for layer in range(model.layers, model.layers + model.mtp_layers):
        at = f"model.layers.{layer}."
        yield _plain(dtype, f"{at}embed_tokens.weight", model.vocab, hidden)
        yield _plain(dtype, f"{at}enorm.weight", hidden)
        yield _plain(dtype, f"{at}hnorm.weight", hidden)
        yield _plain(dtype, f"{at}eh_proj.weight", hidden, 2 * hidden)
        yield from _deepseek_layer(model, layer)
        yield _plain(dtype, f"{at}shared_head.norm.weight", hidden)
        yield _plain(dtype, f"{at}shared_head.head.weight", model.vocab, hidden)


_FAMILIES: Final[Mapping[str, Callable[[Architecture], Iterator[Tensor]]]] = MappingProxyType(
    {
        "llama": _llama,
        "qwen2": _qwen2,
        "opt": _opt,
        "mixtral": _llama,
        "gpt_oss": _gpt_oss,
        "deepseek_v3": _deepseek_v3,
    }
)
