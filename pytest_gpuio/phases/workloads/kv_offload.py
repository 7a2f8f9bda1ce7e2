"""Key-value cache that no request had before is written out: the new part of each request is one group."""

from __future__ import annotations

from typing import Any, Final

from pytest_gpuio.phases.model import RecordModel
from pytest_gpuio.phases.parameter import Parameter
from pytest_gpuio.phases.records import FSYNC, WRITE, Records
from pytest_gpuio.phases.workloads import kv_pool
from pytest_gpuio.phases.workloads.binding import by_name


def records(
    *,
    trace: str,
    requests: int,
    rate: float,
    cv: float,
    clients: int,
    placement: str,
    fsync: bool,
    scale: float,
    seed: int,
    **shape: Any,
) -> Records:
    """A group per request: its pieces, with LMCache's metadata before each chunk, and a sync of each file if asked."""
    import numpy as np

    draw = np.random.default_rng(seed)
    counts = kv_pool.pieces(kv_pool.NEW[trace], shape["granularity"], requests, scale, draw)
    pool = kv_pool.lay_out(**shape, scale=scale, most=int(counts.max()))
    total = int(counts.sum())
    slot = np.arange(total) % pool.slots if placement == "append" else kv_pool.runs(counts, pool.slots, 1.0, draw)
    file, offset, length, group = kv_pool.requests(pool, counts, slot)
    op = np.full(len(file), WRITE)
    if shape["granularity"] == "chunk":
        file, group, op = (np.repeat(column, 2) for column in (file, group, op))
        offset = np.column_stack([np.zeros_like(offset), offset]).ravel()
        length = np.column_stack([np.full_like(length, kv_pool.METADATA), length]).ravel()
    if fsync:
        keys = np.unique(np.column_stack([group, file]), axis=0)
        end = np.zeros(len(keys), np.int64)
        group, file = np.concatenate([group, keys[:, 0]]), np.concatenate([file, keys[:, 1]])
        offset, length = np.concatenate([offset, end]), np.concatenate([length, end])
        op = np.concatenate([op, np.full(len(keys), FSYNC)])
    times, chain = kv_pool.starts(requests, rate, cv, clients, seed)
    return Records.build(
        pool.files, offset=offset, length=length, op=op, file=file, group=group, time_ns=times, chain=chain,
        stages=("offload",),
    )  # fmt: skip


MODEL: Final = RecordModel(
    "inference/kv_offload",
    "Key-value cache of new tokens is written to storage while decoding goes on.",
    source="Mooncake's traces (new pages of 512 tokens per request: median 5, p99 141 in conversations, so writes "
    "outweigh reads); LMCache's file per chunk: 4 KiB of metadata, then the cache, never synced.",
    build=by_name(records),
    deciding="completion",
    parameters=(
        *kv_pool.SHAPE,
        Parameter("placement", "append", "where new pieces go", choices=("append", "random")),
        Parameter("fsync", False, "sync each file at the end of a request"),
    ),
    scale=1 / 128,
    bs=2 << 20,
    qd=32,
    writes=True,
)
