"""Saving checkpoints in the background: a copy to the host holds the steps up, writing goes on while they compute."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Final

from pytest_gpuio.phases.model import RecordModel
from pytest_gpuio.phases.parameter import Parameter
from pytest_gpuio.phases.records import Records
from pytest_gpuio.phases.workloads import checkpoint, checkpoint_save
from pytest_gpuio.phases.workloads.binding import by_name, compute_parameter


def records(*, compute_ms: float, copy_gb_per_s: float, checkpoints: int, **values: Any) -> Records:
    """A chain per rank: save j + 1 starts when the steps after save j begin, and the next copy waits for its end.

    There is one buffer for the copy, as in PyTorch's asynchronous checkpoint: a save that takes longer than the steps
    until the next one makes them wait. The copy itself is not emulated (``apart_ns``): nothing overlaps it.
    """
    import numpy as np

    saves = checkpoint_save.records(checkpoints=checkpoints, interval_s=0.0, **values)
    copied_ns = np.rint(saves.group_bytes.astype(np.float64) / copy_gb_per_s).astype(np.int64)
    return replace(
        saves,
        compute_ns=np.full(saves.groups, round(max(compute_ms, 0.0) * 1e6), np.uint64),
        prefetch=np.ones(saves.chains, np.uint16),
        apart_ns=copied_ns,
    )


MODEL: Final = RecordModel(
    "pretrain/checkpoint_async",
    "Ranks copy their state to the host and save it while the next steps are computed.",
    source="pretrain/checkpoint_ranks (MLPerf Storage's tensors); PyTorch's dcp.async_save, which stages the state in "
    "host memory, writes it in the background, and lets one save be on its way.",
    build=by_name(records),
    deciding="stall",
    parameters=(
        *checkpoint.SHAPE,
        Parameter("fsync", True, "sync each file after its last byte"),
        Parameter("checkpoints", 3, "how many are saved, over each other", least=2, most=1000),
        compute_parameter(500.0, "the steps between two saves"),
        Parameter(
            "copy_gb_per_s", 55.0, "copy of a rank's state to page-locked host memory (PCIe 5 x16: 55)", least=1e-3,
            most=1e5,
        ),
    ),
    scale=1 / 256,
    bs=8 << 20,
    qd=8,
    writes=True,
    durability="fsync",
    note="not an MLPerf submission",
)  # fmt: skip
