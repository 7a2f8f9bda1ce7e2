"""Micro-workloads for people who think in fio terms: mixes, random writes and every durability mode."""

import pytest


@pytest.mark.workload("micro/*")
def test_micro(gpuio):
    gpuio.run()
