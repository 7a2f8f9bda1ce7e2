"""The KV cache benchmark of MLPerf Storage v3, each option of its closed division; not an MLPerf submission."""

import pytest


@pytest.mark.workload(
    "inference/kv_objects",
    "inference/kv_objects[option=throughput]",
    "inference/kv_objects[option=large_model]",
)
def test_option(gpuio):
    gpuio.run()
