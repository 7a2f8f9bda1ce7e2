"""A fio job with the sizes, mix and rate of a trace, for where replaying each I/O is not needed."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Final

import numpy as np

from pytest_gpuio.core.errors import ConfigError
from pytest_gpuio.phases.records import READ, WRITE
from pytest_gpuio.phases.traces.block_records import sequential_share, to_records

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from pytest_gpuio.phases.traces.block_trace import BlockTrace

#: Direct I/O needs whole sectors.
_SECTOR: Final = 512
#: fio holds 64 sizes; more than some dozens of whole per cent say no more.
_MOST_SIZES: Final = 32


def lines(trace: BlockTrace, filename: str, iodepth: int = 32) -> Iterator[str]:
    """The job, a random mix: fio draws sizes and places itself, so that bursts and order are lost (an iolog has them).

    Args:
        trace: what reaches storage of it counts.
        filename: fio lays this file out and, where the trace writes, writes it.
        iodepth: most requests in flight.

    Raises:
        ConfigError: nothing reaches storage, or a name or depth that fio cannot take.
    """
    if not filename or any(mark in filename for mark in "\r\n") or not 1 <= iodepth <= 65_536:
        raise ConfigError(
            f"fio can take neither an empty file name nor depth {iodepth}: name a file, 1 to 65,536 deep."
        )
    records = to_records(trace)
    sizes = {op: -(-records.length[records.op == op].astype(np.int64) // _SECTOR) * _SECTOR for op in (READ, WRITE)}
    reads, writes = len(sizes[READ]), len(sizes[WRITE])
    kind = "randrw" if reads and writes else "randread" if reads else "randwrite"
    moved = int(sum(part.sum() for part in sizes.values()))
    yield f"; {kind} as in {trace.path.name}: {reads:,} reads, {writes:,} writes, {moved:,} bytes in whole sectors"
    if writes:
        yield "; fio WRITES to the file below"
    yield "[trace]"
    # fio has no escape for it: a colon would separate files.
    yield f"filename={filename.replace(':', chr(92) + ':')}"
    yield f"size={records.files.bytes}"
    yield f"io_size={moved}"
    yield f"rw={kind}"
    if kind == "randrw":
        yield f"rwmixread={_mix(reads, writes)}"
    yield f"percentage_random={round(100 * (1 - sequential_share(trace.on_storage())))}"
    yield f"bssplit={','.join(_split(sizes[op] if len(sizes[op]) else sizes[1 - op]) for op in (READ, WRITE))}"
    yield "ioengine=libaio"
    yield "direct=1"
    yield f"iodepth={iodepth}"
    # Whole files are asked for, not whole per cents of them: places may repeat.
    yield "norandommap=1"
    rates = [round(count * 1e9 / trace.span_ns) if trace.timed and trace.span_ns else 0 for count in (reads, writes)]
    if all(rate >= 1 for rate, count in zip(rates, (reads, writes), strict=True) if count):
        yield f"rate_iops={','.join(str(rate) if rate else '' for rate in rates)}"
        yield "rate_process=poisson"


def _mix(reads: int, writes: int) -> int:
    """Per cent of reads; neither kind is lost to rounding."""
    return min(99, max(1, round(100 * reads / (reads + writes))))


def _split(sizes: NDArray[np.int64]) -> str:
    """``size/per cent`` pairs that make 100; many sizes are gathered into groups of equal count by their mean."""
    values, counts = np.unique(sizes, return_counts=True)
    if len(values) > _MOST_SIZES:
        parts = [part for part in np.array_split(np.sort(sizes), _MOST_SIZES) if len(part)]
        means = [max(_SECTOR, round(float(part.mean()) / _SECTOR) * _SECTOR) for part in parts]
        gathered: dict[int, int] = {}
        for mean, part in zip(means, parts, strict=True):
            gathered[mean] = gathered.get(mean, 0) + len(part)
        values, counts = np.array(list(gathered)), np.array(list(gathered.values()))
    exact = counts * 100 / counts.sum()
    percent = np.floor(exact).astype(np.int64)
    # What is left goes to the largest remainders.
    for place in np.argsort(-(exact - percent), kind="stable")[: 100 - int(percent.sum())].tolist():
        percent[place] += 1
    return ":".join(f"{value}/{share}" for value, share in zip(values.tolist(), percent.tolist(), strict=True) if share)
