"""torch.save, torch's distributed checkpoint and safetensors (pytest-gpuio[frameworks]) beside raw data paths."""

import pytest

beside = pytest.mark.parametrize(
    ("datapath", "gpuio_qd"),
    [("torch_save", 1), ("torch_dcp", 1), ("safetensors", 1), ("psync", 1), ("io_uring", 8)],
)


@beside
@pytest.mark.workload("pretrain/checkpoint_ranks[ranks=2]")
def test_save(gpuio):
    gpuio.run()


@beside
@pytest.mark.workload("pretrain/checkpoint_restore[ranks=2]")
def test_restore(gpuio):
    gpuio.run()


@beside
@pytest.mark.workload("inference/cold_start")
def test_cold_start(gpuio):
    gpuio.run()
