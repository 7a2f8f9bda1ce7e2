"""What does not fit into memory: weights, or the key-value cache, are read in every decode step."""

import pytest


@pytest.mark.workload("inference/weights_stream")
def test_weights(gpuio):
    gpuio.run()


@pytest.mark.workload("inference/kv_stream")
def test_kv_cache(gpuio):
    gpuio.run()
