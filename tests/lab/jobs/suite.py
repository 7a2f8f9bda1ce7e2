"""What is measured in the lab: reads and writes in one window, both verified."""

import pytest


@pytest.mark.workload("micro/randrw70")
def test_cell(gpuio):
    gpuio.run()


@pytest.mark.workload("micro/randread")
def test_reads(gpuio):
    gpuio.run()
