"""Pre-training: streaming the data set in, and writing checkpoints out."""

from __future__ import annotations

from typing import Final

from pytest_gpuio.phases.workload import Workload

WORKLOADS: Final = (
    Workload(
        "pretrain/dataset_read",
        "A data loader streams sharded samples: sequential 1 MiB reads.",
        order="sequential",
        bs=1 << 20,
        qd=8,
        source="WebDataset tar shards are read as one sequential stream each; 1 MiB and depth 8 are the defaults of "
        "DeepSpeed's asynchronous I/O (block_size, queue_depth).",
    ),
    Workload(
        "pretrain/checkpoint_save",
        "A rank saves its checkpoint and waits until it is durable: sequential 1 MiB writes, then fsync.",
        order="sequential",
        bs=1 << 20,
        qd=8,
        read_percent=0,
        durability="fsync",
        round="region",
        source="PyTorch's distributed checkpoint writes one file per rank and syncs it (sync_files); block size and "
        "depth as DeepSpeed's asynchronous I/O. Without the fsync the page cache is measured (mlcommons/storage#397).",
    ),
)
