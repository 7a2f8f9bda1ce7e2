"""Checkpoints by MLPerf Storage's published parameters: one node's ranks, saved and read; not an MLPerf submission."""

import pytest


@pytest.mark.workload(
    "pretrain/checkpoint_ranks",
    "pretrain/checkpoint_ranks[model=mlperf-llama3-70b]",
    "pretrain/checkpoint_ranks[model=mlperf-llama3-405b]",
)
def test_save(gpuio):
    gpuio.run()


@pytest.mark.workload(
    "pretrain/checkpoint_restore",
    "pretrain/checkpoint_restore[model=mlperf-llama3-70b]",
    "pretrain/checkpoint_restore[model=mlperf-llama3-405b]",
)
def test_restore(gpuio):
    gpuio.run()
