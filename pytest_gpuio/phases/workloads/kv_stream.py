"""A key-value cache that lies on storage: every step reads all earlier rows of every layer, as FlexGen does."""

from __future__ import annotations

from typing import Final

from pytest_gpuio.phases.files import Files
from pytest_gpuio.phases.model import RecordModel
from pytest_gpuio.phases.models import find
from pytest_gpuio.phases.parameter import Parameter
from pytest_gpuio.phases.records import READ, WRITE, Records
from pytest_gpuio.phases.scaling import check_share, share
from pytest_gpuio.phases.workloads.binding import by_name, compute_parameter, model_parameter

_ELEMENT: Final = 2


def records(
    *, model: str, batch: int, prompt: int, generated: int, compute_ms: float, scale: float, seed: int
) -> Records:
    """A group per step and layer: the rows so far of keys and values, then one more row of each.

    At a scale below 1 there are fewer layers and steps; rows and prefixes are as long as they were.
    """
    import numpy as np

    del seed  # nothing is drawn
    check_share(scale)
    architecture = find(model)
    row = batch * architecture.kv_heads * architecture.head_dim * _ELEMENT
    turns = share(architecture.layers * generated, scale)
    layers = max(1, min(architecture.layers, -(-turns // generated)))
    step, layer = np.divmod(np.arange(turns), layers)
    steps = int(step[-1]) + 1
    # Keys and values of a layer: file 2 l and 2 l + 1, rows behind each other.
    names = [f"layer_{index:03}.{part}" for index in range(layers) for part in ("k", "v")]
    prefix = (prompt + step) * row
    zero = np.zeros(turns, np.int64)
    return Records.build(
        Files.of(dict.fromkeys(names, (prompt + steps) * row)),
        offset=np.column_stack([zero, zero, prefix, prefix]).ravel(),
        length=np.column_stack([prefix, prefix, zero + row, zero + row]).ravel(),
        op=np.tile([READ, READ, WRITE, WRITE], turns),
        file=np.column_stack([2 * layer, 2 * layer + 1] * 2).ravel(),
        group=np.repeat(np.arange(turns), 4),
        # The new row is known once the layer has been computed on what was read.
        barrier=np.tile([False, False, True, False], turns),
        stage=np.tile([0, 0, 1, 1], turns),
        chain=0,
        prefetch=1,
        compute_ns=round(max(compute_ms, 0.0) * 1e6),
        stages=("read", "append"),
    )


MODEL: Final = RecordModel(
    "inference/kv_stream",
    "Every decode step reads the whole key-value cache of every layer from storage and appends one row.",
    source="FlexGen's code: a file of rows (batch x heads, head_dim) in fp16 for keys and one for values per layer; "
    "OPT-6.7B at batch 64 has rows of 512 KiB, and a step reads 256 to 511 of them for each that it writes.",
    build=by_name(records),
    deciding="utilization",
    parameters=(
        model_parameter("opt-6.7b"),
        Parameter("batch", 64, "sequences decoded together", least=1, most=65_536),
        Parameter("prompt", 256, "tokens of a prompt", least=1, most=1 << 20),
        Parameter("generated", 256, "tokens decoded", least=1, most=1 << 20),
        compute_parameter(0.0, "a layer"),
    ),
    scale=1 / 1024,
    bs=1 << 20,
    qd=8,
    writes=True,
)
