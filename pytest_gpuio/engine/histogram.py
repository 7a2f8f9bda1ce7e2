"""Latency histograms: log-linear, 64 bins per power of two, error at most 1/128, 1 ns to 73 minutes."""

from __future__ import annotations

from itertools import compress
from typing import Any

from pytest_gpuio.core.errors import EngineError
from pytest_gpuio.engine.native import native


class Histogram:
    """Latencies in nanoseconds; a copy of its own, whatever it was made from."""

    def __init__(self, source: Any = None) -> None:
        self._hist: Any = native().ffi.new("struct gpuio_hist *")
        if source is None:
            native().lib.gpuio_hist_reset(self._hist)
        else:
            self._hist[0] = source[0]

    @classmethod
    def empty(cls) -> Histogram:
        """A histogram without values."""
        return cls()

    @property
    def count(self) -> int:
        """All values, overflow included."""
        return int(self._hist.count)

    @property
    def overflow(self) -> int:
        """Values of 2^42 ns and more: in count, sum and maximum, in no bin."""
        return int(self._hist.overflow)

    @property
    def sum_ns(self) -> int:
        """Sum of all values."""
        return int(self._hist.sum_ns)

    @property
    def min_ns(self) -> int:
        """Smallest value; 0 while empty."""
        return int(self._hist.min_ns) if self._hist.count else 0

    @property
    def max_ns(self) -> int:
        """Largest value; 0 while empty."""
        return int(self._hist.max_ns)

    def add(self, ns: int) -> None:
        """Count one value of ``ns`` nanoseconds, 0 to 2^64 - 1."""
        native().lib.gpuio_hist_add(self._hist, ns)

    def to_bytes(self) -> bytes:
        """The whole histogram, for another process of this machine."""
        return bytes(native().ffi.buffer(self._hist)[:])

    @classmethod
    def from_bytes(cls, data: bytes) -> Histogram:
        """Inverse of :meth:`to_bytes`.

        Raises:
            EngineError: the bytes are not as many.
        """
        made = cls.empty()
        room = native().ffi.buffer(made._hist)  # noqa: SLF001 - it is one of us
        if len(data) != len(room):
            raise EngineError(f"{len(data)} bytes are no histogram of {len(room)}")
        room[:] = data
        return made

    def bins(self) -> dict[int, int]:
        """Bin index to number of values, for the bins that have any."""
        if not self._hist.count:
            return {}
        extension = native()
        # Those of the smallest and the largest value are the first and the last ones that can hold any.
        first, end = (extension.lib.gpuio_hist_bin(ns) for ns in (self._hist.min_ns, self._hist.max_ns))
        end = min(end + 1, extension.lib.GPUIO_HIST_BINS)
        counts = extension.ffi.unpack(self._hist.bins + first, max(end - first, 0))
        return {first + place: counts[place] for place in compress(range(len(counts)), counts)}

    def quantile(self, q: float) -> int | None:
        """The smallest value, to the precision of a bin, with at least ``q`` of all values at or below it.

        Args:
            q: 0.0 to 1.0.

        Returns:
            Nanoseconds, inside [min_ns, max_ns]; None while empty.

        Raises:
            EngineError: ``q`` is outside 0 to 1.
        """
        if not 0.0 <= q <= 1.0:
            raise EngineError(f"quantile {q} is outside 0 to 1")
        out = native().ffi.new("uint64_t *")
        return int(out[0]) if native().lib.gpuio_hist_quantile(self._hist, q, out) == 0 else None

    def merge(self, other: Histogram) -> None:
        """Add the other's values to this one's."""
        native().lib.gpuio_hist_merge(self._hist, other._hist)

    @staticmethod
    def bin_of(ns: int) -> int:
        """Index of the bin that holds a value; the number of bins for an overflow."""
        return int(native().lib.gpuio_hist_bin(ns))

    @staticmethod
    def bin_low(bin_: int) -> int:
        """Smallest value of a bin, in nanoseconds."""
        return int(native().lib.gpuio_hist_bin_low(bin_))

    @staticmethod
    def bin_width(bin_: int) -> int:
        """Number of whole nanoseconds in a bin."""
        return int(native().lib.gpuio_hist_bin_width(bin_))
