"""The safetensors files of a model: which shard holds which tensor, and where it lies in it to the byte."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Final, NamedTuple

from pytest_gpuio.core.errors import ConfigError
from pytest_gpuio.core.sizes import describe_size
from pytest_gpuio.phases.models.architecture import DTYPE_BYTES
from pytest_gpuio.phases.models.tensors import Tensor

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

#: What the Hugging Face libraries cut a model into when nothing else is asked: 5 GB.
SHARD_BYTES: Final = 5 * 10**9
#: Length of the header, little endian, before it.
_LENGTH_BYTES: Final = 8
_PADDING: Final = 8


class Shard(NamedTuple):
    """One file.

    Attributes:
        name: file name as published: ``model-00001-of-00004.safetensors``.
        header_bytes: length field and header: offset of the first tensor's first byte.
        tensors: in the order in which they lie in the file.
        offsets: of each tensor's first byte in the file; there are no holes.
    """

    name: str
    header_bytes: int
    tensors: tuple[Tensor, ...]
    offsets: tuple[int, ...]

    @property
    def nbytes(self) -> int:
        """Size of the file in bytes."""
        return self.header_bytes + sum(tensor.nbytes for tensor in self.tensors)


def manifest(tensors: Iterable[Tensor], shard_bytes: int = SHARD_BYTES) -> tuple[Shard, ...]:
    """The files that hold these tensors, cut as the Hugging Face libraries cut a state dict.

    A shard takes tensors in the order given until the next one would make it larger than ``shard_bytes``; one that is
    larger by itself gets a file of its own.

    Raises:
        ConfigError: no tensors, or shards of no bytes.
    """
    if shard_bytes < 1:
        raise ConfigError(f"shards of {describe_size(shard_bytes)} hold nothing: give at least 1 byte.")
    groups: list[list[Tensor]] = []
    open_group: list[Tensor] = []
    filled = 0
    for tensor in tensors:
        size = tensor.nbytes
        if size > shard_bytes:
            groups.append([tensor])
            continue
        if open_group and filled + size > shard_bytes:
            groups.append(open_group)
            open_group, filled = [], 0
        open_group.append(tensor)
        filled += size
    if open_group:
        groups.append(open_group)
    if not groups:
        raise ConfigError("a model without tensors has no files.")
    if len(groups) == 1:
        return (_shard("model.safetensors", groups[0]),)
    return tuple(
        _shard(f"model-{number:05}-of-{len(groups):05}.safetensors", group) for number, group in enumerate(groups, 1)
    )


def _shard(name: str, tensors: Sequence[Tensor]) -> Shard:
    # The format's own writer sorts so, to keep wide types aligned without holes.
    ordered = tuple(sorted(tensors, key=lambda tensor: (-DTYPE_BYTES[tensor.dtype], tensor.dtype, tensor.name)))
    header: dict[str, object] = {"__metadata__": {"format": "pt"}}
    starts, at = [], 0
    for tensor in ordered:
        starts.append(at)
        end = at + tensor.nbytes
        header[tensor.name] = {"dtype": tensor.dtype, "shape": tensor.shape, "data_offsets": (at, end)}
        at = end
    length = len(json.dumps(header, separators=(",", ":")).encode())
    data = _LENGTH_BYTES + -(-length // _PADDING) * _PADDING
    return Shard(name, data, ordered, tuple(data + start for start in starts))
