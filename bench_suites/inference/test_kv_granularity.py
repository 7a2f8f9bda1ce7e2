"""The same prefixes in the pieces of different serving systems: layer fragments, chunks of 256 tokens, pages of 512."""

import pytest


@pytest.mark.workload(
    "inference/kv_prefix_fetch[granularity=fragment]",
    "inference/kv_prefix_fetch[granularity=chunk]",
    "inference/kv_prefix_fetch[granularity=page512]",
)
def test_granularity(gpuio):
    gpuio.run()
