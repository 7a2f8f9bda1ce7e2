"""Loading a base model tensor by tensor, and the first batches."""

import pytest


@pytest.mark.workload("finetune/base_load")
def test_base_load(gpuio):
    gpuio.run()
