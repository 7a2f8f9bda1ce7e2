"""Pre-training: streaming the data set in, and saving checkpoints until they are durable."""

import pytest


@pytest.mark.workload("pretrain/dataset_read")
def test_dataset_read(gpuio):
    gpuio.run()


@pytest.mark.workload("pretrain/checkpoint_save")
def test_checkpoint_save(gpuio):
    gpuio.run()
