"""The vector index of MLPerf Storage's preview: 1,536 dimensions, 64 neighbours; not an MLPerf submission."""

import pytest


@pytest.mark.workload("inference/vector_read")
def test_diskann(gpuio):
    gpuio.run()
