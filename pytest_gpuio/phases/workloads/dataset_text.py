"""Pre-training on tokens: samples of a packed index in random order, as Megatron's loader reads them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from pytest_gpuio.core.errors import ConfigError
from pytest_gpuio.phases.files import Files
from pytest_gpuio.phases.model import RecordModel
from pytest_gpuio.phases.parameter import Parameter
from pytest_gpuio.phases.records import Records
from pytest_gpuio.phases.scaling import share
from pytest_gpuio.phases.workloads.binding import by_name, compute_parameter

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

_SHARD_BYTES: Final = 4 << 30
_DATASET_BYTES: Final = 32 << 30
_MOST_PARTS: Final = 4


def records(
    *,
    sequence: int,
    token_bytes: int,
    samples: int,
    batch: int,
    workers: int,
    short_percent: float,
    compute_ms: float,
    scale: float,
    seed: int,
) -> Records:
    """Batches of samples; a sample is one read, or 2 to 4 where documents are short.

    Each batch is assembled by one loader, which reads one piece after the other; as many are under way as there are
    loaders.

    Raises:
        ConfigError: tokens of another width than 2 or 4 bytes.
    """
    import numpy as np

    if token_bytes not in (2, 4):
        raise ConfigError(f"tokens of {token_bytes} bytes: use 2 (vocabularies below 65,536) or 4.")
    draw = np.random.default_rng(seed)
    count = share(samples, scale)
    # A sample is the sequence and the token after it, which is the last one's target.
    tokens = sequence + 1
    files = _files(share(_DATASET_BYTES, scale, 4 * tokens * token_bytes * _MOST_PARTS))
    parts = np.where(draw.random(count) * 100.0 < short_percent, draw.integers(2, _MOST_PARTS + 1, count), 1)
    row = np.repeat(np.arange(count), parts)
    length = _cut(draw, parts, tokens) * token_bytes
    file = draw.choice(len(files), len(row), p=files.sizes / files.sizes.sum())
    room = (files.sizes[file].astype(np.int64) - length) // token_bytes
    offset = draw.integers(0, room + 1) * token_bytes
    return Records.build(
        files,
        offset=offset,
        length=length,
        file=file,
        group=row // batch,
        barrier=True,
        chain=0,
        prefetch=workers,
        compute_ns=round(max(compute_ms, 0.0) * 1e6),
        stages=("batch",),
    )


def _files(size: int) -> Files:
    whole, rest = divmod(size, _SHARD_BYTES)
    sizes = [_SHARD_BYTES] * whole + ([rest] if rest >= size // 8 else [])
    return Files.of({f"shard_{index:04}.bin": each for index, each in enumerate(sizes)})


def _cut(draw: np.random.Generator, parts: NDArray[np.int64], tokens: int) -> NDArray[np.int64]:
    """Tokens of each part, at least 1, so that a sample's parts make up the whole."""
    import numpy as np

    length = np.full(int(parts.sum()), tokens, np.int64)
    first = np.cumsum(parts) - parts
    for count in range(2, _MOST_PARTS + 1):
        rows = first[parts == count]
        cuts = np.sort(draw.integers(1, tokens - count + 2, (len(rows), count - 1)), axis=1) + np.arange(count - 1)
        edges = np.column_stack([np.zeros(len(rows), np.int64), cuts, np.full(len(rows), tokens)])
        length[rows[:, None] + np.arange(count)] = np.diff(edges, axis=1)
    return length


MODEL: Final = RecordModel(
    "pretrain/dataset_text",
    "A loader assembles batches of token sequences from random places of packed shards.",
    source="Megatron-LM's indexed_dataset reads sequence + 1 tokens of 2 or 4 bytes at a token's offset, in shuffled "
    "order; DLIO's mmap_indexed_binary does the same.",
    build=by_name(records),
    deciding="completion",
    parameters=(
        Parameter("sequence", 4096, "tokens of a sample", least=16, most=1 << 20),
        Parameter("token_bytes", 2, "bytes of a token: 2 or 4", least=2, most=4),
        Parameter("samples", 131_072, "samples of a pass at scale 1", least=1, most=1 << 24),
        Parameter("batch", 8, "samples of a step on this rank", least=1, most=65_536),
        Parameter("workers", 4, "loaders that assemble batches at the same time", least=1, most=1024),
        Parameter("short_percent", 15.0, "share of samples made of 2 to 4 documents", least=0.0, most=100.0),
        compute_parameter(0.0, "a training step"),
    ),
    scale=1 / 64,
    bs=64 << 10,
    qd=32,
)
