"""Cells and their history key."""

import dataclasses

import pytest

from pytest_gpuio.core.cell import AXES, MEDIA, PHASES, Cell

CELL = Cell(
    suite="test_inference.test_kv_fetch",
    datapath="io_uring",
    medium="nvme_ssd",
    target="default",
    workload="inference/kv_fetch",
    bs=65536,
    qd=32,
    jobs=4,
    submit_batch=8,
)


def test_the_history_key_never_changes():
    # A changed key orphans every stored baseline.
    assert CELL.case == (
        "test_inference.test_kv_fetch|datapath=io_uring|medium=nvme_ssd|target=default|workload=inference/kv_fetch|"
        "destination=host|bs=64k|qd=32|jobs=4|batch=8x1|cache=direct|durability=none|arrivals=closed"
    )


def test_gpus_are_in_the_key_of_gpu_cells_only():
    gpu = dataclasses.replace(CELL, destination="gpu", gpus=2)
    assert gpu.case == CELL.case.replace("destination=host", "destination=gpu") + "|gpus=2"
    assert list(gpu.axes()) == [*AXES, "gpus"]
    assert gpu.workers == 8
    assert CELL.workers == 4


def test_axes_are_complete_and_in_order():
    axes = CELL.axes()
    assert tuple(axes) == AXES
    assert axes["bs"] == 65536
    assert axes["batch"] == "8x1"
    assert CELL.phase == "inference"
    assert CELL.phase in PHASES
    assert CELL.medium in MEDIA


@pytest.mark.parametrize(
    ("field", "value"),
    [(field.name, "other" if isinstance(getattr(CELL, field.name), str) else 7) for field in dataclasses.fields(CELL)],
)
def test_every_field_is_part_of_the_key(field, value):
    assert dataclasses.replace(CELL, **{field: value}).case != CELL.case


def test_a_cell_is_frozen():
    with pytest.raises(dataclasses.FrozenInstanceError):
        CELL.bs = 1


def test_several_ranks_are_the_last_axis():
    import dataclasses

    cell = Cell("s", "psync", "ram", "default", "micro/randread", 4096, 1, 1, gpus=2, destination="gpu")
    assert not cell.case.endswith("ranks=1")
    assert dataclasses.replace(cell, ranks=4).case == cell.case + "|ranks=4"
