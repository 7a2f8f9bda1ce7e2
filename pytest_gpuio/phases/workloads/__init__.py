"""The record models: one file per workload, each with its source, its parameters and what decides it."""

from __future__ import annotations

from typing import Final

from pytest_gpuio.phases.model import RecordModel
from pytest_gpuio.phases.workloads import (
    adapter_checkpoint,
    block_trace,
    checkpoint_async,
    checkpoint_restore,
    checkpoint_save,
    cold_start,
    dataset_columnar,
    dataset_media,
    dataset_text,
    finetune_load,
    kv_fetch,
    kv_mlperf,
    kv_offload,
    kv_stream,
    kv_trace,
    mixes,
    optimizer_offload,
    vector_read,
    weights_stream,
)

MODELS: Final[tuple[RecordModel, ...]] = (
    dataset_text.MODEL,
    dataset_media.MODEL,
    dataset_columnar.MODEL,
    checkpoint_save.MODEL,
    checkpoint_async.MODEL,
    checkpoint_restore.MODEL,
    finetune_load.MODEL,
    adapter_checkpoint.MODEL,
    optimizer_offload.MODEL,
    cold_start.MODEL,
    kv_fetch.MODEL,
    kv_offload.MODEL,
    kv_mlperf.MODEL,
    kv_trace.MODEL,
    weights_stream.MODEL,
    kv_stream.MODEL,
    vector_read.MODEL,
    *mixes.MODELS,
    block_trace.MODEL,
)
