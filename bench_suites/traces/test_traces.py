"""Replays a trace of requests or of block I/O: pytest bench_suites/traces --gpuio-workload-param file=PATH."""

import pytest


@pytest.mark.workload("inference/kv_trace")
def test_requests(gpuio):
    gpuio.run()


@pytest.mark.workload("micro/block_trace")
def test_block_io(gpuio):
    gpuio.run()
