"""Cold start: all weights of a model until they are resident."""

import pytest


@pytest.mark.workload("inference/cold_start")
def test_cold_start(gpuio):
    gpuio.run()
