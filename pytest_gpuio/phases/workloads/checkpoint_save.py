"""Saving a checkpoint: each rank writes its tensors in order and syncs each file."""

from __future__ import annotations

from typing import Any, Final

from pytest_gpuio.core.errors import CapabilityMissing
from pytest_gpuio.phases.model import RecordModel
from pytest_gpuio.phases.objects import Objects
from pytest_gpuio.phases.parameter import Parameter
from pytest_gpuio.phases.records import FSYNC, WRITE, Records
from pytest_gpuio.phases.workloads import checkpoint
from pytest_gpuio.phases.workloads.binding import by_name, objects_by_name


def records(
    *, container: str, fsync: bool, checkpoints: int, interval_s: float, scale: float, seed: int, **shape: Any
) -> Records:
    """One group per rank and checkpoint: the head of each file, its tensors, its directory, and a sync.

    A rank writes one tensor after the other; pieces of one tensor may overlap, as the kernel's do.
    """
    import numpy as np

    del seed  # nothing is drawn: a checkpoint is what it is
    model, ranks = checkpoint.chosen(**shape)
    layouts = checkpoint.lay_out(model, ranks, container, scale)
    sync = np.zeros(int(fsync), np.int64)
    columns: list[tuple[Any, ...]] = []
    for index, layout in enumerate(layouts):
        first = int(layout.start[0])
        last = int(layout.offset[-1] + layout.length[-1])
        offset = np.concatenate([[0], layout.start, [last], sync])
        # A tensor goes out together with the framing before it.
        length = np.concatenate([[first], layout.offset + layout.length - layout.start, [layout.size - last], sync])
        op = np.full(len(offset), WRITE)
        if fsync:
            op[-1] = FSYNC
        full = np.full(len(offset), 1)
        columns.append((offset, length, op, full * index, full * layout.rank, full * (not layout.model)))
    offset, length, op, file, owner, stage = (np.concatenate(column) for column in zip(*columns, strict=True))
    writers, group = np.unique(owner, return_inverse=True)
    one = len(offset)
    turn = np.repeat(np.arange(checkpoints), one)
    return Records.build(
        checkpoint.files_of(layouts),
        offset=np.tile(offset, checkpoints),
        length=np.tile(length, checkpoints),
        op=np.tile(op, checkpoints),
        file=np.tile(file, checkpoints),
        group=turn * len(writers) + np.tile(group, checkpoints),
        barrier=True,
        stage=np.tile(stage, checkpoints),
        chain=np.tile(np.arange(len(writers)), checkpoints),
        rank=np.arange(len(writers)),
        time_ns=np.repeat(np.arange(checkpoints) * round(interval_s * 1e9), len(writers)) if interval_s else -1,
        stages=("model", "optimizer"),
    )


def objects(
    *, container: str, fsync: bool, checkpoints: int, interval_s: float, scale: float, seed: int, **shape: Any
) -> Objects:
    """The files of each rank.

    Raises:
        CapabilityMissing: checkpoints at given times.
    """
    del container, seed  # the framework has its own
    if interval_s:
        raise CapabilityMissing("frameworks save one checkpoint after the other: leave interval_s at 0.")
    model, ranks = checkpoint.chosen(**shape)
    layouts = checkpoint.lay_out(model, ranks, "torch", scale)
    owners = list(dict.fromkeys(layout.rank for layout in layouts))
    mine = tuple(tuple(at for at, layout in enumerate(layouts) if layout.rank == rank) for rank in owners)
    return Objects("save", checkpoint.object_files(layouts), mine, checkpoints, fsync)


MODEL: Final = RecordModel(
    "pretrain/checkpoint_ranks",
    "Ranks of a training run save weights and optimiser state, tensor by tensor, until all is durable.",
    source="MLPerf Storage checkpointing (rules v3 section 4, llama3_*.yaml) and DLIO's code: tensors of each rank, "
    "one torch.save a file, fsync after each file.",
    build=by_name(records),
    objects=objects_by_name(objects),
    deciding="durable",
    parameters=(
        *checkpoint.SHAPE,
        Parameter("fsync", True, "sync each file after its last byte"),
        Parameter("checkpoints", 1, "how many are saved, over each other", least=1, most=1000),
        Parameter("interval_s", 0.0, "seconds from one to the next; 0 = at once", least=0.0, most=86_400.0),
    ),
    scale=1 / 256,
    bs=8 << 20,
    qd=8,
    writes=True,
    durability="fsync",
    note="not an MLPerf submission",
)
