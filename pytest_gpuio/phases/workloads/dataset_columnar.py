"""Pre-training on tables: some columns of random row groups, as MLPerf Storage's dlrm reads Parquet."""

from __future__ import annotations

from typing import Final

from pytest_gpuio.phases.files import Files
from pytest_gpuio.phases.model import RecordModel
from pytest_gpuio.phases.parameter import Parameter
from pytest_gpuio.phases.records import Records
from pytest_gpuio.phases.scaling import share
from pytest_gpuio.phases.workloads.binding import by_name, compute_parameter

_ROWS: Final = 6_144
_ROW_BYTES: Final = 761
#: Bytes a row of each column that is read: 27 of 4, 5 of 8, 4 of 2, 4 of 1.
_READ_WIDTHS: Final = (4,) * 27 + (8,) * 5 + (2,) * 4 + (1,) * 4
_COLUMNS: Final = 200
_GROUPS_PER_FILE: Final = 768
#: Magic and length, at the very end of a file; before them the footer, with so many bytes per column chunk.
_TAIL: Final = 8
_CHUNK_ENTRY: Final = 80
_BATCH: Final = 16_384


def records(*, row_groups: int, threads: int, compute_ms: float, scale: float, seed: int) -> Records:
    """Batches of rows; each row group comes as one request per column that is read, each file's footer before it."""
    import numpy as np

    draw = np.random.default_rng(seed)
    count = share(row_groups, scale)
    chunk = np.array(_READ_WIDTHS) * _ROWS
    # Columns that nobody reads lie between those that are, as much before each as before any other.
    gap = (_ROW_BYTES * _ROWS - int(chunk.sum())) // len(chunk)
    within = np.cumsum(chunk + gap) - chunk
    file_of, slot = np.divmod(np.arange(count), _GROUPS_PER_FILE)
    held = np.bincount(file_of)
    footer = 64 + held * _COLUMNS * _CHUNK_ENTRY
    data = held * _ROW_BYTES * _ROWS
    files = Files.of({f"part_{i:05}.parquet": int(n) for i, n in enumerate(data + footer + _TAIL)})
    order = draw.permutation(count)
    batch = np.arange(count) * _ROWS // _BATCH
    # A file's footer is read in the batch that first touches it, before anything else of that batch.
    first = np.sort(np.unique(file_of[order], return_index=True)[1])
    opened = file_of[order][first]
    chunks = len(chunk)
    return Records.build(
        files,
        offset=np.concatenate(
            [
                (data + footer)[opened],
                data[opened],
                np.repeat(slot[order] * _ROW_BYTES * _ROWS, chunks) + np.tile(within, count),
            ]
        ),
        length=np.concatenate([np.full(len(opened), _TAIL), footer[opened], np.tile(chunk, count)]),
        file=np.concatenate([opened, opened, np.repeat(file_of[order], chunks)]),
        group=np.concatenate([batch[first], batch[first], np.repeat(batch, chunks)]),
        # The footer waits for the tail, which says how long it is; a row group waits for what came before it.
        barrier=np.concatenate(
            [np.zeros(len(opened), np.bool_), np.ones(len(opened), np.bool_), np.tile(np.arange(chunks) == 0, count)]
        ),
        chain=0,
        prefetch=threads,
        compute_ns=round(max(compute_ms, 0.0) * 1e6),
        stages=("batch",),
    )


MODEL: Final = RecordModel(
    "pretrain/dataset_columnar",
    "Forty of two hundred columns are read from random row groups of a table.",
    source="MLPerf Storage v3 dlrm: row groups of 6,144 rows of 761 bytes, 40 of 200 columns read as chunks of 6, 12, "
    "24 and 48 KiB, batches of 16,384 rows, 0.375 ms a batch.",
    build=by_name(records),
    deciding="utilization",
    parameters=(
        Parameter("row_groups", 8_192, "row groups of a pass at scale 1", least=1, most=1 << 20),
        Parameter("threads", 4, "readers", least=1, most=1024),
        compute_parameter(0.375, "a batch"),
    ),
    scale=1 / 64,
    bs=64 << 10,
    qd=32,
    note="not an MLPerf submission",
)
