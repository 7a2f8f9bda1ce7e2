"""Weights that do not fit: every layer is read from storage in every decode step, as DeepSpeed's ZeRO-Inference has."""

from __future__ import annotations

import re
from typing import Final

from pytest_gpuio.core.errors import ConfigError
from pytest_gpuio.phases.files import Files
from pytest_gpuio.phases.model import RecordModel
from pytest_gpuio.phases.models import find, tensors
from pytest_gpuio.phases.parameter import Parameter
from pytest_gpuio.phases.records import Records
from pytest_gpuio.phases.scaling import thin
from pytest_gpuio.phases.workloads.binding import by_name, compute_parameter, model_parameter

_LAYER: Final = re.compile(r"\.layers\.(\d+)\.(.+)")
#: Smaller tensors stay in memory.
_LEAST: Final = 1 << 20
_PAD: Final = 1024


def records(
    *, model: str, block_kib: int, threads: int, prefetch: int, steps: int, compute_ms: float, scale: float, seed: int
) -> Records:
    """A group per layer and step: all its tensors, a file each, in blocks.

    Raises:
        ConfigError: the model has no tensor that would be swapped.
    """
    import numpy as np

    del seed  # nothing is drawn
    block = block_kib << 10
    pad = _PAD * threads
    named = [
        (int(match[1]), match[2], -(-tensor.nbytes // pad) * pad)
        for tensor in tensors(find(model))
        if (match := _LAYER.search(tensor.name)) and tensor.nbytes >= max(_LEAST, block)
    ]
    if not named:
        raise ConfigError(f"no tensor of a layer of {model} is as large as {max(_LEAST, block):,} bytes.")
    size = thin(np.array([each for *_, each in named], np.int64), scale, block)
    kept = np.flatnonzero(size)
    pieces = -(-size[kept] // block)
    file = np.repeat(np.arange(len(kept)), pieces)
    offset = (np.arange(len(file)) - np.repeat(np.cumsum(pieces) - pieces, pieces)) * block
    layers, group = np.unique(np.array([layer for layer, *_ in named])[kept][file], return_inverse=True)
    one = len(file)
    return Records.build(
        Files.of({f"layer_{named[row][0]:03}/{named[row][1]}": int(size[row]) for row in kept.tolist()}),
        offset=np.tile(offset, steps),
        length=np.tile(np.minimum(block, size[kept][file] - offset), steps),
        file=np.tile(file, steps),
        group=np.repeat(np.arange(steps), one) * len(layers) + np.tile(group, steps),
        chain=0,
        prefetch=prefetch,
        compute_ns=round(max(compute_ms, 0.0) * 1e6),
        stages=("layer",),
    )


MODEL: Final = RecordModel(
    "inference/weights_stream",
    "All layers of a model are read in every decode step, some layers ahead of the compute.",
    source="DeepSpeed's ZeRO-Inference: a file per parameter, blocks of 1 MiB, 8 in flight, padding to 1,024 bytes a "
    "thread, tensors below 1 MiB stay; CHEOPS'25 ran blocks of 16 MiB, 64 in flight, 8 threads.",
    build=by_name(records),
    deciding="utilization",
    parameters=(
        model_parameter("llama-3.1-8b"),
        Parameter("block_kib", 1024, "bytes of a request, in KiB", least=4, most=1 << 20),
        Parameter("threads", 1, "DeepSpeed's thread_count, which decides the padding", least=1, most=1024),
        Parameter("prefetch", 2, "layers ahead of the compute", least=0, most=1000),
        Parameter("steps", 1, "decode steps", least=1, most=100_000),
        compute_parameter(0.0, "a layer"),
    ),
    scale=1 / 32,
    bs=1 << 20,
    qd=8,
)
