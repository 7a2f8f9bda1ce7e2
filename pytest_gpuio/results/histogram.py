"""Latency histograms as one short string, and quantiles of them, in the engine's bin layout.

Bins are log-linear: 64 per power of two, so a bin is at most 1/64 of its values wide, up to 2^42 ns.
"""

from __future__ import annotations

import base64
import binascii
import math
import zlib
from collections.abc import Iterator, Mapping
from typing import Final

from pytest_gpuio.core.errors import GpuioError

#: Names the layout; a different one gets another prefix.
PREFIX: Final = "gh1:"
SUB_BITS: Final = 6
MAX_BITS: Final = 42
BINS: Final = (MAX_BITS - SUB_BITS + 1) << SUB_BITS

_SUB: Final = 1 << SUB_BITS
_MAX_COUNT: Final = 2**64 - 1
#: A bin costs at most 2 bytes of index and 10 of count; more is not one of our strings.
_MAX_PAYLOAD: Final = BINS * 12


def bin_of(ns: int) -> int:
    """Index of the bin that holds a latency; :data:`BINS` when it overflows.

    Raises:
        ValueError: below zero.
    """
    if ns < 0:
        raise ValueError(f"a latency cannot be {ns} ns")
    if ns < _SUB:
        return ns
    if ns >> MAX_BITS:
        return BINS
    shift = ns.bit_length() - 1 - SUB_BITS
    return ((shift + 1) << SUB_BITS) + (ns >> shift) - _SUB


def bin_low(index: int) -> int:
    """Smallest latency of a bin, in ns."""
    if index < _SUB:
        return index
    return (_SUB + (index & (_SUB - 1))) << ((index >> SUB_BITS) - 1)


def bin_width(index: int) -> int:
    """Number of whole nanoseconds in a bin."""
    return 1 if index < _SUB else 1 << ((index >> SUB_BITS) - 1)


def quantile(bins: Mapping[int, int], q: float, min_ns: int, max_ns: int, *, overflow: int = 0) -> int:
    """The latency of rank ceil(q x count), in ns: the middle of its bin, clamped to the smallest and largest value.

    Args:
        bins: counts by bin index, overflow excluded.
        q: 0 .. 1.
        min_ns: smallest value, overflow included.
        max_ns: largest value, overflow included.
        overflow: values beyond the last bin; a rank among them is ``max_ns``.

    Raises:
        ValueError: ``q`` outside 0 .. 1, or nothing was counted.
    """
    if not 0.0 <= q <= 1.0:
        raise ValueError(f"quantile {q} is outside 0 .. 1")
    count = sum(bins.values()) + overflow
    if not count:
        raise ValueError("an empty histogram has no quantiles")
    rank = min(count, max(1, math.ceil(q * count)))
    for index in sorted(bins):
        rank -= bins[index]
        if rank <= 0:
            return min(max(bin_low(index) + (bin_width(index) - 1) // 2, min_ns), max_ns)
    return max_ns


def encode(bins: Mapping[int, int]) -> str:
    """The histogram as text: LEB128 pairs (step to the next bin, count), deflated, in base64 behind :data:`PREFIX`.

    Empty bins are left out.

    Raises:
        ValueError: a bin or count outside the layout.
    """
    payload = bytearray()
    last = 0
    for index in sorted(bins):
        count = bins[index]
        if not 0 <= index < BINS or not 0 <= count <= _MAX_COUNT:
            raise ValueError(f"bin {index} with count {count} does not fit a histogram of {BINS} bins")
        if count:
            _put(payload, index - last)
            _put(payload, count)
            last = index
    return PREFIX + base64.b64encode(zlib.compress(bytes(payload), 9)).decode("ascii")


def decode(text: str) -> dict[int, int]:
    """Counts by bin index, non-empty bins only, of what :func:`encode` wrote.

    Raises:
        GpuioError: not such a text.
    """
    if not text.startswith(PREFIX):
        raise GpuioError(f"histogram {text[:16]!r} does not start with {PREFIX!r}: another version of gpuio wrote it.")
    try:
        packed = base64.b64decode(text[len(PREFIX) :].encode("ascii"), validate=True)
        inflate = zlib.decompressobj()
        payload = inflate.decompress(packed, _MAX_PAYLOAD)
    except (binascii.Error, UnicodeEncodeError, zlib.error) as error:
        raise GpuioError(f"histogram {text[:16]!r}... is damaged: {error}.") from None
    if not inflate.eof or inflate.unused_data:
        raise GpuioError(f"histogram {text[:16]!r}... is damaged: its length is wrong.")
    numbers = _numbers(payload)
    bins: dict[int, int] = {}
    index = 0
    for step in numbers:
        count = next(numbers, 0)
        index += step
        if index >= BINS or not 1 <= count <= _MAX_COUNT or (bins and not step):
            raise GpuioError(f"histogram {text[:16]!r}... is damaged: bin {index} with count {count} cannot be.")
        bins[index] = count
    return bins


def _put(payload: bytearray, number: int) -> None:
    while number > 0x7F:
        payload.append(number & 0x7F | 0x80)
        number >>= 7
    payload.append(number)


def _numbers(payload: bytes) -> Iterator[int]:
    number = shift = 0
    for byte in payload:
        number |= (byte & 0x7F) << shift
        shift += 7
        if not byte & 0x80:
            yield number
            number = shift = 0
        elif shift > 63:
            raise GpuioError("histogram is damaged: a number in it is longer than 64 bits.")
    if shift:
        raise GpuioError("histogram is damaged: it ends inside a number.")
