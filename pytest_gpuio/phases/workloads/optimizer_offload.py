"""Optimiser state on storage: each step reads, updates and writes back a rank's share, as ZeRO-Infinity does."""

from __future__ import annotations

from typing import Final

from pytest_gpuio.phases.files import Files
from pytest_gpuio.phases.model import RecordModel
from pytest_gpuio.phases.models import find, parameters
from pytest_gpuio.phases.parameter import Parameter
from pytest_gpuio.phases.records import READ, WRITE, Records
from pytest_gpuio.phases.scaling import check_share
from pytest_gpuio.phases.workloads.binding import by_name, compute_parameter, model_parameter

_ELEMENT: Final = 4
_STATE: Final = ("param", "exp_avg", "exp_avg_sq")


def records(
    *,
    model: str,
    data_parallel: int,
    sub_group: int,
    block_kib: int,
    buffers: int,
    gradients: bool,
    steps: int,
    compute_ms: float,
    scale: float,
    seed: int,
) -> Records:
    """A group per sub-group and step: its fp32 weights and moments in blocks, then the same blocks back in place."""
    import numpy as np

    del seed  # nothing is drawn
    check_share(scale)
    block = block_kib << 10
    whole = -(-parameters(find(model)) // data_parallel) * _ELEMENT
    blocks = max(1, round(whole * scale / block))
    per_group = max(1, sub_group * _ELEMENT // block)
    held = np.diff(np.append(np.arange(0, blocks, per_group), blocks))
    kinds = (*_STATE, "grad") if gradients else _STATE
    sizes = {f"group_{index:04}.{kind}": int(n) * block for index, n in enumerate(held) for kind in kinds}
    # Per sub-group: all blocks of each state file; gradients are read only.
    files = np.arange(len(sizes))
    counts = np.repeat(held, len(kinds))
    file = np.repeat(files, counts)
    offset = (np.arange(len(file)) - np.repeat(np.cumsum(counts) - counts, counts)) * block
    back = file % len(kinds) < len(_STATE)
    op = np.concatenate([np.full(len(file), READ), np.full(int(back.sum()), WRITE)])
    file, offset = np.concatenate([file, file[back]]), np.concatenate([offset, offset[back]])
    group = file // len(kinds)
    first = np.zeros(len(file), np.bool_)
    writing = np.flatnonzero(op == WRITE)
    first[writing[np.unique(group[writing], return_index=True)[1]]] = True
    return Records.build(
        Files.of(sizes),
        offset=np.tile(offset, steps),
        length=block,
        op=np.tile(op, steps),
        file=np.tile(file, steps),
        group=np.repeat(np.arange(steps), len(file)) * len(held) + np.tile(group, steps),
        barrier=np.tile(first, steps),
        stage=np.tile(op, steps),
        chain=0,
        prefetch=buffers,
        compute_ns=round(max(compute_ms, 0.0) * 1e6),
        stages=("read", "write"),
    )


MODEL: Final = RecordModel(
    "finetune/optimizer_offload",
    "Each training step reads a rank's optimiser state from storage, updates it and writes it back in place.",
    source="DeepSpeed's ZeRO-Infinity (offload_config, aio): 12 bytes of fp32 weight and moments a parameter and "
    "replica, sub-groups, blocks of 1 MiB, 4 buffers.",
    build=by_name(records),
    deciding="throughput",
    parameters=(
        model_parameter("llama-3.1-8b"),
        Parameter("data_parallel", 8, "ranks over which the state is spread", least=1, most=65_535),
        Parameter("sub_group", 100_000_000, "parameters of a sub-group", least=1, most=1 << 40),
        Parameter("block_kib", 1024, "bytes of a request, in KiB", least=4, most=1 << 20),
        Parameter("buffers", 4, "sub-groups on their way at a time", least=0, most=1000),
        Parameter("gradients", False, "gradients are read from storage too"),
        Parameter("steps", 1, "training steps", least=1, most=100_000),
        compute_parameter(0.0, "the update of a sub-group"),
    ),
    scale=1 / 32,
    bs=1 << 20,
    qd=8,
    writes=True,
)
