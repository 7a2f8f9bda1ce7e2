"""Latency histograms: log-linear, 64 bins per power of two, error at most 1/128, 1 ns to 73 minutes."""

from __future__ import annotations

from array import array
from itertools import compress
from typing import Any, Final

from pytest_gpuio.core.errors import EngineError
from pytest_gpuio.engine.native import native

#: Smallest value of a histogram that has none, as gpuio_hist_reset() sets it.
_NO_MINIMUM: Final = (1 << 64) - 1


class Histogram:
    """Latencies in nanoseconds; a copy of its own, whatever it was made from."""

    def __init__(self, source: Any = None) -> None:
        self._hist: Any = native().ffi.new("struct gpuio_hist *")
        # Between windows it counts: all bins are 19 KB, and most histograms of a window are empty.
        if source is None or not source.count:
            self._hist.min_ns = _NO_MINIMUM  # cffi gives zeros
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

    def counts(self) -> tuple[int, bytes]:
        """Index of a first bin, and the numbers of values in it and those after it, 8 bytes each in native order.

        All bins that hold any are among them.
        """
        if not self._hist.count:
            return 0, b""
        extension = native()
        # Those of the smallest and the largest value are the first and the last ones that can hold any.
        first, end = (extension.lib.gpuio_hist_bin(ns) for ns in (self._hist.min_ns, self._hist.max_ns))
        end = min(end + 1, extension.lib.GPUIO_HIST_BINS)
        if end <= first:
            return 0, b""
        return first, bytes(extension.ffi.buffer(self._hist.bins + first, 8 * (end - first)))

    def bins(self) -> dict[int, int]:
        """Bin index to number of values, for the bins that have any."""
        first, data = self.counts()
        counts = array("Q", data)
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
        self.merge_from(other._hist)

    def merge_from(self, source: Any) -> None:
        """Add the values of a ``struct gpuio_hist *``."""
        native().lib.gpuio_hist_merge(self._hist, source)

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
