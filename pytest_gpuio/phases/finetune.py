"""Fine-tuning: loading the base model."""

from __future__ import annotations

from typing import Final

from pytest_gpuio.phases.workload import Workload

WORKLOADS: Final = (
    Workload(
        "finetune/model_load",
        "A whole model is read into memory: sequential 8 MiB reads over the region, once per window.",
        order="sequential",
        bs=8 << 20,
        qd=4,
        round="region",
        source="In Llama-3.1-8B's safetensors the small projections are tensors of 8 MiB (4096 x 1024 in bf16), and "
        "8 MiB is where published single-GPU reads peak (gdsio on PCIe 5 drives); depth 4 is a loader of few threads.",
    ),
)
