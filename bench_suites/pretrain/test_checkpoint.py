"""Checkpoints tensor by tensor, rank by rank: saved until durable, restored, and saved while samples are read."""

import pytest


@pytest.mark.workload("pretrain/checkpoint_ranks")
def test_save(gpuio):
    gpuio.run()


@pytest.mark.workload("pretrain/checkpoint_restore", "pretrain/checkpoint_restore[shift=1]")
def test_restore(gpuio):
    gpuio.run()


@pytest.mark.workload("pretrain/mix_checkpoint")
def test_save_while_reading(gpuio):
    gpuio.run()
