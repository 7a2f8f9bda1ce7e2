"""Text of what ``gpuio model`` says."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from pytest_gpuio.phases.models import GRANULARITIES
from pytest_gpuio.report import numbers
from pytest_gpuio.report.numbers import exact_bytes as _bytes

#: Lines of tensor sizes that are shown; the rest is summed up.
_MOST_SIZES: Final = 8


def model_text(found: Mapping[str, Any]) -> str:
    """One model: weights, files, cache and adapter.

    Args:
        found: of :func:`pytest_gpuio.phases.models.summary.summary`.

    Returns:
        Lines that end in a newline.
    """
    weights, files, cache, lora = found["weights"], found["files"], found["kv_cache"], found["adapter"]
    active = found["active_parameters"]
    lines = [f"{found['name']} (family {found['family']}; {found['source']})", ""]
    lines += [f"  parameters        {found['parameters']:,}"]
    if active != found["parameters"]:
        lines += [f"  active per token  {active:,}"]
    lines += [f"  weights           {_bytes(weights['bytes'])} in {weights['tensors']:,} tensors"]
    lines += [f"  one layer         {_bytes(weights['layer_bytes'])}"]
    lines += [f"  files             {files['shards']:,}, the largest of {_bytes(files['largest'])}"]
    shown, rest = weights["sizes"][-_MOST_SIZES:], weights["sizes"][:-_MOST_SIZES]
    lines += ["", "tensors by size"]
    lines += [f"  {count:>8,} x {_bytes(size)}" for size, count in reversed(shown)]
    if rest:
        lines += [f"  {sum(count for _, count in rest):>8,} smaller ones"]
    spread = f", on each of {cache['tensor_parallel']} ranks" if cache["tensor_parallel"] > 1 else ""
    lines += ["", f"key-value cache, {cache['dtype']}{spread}"]
    lines += [f"  per token         {_bytes(cache['token_bytes'])}"]
    if cache["growing_token_bytes"] != cache["token_bytes"]:
        lines += [f"  that keep growing {_bytes(cache['growing_token_bytes'])} (the rest is a sliding window)"]
    lines += [f"  per layer         {_bytes(cache['layer_token_bytes'])} a token"]
    lines += [f"  fragment          {_bytes(cache['fragment16_bytes'])} (16 tokens of one layer, keys or values)"]
    lines += [
        f"  {name:<17} {_bytes(size)} ({GRANULARITIES[name]} tokens)" for name, size in cache["granularities"].items()
    ]
    lines += ["", f"LoRA adapter, rank {lora['rank']}, bf16"]
    lines += [f"  weights           {_bytes(lora['bytes'])} in {lora['tensors']:,} tensors"]
    lines += [f"  Adam's moments    {_bytes(lora['adam_bytes'])} (fp32)"]
    return "".join(f"{line}\n" for line in lines)


def models_text(found: Sequence[Mapping[str, Any]]) -> str:
    """A line per model: parameters, bytes of the weights, tensors, bytes of cache per token."""
    width = max(len(model["name"]) for model in found)
    lines = [f"{'model':<{width}}  {'parameters':>10}  {'weights GB':>10}  {'tensors':>8}  {'KV bytes/token':>14}"]
    for model in found:
        size, tensors = model["weights"]["bytes"], model["weights"]["tensors"]
        lines.append(
            f"{model['name']:<{width}}  {numbers.si(model['parameters']):>10}  {numbers.rate(size / 1e9):>10}  "
            f"{tensors:>8,}  {model['kv_cache']['token_bytes']:>14,}"
        )
    return "".join(f"{line}\n" for line in lines)
