"""Inference: fetching key-value cache and other small random reads."""

from __future__ import annotations

from typing import Final

from pytest_gpuio.phases.workload import Workload

WORKLOADS: Final = (
    Workload(
        "inference/kv_fetch",
        "Key-value cache blocks of a returning conversation are fetched: random 64 KiB reads.",
        order="random",
        bs=64 << 10,
        qd=32,
        source="A page of 16 tokens of one layer, keys and values, is 64 KiB in Llama-3.1-8B, 70B and 405B "
        "(16 x 2 x 8 heads x 128 x 2 bytes); 32 requests in flight as in published KV-cache benchmarks.",
    ),
    Workload(
        "inference/random_read_4k",
        "Vector search and other look-ups: random 4 KiB reads.",
        order="random",
        bs=4 << 10,
        qd=32,
        source="A DiskANN node of up to 959 float32 dimensions and 64 neighbours fits one 4 KiB sector; beams of "
        "several queries keep tens of reads in flight.",
    ),
)
