"""Replays a trace of requests: pytest bench_suites/traces --gpuio-workload-param file=PATH."""

import pytest


@pytest.mark.workload("inference/kv_trace")
def test_requests(gpuio):
    gpuio.run()
