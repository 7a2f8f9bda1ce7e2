"""Restoring a checkpoint: every rank reads its files, or those of a rank that is gone."""

from __future__ import annotations

from typing import Any, Final

from pytest_gpuio.phases.model import RecordModel
from pytest_gpuio.phases.objects import Objects
from pytest_gpuio.phases.parameter import Parameter
from pytest_gpuio.phases.records import Records
from pytest_gpuio.phases.workloads import checkpoint
from pytest_gpuio.phases.workloads.binding import by_name, objects_by_name

_METADATA: Final = 4096
#: Small reads of a distributed checkpoint's framing before each tensor.
_DCP_READS: Final = 8


def records(*, container: str, shift: int, scale: float, seed: int, **shape: Any) -> Records:
    """One group per rank: 4 KiB of each file's directory, then tensor after tensor.

    Weights that only the first replica wrote (ZeRO 1 and 2) are read by all replicas.
    """
    import numpy as np

    del seed  # nothing is drawn
    model, ranks = checkpoint.chosen(**shape)
    layouts = checkpoint.lay_out(model, ranks, container, scale)
    columns: list[tuple[Any, ...]] = []
    for place, rank in enumerate(ranks):
        source = ranks[(place + shift) % len(ranks)]
        for index in _read_by(source, layouts, model.parallelism.tensor * model.parallelism.pipeline):
            offset, length = _reads(layouts[index], container)
            full = np.full(len(offset), 1)
            columns.append((offset, length, full * index, full * rank, full * (not layouts[index].model)))
    offset, length, file, owner, stage = (np.concatenate(column) for column in zip(*columns, strict=True))
    readers, group = np.unique(owner, return_inverse=True)
    return Records.build(
        checkpoint.files_of(layouts),
        offset=offset,
        length=length,
        file=file,
        group=group,
        barrier=True,
        stage=stage,
        rank=np.arange(len(readers)),
        stages=("model", "optimizer"),
    )


def _read_by(rank: int, layouts: list[checkpoint.Layout], model_ranks: int) -> list[int]:
    """Files of a rank, and weights of its first replica where it has none of its own."""
    own = [index for index, layout in enumerate(layouts) if layout.rank == rank]
    if any(layouts[index].model for index in own):
        return own
    first = rank % model_ranks
    return [index for index, layout in enumerate(layouts) if layout.rank == first and layout.model] + own


def _reads(layout: checkpoint.Layout, container: str) -> tuple[Any, Any]:
    import numpy as np

    tail = max(layout.size - _METADATA, 0)
    if container != "dcp":
        offset = np.concatenate([[tail], layout.offset])
        return offset, np.concatenate([[layout.size - tail], layout.length])
    small = np.repeat(layout.start, _DCP_READS)
    offset = np.column_stack([small.reshape(-1, _DCP_READS), layout.offset]).ravel()
    ends = np.minimum(_METADATA, layout.size - small).reshape(-1, _DCP_READS)
    return offset, np.column_stack([ends, layout.length]).ravel()


def objects(*, container: str, shift: int, scale: float, seed: int, **shape: Any) -> Objects:
    """The files that each rank reads."""
    del container, seed  # the framework has its own
    model, ranks = checkpoint.chosen(**shape)
    layouts = checkpoint.lay_out(model, ranks, "torch", scale)
    sources = [ranks[(place + shift) % len(ranks)] for place in range(len(ranks))]
    model_ranks = model.parallelism.tensor * model.parallelism.pipeline
    mine = (tuple(_read_by(source, layouts, model_ranks)) for source in sources)
    return Objects("load", checkpoint.object_files(layouts), tuple(found for found in mine if found))


MODEL: Final = RecordModel(
    "pretrain/checkpoint_restore",
    "Ranks of a training run read back weights and optimiser state, tensor by tensor.",
    source="MLPerf Storage checkpointing (rules v3 section 4.7) and DLIO's code; torch.load reads 4 KiB of directory "
    "and then one tensor at a time, a distributed checkpoint 8 times 4 KiB before each tensor.",
    build=by_name(records),
    objects=objects_by_name(objects),
    deciding="resident",
    parameters=(
        *checkpoint.SHAPE,
        Parameter("shift", 0, "ranks by which readers are moved: DLIO's recovery_rank_shift", least=0, most=65_535),
    ),
    scale=1 / 256,
    bs=8 << 20,
    qd=8,
    note="not an MLPerf submission",
)
