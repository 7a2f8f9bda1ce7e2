"""LRU tiers of HBM and DRAM in front of storage: which prefix blocks of a request trace are found where."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import numpy as np

from pytest_gpuio.core.errors import ConfigError
from pytest_gpuio.phases.kv_cache.lru import distances_of, previous_use

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from pytest_gpuio.phases.traces.request_trace import RequestTrace

#: Where a block is found; ``MISS`` = nowhere, or behind a gap in its prefix: it is computed.
HBM: Final = 0
DRAM: Final = 1
STORAGE: Final = 2
MISS: Final = 3


@dataclass(frozen=True, slots=True)
class Tiers:
    """Capacities in blocks.

    Attributes:
        hbm, dram: of the LRU tiers; a block that HBM gives up sinks into DRAM, a block that is used rises into HBM.
        storage: of the LRU store below, in which everything is written through; None = it keeps everything.

    Raises:
        ConfigError: a negative capacity, or storage that holds less than the tiers above it.
    """

    hbm: int = 0
    dram: int = 0
    storage: int | None = None

    def __post_init__(self) -> None:
        if self.hbm < 0 or self.dram < 0:
            raise ConfigError(f"tiers of {self.hbm:,} and {self.dram:,} blocks: 0 is the least.")
        if self.storage is not None and self.storage < self.memory:
            raise ConfigError(
                f"storage of {self.storage:,} blocks is smaller than the {self.memory:,} blocks of HBM and DRAM, which "
                "are written through to it."
            )

    @property
    def memory(self) -> int:
        """Blocks of HBM and DRAM together."""
        return self.hbm + self.dram


@dataclass(frozen=True, slots=True, eq=False)
class Reuse:
    """How the blocks of a trace are used again; computed once, it answers for tiers of every size.

    A request uses its blocks in the order of its prefix, and each use makes a block the most recent one, whether it was
    found or computed. Therefore its LRU distance does not depend on the size of any tier.

    Attributes:
        trace: with blocks.
        distance: of each use of a block, see :func:`~pytest_gpuio.phases.kv_cache.lru.stack_distances`; shape (uses,).
        previous: index of the last earlier use, -1 = none; shape (uses,).
        request: index of the request; shape (uses,).
        within: place of the block in its request; shape (uses,).
    """

    trace: RequestTrace
    distance: NDArray[np.int64]
    previous: NDArray[np.int64]
    request: NDArray[np.int64]
    within: NDArray[np.int64]

    @classmethod
    def of(cls, trace: RequestTrace) -> Reuse:
        """Analyses a trace.

        Raises:
            ConfigError: it tells no blocks.
        """
        ids, start = trace.block_ids, trace.block_start
        if ids is None or start is None:
            raise ConfigError(f"{trace.path} tells no prefix blocks ({trace.format}).")
        sizes = np.diff(start)
        previous = previous_use(ids)
        return cls(
            trace,
            distances_of(previous),
            previous,
            np.repeat(np.arange(len(trace)), sizes),
            np.arange(len(ids)) - np.repeat(start[:-1], sizes),
        )

    def place(self, tiers: Tiers) -> Placement:
        """Where each block is found.

        Args:
            tiers: capacities.
        """
        used = self.distance >= 0
        stored = used if tiers.storage is None else used & (self.distance < tiers.storage)
        hit = self.within < self._first_gap(stored)[self.request]
        found = np.full(len(self.distance), MISS, dtype=np.uint8)
        found[hit] = STORAGE
        found[hit & (self.distance < tiers.memory)] = DRAM
        found[hit & (self.distance < tiers.hbm)] = HBM
        return Placement(self, tiers, found, ~stored)

    def _first_gap(self, stored: NDArray[np.bool_]) -> NDArray[np.int64]:
        """Blocks of each request's longest leading run that is stored."""
        run = np.diff(self.trace.block_start) if self.trace.block_start is not None else np.empty(0, dtype=np.int64)
        gaps = np.flatnonzero(~stored)
        # Backwards, so that the first gap of each request is assigned last.
        run[self.request[gaps[::-1]]] = self.within[gaps[::-1]]
        return run


@dataclass(frozen=True, slots=True, eq=False)
class Placement:
    """Where each use of a block found it.

    Attributes:
        reuse: the analysed trace. tiers: capacities.
        found: ``HBM``, ``DRAM``, ``STORAGE`` or ``MISS``; shape (uses,), uint8.
        written: it was not in storage and is written through; shape (uses,), bool.
    """

    reuse: Reuse
    tiers: Tiers
    found: NDArray[np.uint8]
    written: NDArray[np.bool_]

    @property
    def uses(self) -> int:
        """Uses of blocks."""
        return len(self.found)

    def blocks(self, where: int) -> int:
        """Uses that found their block in one tier (``MISS`` = computed)."""
        return int(np.count_nonzero(self.found == where))

    @property
    def hits(self) -> int:
        """Uses that found their block anywhere."""
        return self.uses - self.blocks(MISS)

    @property
    def writes(self) -> int:
        """Blocks written to storage."""
        return int(np.count_nonzero(self.written))

    @property
    def hit_ratio(self) -> float:
        """Hits per use; 0 without any use."""
        return self.hits / self.uses if self.uses else 0.0

    @property
    def storage_share(self) -> float:
        """Share of the hits that must be read from storage; 0 without any hit."""
        return self.blocks(STORAGE) / self.hits if self.hits else 0.0

    def per_request(self, which: NDArray[np.bool_]) -> NDArray[np.int64]:
        """How many uses of each request are in ``which``; shape (requests,)."""
        return np.bincount(self.reuse.request[which], minlength=len(self.reuse.trace))

    def hit_tokens(self) -> NDArray[np.int64]:
        """Tokens of each request whose cache was found; shape (requests,)."""
        trace = self.reuse.trace
        return np.minimum(self.per_request(self.found != MISS) * trace.block_tokens, trace.input_tokens)

    def new_tokens(self) -> NDArray[np.int64]:
        """Tokens of each request that are computed; the last one always is, as the answer follows from it."""
        trace = self.reuse.trace
        computed: NDArray[np.int64] = np.maximum(
            trace.input_tokens - self.hit_tokens(), np.minimum(trace.input_tokens, 1)
        )
        return computed
