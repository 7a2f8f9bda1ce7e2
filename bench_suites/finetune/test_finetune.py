"""Fine-tuning: loading the base model."""

import pytest


@pytest.mark.workload("finetune/model_load")
def test_model_load(gpuio):
    gpuio.run()
