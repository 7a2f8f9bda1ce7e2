"""Ways to load the same weights: a read per tensor, chunks, whole shards, and one of eight tensor-parallel ranks."""

import pytest


@pytest.mark.workload(
    "inference/cold_start[strategy=mmap]",
    "inference/cold_start[strategy=tensor]",
    "inference/cold_start[strategy=shard]",
    "inference/cold_start[strategy=sliced,tensor_parallel=8]",
)
def test_strategy(gpuio):
    gpuio.run()
