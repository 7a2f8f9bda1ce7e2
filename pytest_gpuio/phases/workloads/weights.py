"""A model's weights in safetensors files, and the requests by which loaders read them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

from pytest_gpuio.core.errors import ConfigError
from pytest_gpuio.phases.files import Files
from pytest_gpuio.phases.models import Architecture, Shard, Tensor, manifest, tensors
from pytest_gpuio.phases.scaling import thin

if TYPE_CHECKING:
    from collections.abc import Sequence

    import numpy as np
    from numpy.typing import NDArray

#: What a page fault of a sequentially read mapping brings in with the kernel's default read-ahead.
READ_AHEAD: Final = 128 << 10
STRATEGIES: Final = ("mmap", "tensor", "chunk", "shard", "sliced")
_SPLIT_ROWS: Final = ("q_proj", "k_proj", "v_proj", "gate_proj", "up_proj", "embed_tokens", "lm_head")
_SPLIT_COLUMNS: Final = ("o_proj", "down_proj")
_SLICED_FAMILIES: Final = ("llama", "qwen2")


class Requests(NamedTuple):
    """Reads in the order in which they are issued; each of shape (n,)."""

    file: NDArray[np.int64]
    offset: NDArray[np.int64]
    length: NDArray[np.int64]
    barrier: NDArray[np.bool_]


def shards(model: Architecture, scale: float) -> tuple[Shard, ...]:
    """The files of ``scale`` of a model: some tensors are gone, and long ones have fewer rows.

    Raises:
        ConfigError: a scale out of range.
    """
    import numpy as np

    every = tensors(model)
    if scale == 1.0:
        return manifest(every)
    left = thin(np.array([tensor.nbytes for tensor in every], np.int64), scale)
    kept: list[Tensor] = []
    for tensor, size in zip(every, left.tolist(), strict=True):
        if size == tensor.nbytes:
            kept.append(tensor)
        elif size:
            row = tensor.nbytes // tensor.shape[0]
            kept.append(tensor._replace(shape=(max(1, round(size / row)), *tensor.shape[1:])))
    return manifest(kept)


def files_of(held: Sequence[Shard], copies: int = 1) -> Files:
    """The files, by index; with several copies each in a folder of its own."""
    names = [""] if copies == 1 else [f"model_{index:03}/" for index in range(copies)]
    return Files.of({f"{folder}{shard.name}": shard.nbytes for folder in names for shard in held})


def requests(held: Sequence[Shard], strategy: str, *, chunk: int, streams: int) -> Requests:
    """Reads of every byte by one loader.

    Args:
        held: the files.
        strategy: ``mmap`` = page faults, one after the other; ``tensor`` = a read per tensor, ``streams`` files side by
            side; ``chunk`` = a file in chunks, then the next; ``shard`` = ``streams`` files side by side in chunks.
        chunk: bytes of a read of ``chunk`` and ``shard``.
        streams: files at a time.
    """
    import numpy as np

    if strategy == "tensor":
        # The header first: its length says where the tensors lie.
        of_file = [
            [(0, shard.header_bytes), *zip(shard.offsets, (t.nbytes for t in shard.tensors), strict=True)]
            for shard in held
        ]
        counts = np.array([len(each) for each in of_file])
        offset, length = np.array([place for each in of_file for place in each], np.int64).T
    else:
        piece = READ_AHEAD if strategy == "mmap" else chunk
        size = np.array([shard.nbytes for shard in held], np.int64)
        counts = -(-size // piece)
        offset = (np.arange(int(counts.sum())) - np.repeat(np.cumsum(counts) - counts, counts)) * piece
        length = np.minimum(piece, np.repeat(size, counts) - offset)
    file = np.repeat(np.arange(len(held)), counts)
    if strategy in ("tensor", "shard"):
        turn = np.arange(len(file)) - np.repeat(np.cumsum(counts) - counts, counts)
        order = np.lexsort((file, turn, file // streams))
        file, offset, length = file[order], offset[order], length[order]
    return Requests(file, offset, length, np.full(len(file), strategy == "mmap"))


def slices(model: Architecture, held: Sequence[Shard], rank: int, ranks: int) -> Requests:
    """Reads of one tensor-parallel rank's part: whole rows in one request, parts of rows in one each.

    Raises:
        ConfigError: the family is not one whose tensors we know how to cut, or the heads cannot be spread so.
    """
    import numpy as np

    if model.family not in _SLICED_FAMILIES:
        raise ConfigError(
            f"slices of {model.name} (family {model.family}) are not modelled: use strategy tensor, chunk or shard."
        )
    if model.heads % ranks:
        raise ConfigError(f"{model.heads} heads of {model.name} cannot be spread over {ranks} ranks.")
    parts: list[tuple[NDArray[np.int64], ...]] = []
    for file, shard in enumerate(held):
        for tensor, start in zip(shard.tensors, shard.offsets, strict=True):
            offset, length = _slice(model, tensor, start, rank, ranks)
            parts.append((np.full(len(offset), file), offset, length))
    file_, offset, length = (np.concatenate(column) for column in zip(*parts, strict=True))
    return Requests(file_, offset, length, np.zeros(len(file_), np.bool_))


def _slice(
    model: Architecture, tensor: Tensor, start: int, rank: int, ranks: int
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    import numpy as np

    rows = tensor.shape[0]
    row = tensor.nbytes // rows
    if any(f"{name}." in tensor.name for name in _SPLIT_COLUMNS):
        part = row // ranks
        return start + np.arange(rows) * row + rank * part, np.full(rows, part)
    if not any(f"{name}." in tensor.name for name in _SPLIT_ROWS):
        return np.array([start]), np.array([tensor.nbytes])
    # With fewer key-value heads than ranks, several ranks hold the same head.
    cut = min(ranks, model.kv_heads) if "k_proj" in tensor.name or "v_proj" in tensor.name else ranks
    mine = max(1, rows // cut)
    first = min(rank * cut // ranks * mine, rows - mine)
    return np.array([start + first * row]), np.array([mine * row])
