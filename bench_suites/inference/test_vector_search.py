"""Vector search: queries that follow a graph on storage."""

import pytest


@pytest.mark.workload("inference/vector_read")
def test_queries(gpuio):
    gpuio.run()
