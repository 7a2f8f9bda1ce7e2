"""``gpuio model``: bytes of a language model's weights, files, key-value cache and adapters."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import Final

from pytest_gpuio.core.errors import ConfigError
from pytest_gpuio.core.sizes import GRAMMAR, parse_size
from pytest_gpuio.phases import models
from pytest_gpuio.phases.models.architecture import DTYPES
from pytest_gpuio.phases.models.safetensors import SHARD_BYTES
from pytest_gpuio.phases.models.summary import headline, summary
from pytest_gpuio.report.model import model_text, models_text
from pytest_gpuio.results import strict_json

_EXAMPLES: Final = """\
examples:

    gpuio model list
    gpuio model info llama-3.1-70b --tp 8
    gpuio model info deepseek-v3 --kv-dtype bf16 --json
    gpuio model info mine.toml:my-7b

A model of one's own is a table in a TOML file; keys that a family does not need are left out:

    [models."my-7b"]
    family = "llama"          # or qwen2, mixtral, deepseek_v3, gpt_oss, opt
    source = "our config.json of 2026-11"
    layers = 32
    hidden = 4096
    ffn = 14336
    heads = 32
    kv_heads = 8
    vocab = 128256
    dtype = "bf16"

Workloads take the same name as their parameter `model`.

exit status: 0 shown, 2 wrong usage, an unknown model or a wrong file
"""


def parser() -> argparse.ArgumentParser:
    """Arguments of ``gpuio model``."""
    result = argparse.ArgumentParser(
        "gpuio model",
        description="Says what follows from a model's architecture numbers: parameters, tensors and files to the byte, "
        "bytes of key-value cache per token and per piece, and an adapter's size. Nothing is downloaded.",
        epilog=_EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    result.add_argument("action", choices=("info", "list"), help="info = one model, list = all of them")
    result.add_argument("name", metavar="NAME", nargs="?", help="model, or FILE.toml:NAME; with list, a TOML file")
    result.add_argument("--tp", metavar="RANKS", type=int, default=1, help="tensor-parallel ranks; default %(default)s")
    result.add_argument(
        "--kv-dtype", choices=tuple(DTYPES), default="fp16", help="type of the key-value cache; default %(default)s"
    )
    result.add_argument("--lora-rank", metavar="R", type=int, default=16, help="inner width; default %(default)s")
    result.add_argument(
        "--shard-size", metavar="SIZE", default=str(SHARD_BYTES), help=f"largest file, default 5GB; {GRAMMAR}"
    )
    result.add_argument("--json", action="store_true", help="write JSON instead of text")
    return result


def run(arguments: argparse.Namespace) -> int:
    """Computes and prints.

    Returns:
        0.

    Raises:
        ConfigError: no such model, a wrong file, or a value that does not fit.
    """
    shard_bytes = parse_size(arguments.shard_size, what="--shard-size")
    if arguments.action == "list":
        chosen = models.packaged() if arguments.name is None else models.read(Path(arguments.name))
        listed = [headline(model, arguments.kv_dtype) for model in chosen.values()]
        sys.stdout.write(strict_json.dumps(listed, indent=1) + "\n" if arguments.json else models_text(listed))
        return 0
    if arguments.name is None:
        raise ConfigError("which model? `gpuio model list` shows those that are known.")
    found = summary(
        models.find(arguments.name),
        tensor_parallel=arguments.tp,
        kv_dtype=arguments.kv_dtype,
        lora_rank=arguments.lora_rank,
        shard_bytes=shard_bytes,
    )
    sys.stdout.write(strict_json.dumps(found, indent=1) + "\n" if arguments.json else model_text(found))
    return 0
