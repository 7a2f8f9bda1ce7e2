"""What happens at the same time on one device: fetches beside offloads, and beside a cold start."""

import pytest


@pytest.mark.workload("inference/mix_kv")
def test_fetch_and_offload(gpuio):
    gpuio.run()


@pytest.mark.workload("inference/mix_cold_start")
def test_fetch_during_a_cold_start(gpuio):
    gpuio.run()
