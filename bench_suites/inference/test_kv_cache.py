"""Key-value cache of conversations: fetched before a request can go on, and written out."""

import pytest


@pytest.mark.workload("inference/kv_prefix_fetch")
def test_fetch(gpuio):
    gpuio.run()


@pytest.mark.workload("inference/kv_offload")
def test_offload(gpuio):
    gpuio.run()
