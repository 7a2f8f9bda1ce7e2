"""Optimiser state on storage: read, updated and written back in every step."""

import pytest


@pytest.mark.workload("finetune/optimizer_offload")
def test_optimizer_offload(gpuio):
    gpuio.run()
