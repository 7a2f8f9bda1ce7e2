"""LoRA adapters: saved durably, loaded by popularity."""

import pytest


@pytest.mark.workload("finetune/adapter_checkpoint[loads=0]")
def test_save(gpuio):
    gpuio.run()


@pytest.mark.workload("finetune/adapter_checkpoint[saves=0]")
def test_load(gpuio):
    gpuio.run()
