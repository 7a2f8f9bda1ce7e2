"""In what pieces a key-value cache lies on storage, and where in the file each piece is."""

from __future__ import annotations

from dataclasses import dataclass
from types import MappingProxyType
from typing import TYPE_CHECKING, Final, Literal, get_args, overload

import numpy as np

from pytest_gpuio.core.errors import ConfigError
from pytest_gpuio.core.sizes import describe_size
from pytest_gpuio.phases.models.cache import GRANULARITIES as _PAGES

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numpy.typing import NDArray

    from pytest_gpuio.phases.models.cache import KvGeometry

Placing = Literal["append", "random"]

#: Tokens of one piece. A fragment is one layer's keys (or values) of a 16-token block; an object is a whole sequence.
GRANULARITIES: Final[Mapping[str, int]] = MappingProxyType({"fragment": 16, **_PAGES, "object": 0})
#: Pieces begin at multiples of this.
ALIGNMENT: Final = 4096
#: LMCache writes so many bytes of metadata before a chunk's data.
CHUNK_HEADER: Final = 4096
#: Header of an .npy file, after which MLPerf's objects lie.
NPY_HEADER: Final = 128


@dataclass(frozen=True, slots=True)
class Layout:
    """How blocks become I/O.

    Attributes:
        geometry: of the model's cache on one rank.
        granularity: of :data:`GRANULARITIES`.
        layer_wise: pieces are moved layer by layer, so that computing a layer can begin when it is there. Fragments
            always are.
        placing: new blocks are appended, or lie at random places.
        capacity: bytes of the file; once they are full, the oldest places are used again. None = room for all.
        fsync: each request's writes are made durable at once, as MLPerf's benchmark does.
        seed: of random places.

    Raises:
        ConfigError: an unknown word, or layers asked for where the geometry has none.
    """

    geometry: KvGeometry
    granularity: str = "page512"
    layer_wise: bool = False
    placing: Placing = "append"
    capacity: int | None = None
    fsync: bool = False
    seed: int = 1

    def __post_init__(self) -> None:
        if self.granularity not in GRANULARITIES:
            raise ConfigError(f"granularity {self.granularity!r} is none of {', '.join(GRANULARITIES)}.")
        if self.placing not in get_args(Placing):
            raise ConfigError(f"placing {self.placing!r} is none of {', '.join(get_args(Placing))}.")
        if self.geometry.token_bytes < 1:
            raise ConfigError(f"a token of {self.geometry.token_bytes} bytes cannot be stored: 1 is the least.")
        if (self.layer_wise or self.fragments) and self.geometry.layers == 1:
            raise ConfigError(
                "fragments and layer-wise order need a model's layers, of which bytes per token say nothing: name the "
                "model."
            )

    @property
    def tokens(self) -> int:
        """Tokens of one piece; 0 = the whole sequence."""
        return GRANULARITIES[self.granularity]

    @property
    def fragments(self) -> bool:
        """Pieces are of one layer and region, each in a region of the file of its own."""
        return self.granularity == "fragment"

    @property
    def planes(self) -> int:
        """Requests into which one piece's bytes are split: by layers, of fragments by layers and regions."""
        if self.fragments:
            return self.geometry.layers * self.geometry.regions
        return self.geometry.layers if self.layer_wise else 1

    @property
    def header(self) -> int:
        """Bytes before each piece's data."""
        return CHUNK_HEADER if self.granularity == "chunk" else NPY_HEADER if self.granularity == "object" else 0

    @property
    def piece_bytes(self) -> int:
        """Bytes of one whole piece, without its header."""
        return self.tokens * self.geometry.token_bytes

    @property
    def stride(self) -> int:
        """From one piece to the next; of fragments, within one plane."""
        return rounded_up(self.header + (self.piece_bytes // self.planes if self.fragments else self.piece_bytes))

    def page_bytes(self, page_tokens: int) -> int:
        """Bytes of the file that one page of so many tokens takes."""
        return page_tokens // self.tokens * self.stride * (self.planes if self.fragments else 1)

    def slots(self, pages: int, page_tokens: int) -> int:
        """Pages that the file has room for.

        Raises:
            ConfigError: not even one.
        """
        if self.capacity is None:
            return max(1, pages)
        room = self.capacity // self.page_bytes(page_tokens)
        if room < 1:
            raise ConfigError(
                f"a file of {describe_size(self.capacity)} has no room for one page of {page_tokens} tokens, which is "
                f"{describe_size(self.page_bytes(page_tokens))}."
            )
        return min(room, max(1, pages))

    def slot_of(self, ids: NDArray[np.int64], page_tokens: int) -> tuple[NDArray[np.int64], int]:
        """Place of each use's page in the file, by the order of first use or at random; and how many places there are.

        Raises:
            ConfigError: the file has no room for one page.
        """
        _, first, inverse = np.unique(ids, return_index=True, return_inverse=True)
        slots = self.slots(len(first), page_tokens)
        slot = np.empty(len(first), dtype=np.int64)
        slot[np.argsort(first)] = np.arange(len(first)) % slots
        if self.placing == "random":
            slot = np.random.default_rng(self.seed).permutation(slots)[slot]
        return slot[inverse], slots

    def object_bases(self, sizes: NDArray[np.int64]) -> tuple[NDArray[np.int64], int]:
        """Where objects begin that are written one after the other, and the bytes of the file.

        Args:
            sizes: bytes of each, its header included.

        Raises:
            ConfigError: the largest does not fit.
        """
        padded = rounded_up(sizes)
        total = int(padded.sum())
        capacity = total if self.capacity is None else min(self.capacity // ALIGNMENT * ALIGNMENT, total)
        if len(padded) and int(padded.max()) > capacity:
            raise ConfigError(
                f"a file of {describe_size(self.capacity or 0)} has no room for the largest object, which is "
                f"{describe_size(int(padded.max()))}."
            )
        if total <= capacity:
            return np.cumsum(padded) - padded, max(total, ALIGNMENT)
        bases, at = [], 0
        for size in padded.tolist():
            at = 0 if at + size > capacity else at
            bases.append(at)
            at += size
        return np.array(bases, dtype=np.int64), capacity


@overload
def rounded_up(value: int) -> int: ...
@overload
def rounded_up(value: NDArray[np.int64]) -> NDArray[np.int64]: ...
def rounded_up(value: int | NDArray[np.int64]) -> int | NDArray[np.int64]:
    """To a multiple of :data:`ALIGNMENT`."""
    return -(-value // ALIGNMENT) * ALIGNMENT
