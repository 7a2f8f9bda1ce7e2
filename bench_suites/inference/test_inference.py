"""Inference: fetching KV-cache blocks, and small random reads."""

import pytest


@pytest.mark.workload("inference/kv_fetch")
def test_kv_fetch(gpuio):
    gpuio.run()


@pytest.mark.workload("inference/random_read_4k")
def test_random_read_4k(gpuio):
    gpuio.run()
