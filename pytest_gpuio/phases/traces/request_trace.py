"""Requests to a model server as a trace records them: when, how long, and which prefix blocks they share."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar, Final

import numpy as np
from numpy.typing import NDArray

from pytest_gpuio.core.errors import ConfigError
from pytest_gpuio.phases.traces.timed import TimedTrace

#: Stamps are called quantised when so much of the gaps between different stamps are multiples of the usual gap...
_QUANTISED_SHARE: Final = 0.95
_QUANTUM_TOLERANCE: Final = 0.01
#: ...of at least this length, and several requests share a stamp.
_LEAST_QUANTUM_NS: Final = 10_000_000
_REQUESTS_PER_STAMP: Final = 1.5


@dataclass(frozen=True, slots=True, eq=False)
class RequestTrace(TimedTrace):
    """Requests in the order of their arrival.

    Attributes:
        input_tokens, output_tokens: shape (n,), int64.
        block_ids: prefix blocks of all requests, one after the other; an id stands for a block *and all that comes
            before it*. Shape (blocks,), int64; None = the trace does not tell.
        block_start: where each request's blocks begin in ``block_ids``, and the end; shape (n + 1,), int64.
        block_tokens: tokens of a block; 0 = no blocks.
    """

    RECORDS: ClassVar[str] = "requests"

    input_tokens: NDArray[np.int64]
    output_tokens: NDArray[np.int64]
    block_ids: NDArray[np.int64] | None = None
    block_start: NDArray[np.int64] | None = None
    block_tokens: int = 0

    def taken(self, rows: NDArray[np.int64] | NDArray[np.bool_]) -> RequestTrace:
        """The requests of these rows, in this order; times stay as they are."""
        ids, start = self.block_ids, self.block_start
        if ids is not None and start is not None:
            sizes = np.diff(start)[rows]
            taken = np.concatenate(([0], np.cumsum(sizes)))
            ids = ids[np.arange(taken[-1]) + np.repeat(start[:-1][rows] - taken[:-1], sizes)]
            start = taken
        return replace(
            self,
            time_ns=self.time_ns[rows],
            input_tokens=self.input_tokens[rows],
            output_tokens=self.output_tokens[rows],
            block_ids=ids,
            block_start=start,
        )

    def quantum_ns(self) -> int:
        """The step in which a quantised trace stamps its requests; 0 = its stamps are not quantised."""
        stamps = np.unique(self.time_ns)
        if len(stamps) < 3 or len(self) < _REQUESTS_PER_STAMP * len(stamps):
            return 0
        gaps = np.diff(stamps)
        quantum = int(np.median(gaps))
        if quantum < _LEAST_QUANTUM_NS:
            return 0
        off = np.abs(gaps - np.rint(gaps / quantum) * quantum)
        share = float(np.mean(off <= _QUANTUM_TOLERANCE * quantum))
        return quantum if share >= _QUANTISED_SHARE else 0

    def jittered(self, seed: int, quantum_ns: int | None = None) -> RequestTrace:
        """Arrivals spread uniformly over the step they were stamped in; requests of one stamp keep their order.

        Args:
            seed: of the draw.
            quantum_ns: the step; None = :meth:`quantum_ns`, 0 = leave all as it is.
        """
        quantum = self.quantum_ns() if quantum_ns is None else quantum_ns
        if quantum == 0:
            return self
        # Stamps are a little less than a step apart at times: never reach into the next one, order is prefix history.
        stamps, step, sizes = np.unique(self.time_ns, return_inverse=True, return_counts=True)
        room = np.minimum(np.append(np.diff(stamps), quantum), quantum)
        drawn = np.random.default_rng(seed).random(len(self))
        drawn = drawn[np.lexsort((drawn, step))]
        spread = (drawn * np.repeat(room, sizes)).astype(np.int64)
        return replace(
            self,
            time_ns=self.time_ns + spread,
            notes=(*self.notes, f"stamps are {quantum / 1e9:g} s apart: arrivals spread over each step, seed {seed}"),
        )

    def regrouped(self, tokens: int) -> RequestTrace:
        """The same prefixes told in larger blocks; as an id stands for all before it, each block takes its last one's.

        Args:
            tokens: of a block; a multiple of ``block_tokens``.

        Raises:
            ConfigError: the trace has no blocks, or smaller blocks do not fill the larger ones.
        """
        if self.block_ids is None or self.block_start is None:
            raise ConfigError(f"{self.path} tells no prefix blocks ({self.format}).")
        factor, rest = divmod(tokens, self.block_tokens)
        if rest or factor < 1:
            raise ConfigError(f"blocks of {tokens} tokens cannot be made of blocks of {self.block_tokens} tokens.")
        if factor == 1:
            return self
        sizes = np.diff(self.block_start)
        large = -(-sizes // factor)
        start = np.concatenate(([0], np.cumsum(large)))
        within = np.arange(start[-1]) - np.repeat(start[:-1], large)
        last = np.minimum((within + 1) * factor, np.repeat(sizes, large)) - 1
        ids = self.block_ids[np.repeat(self.block_start[:-1], large) + last]
        return replace(self, block_ids=ids, block_start=start, block_tokens=tokens)

    def with_own_blocks(self, tokens: int) -> RequestTrace:
        """A trace without prefix blocks, as one whose requests share nothing."""
        sizes = -(-self.input_tokens // tokens)
        start = np.concatenate(([0], np.cumsum(sizes)))
        return replace(
            self,
            block_ids=np.arange(start[-1], dtype=np.int64),
            block_start=start,
            block_tokens=tokens,
            notes=(*self.notes, "the trace tells no prefixes: every prompt is taken as new"),
        )
