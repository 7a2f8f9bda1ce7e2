"""Checkpoints tensor by tensor: saved by ranks, saved in the background, restored, and saved while samples are read."""

import pytest


@pytest.mark.workload("pretrain/checkpoint_ranks")
def test_save(gpuio):
    gpuio.run()


@pytest.mark.workload("pretrain/checkpoint_restore", "pretrain/checkpoint_restore[shift=1]")
def test_restore(gpuio):
    gpuio.run()


@pytest.mark.workload("pretrain/checkpoint_async")
def test_save_in_the_background(gpuio):
    gpuio.run()


@pytest.mark.workload("pretrain/mix_checkpoint")
def test_save_while_reading(gpuio):
    gpuio.run()
