"""The table of formats that traces are written in."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Final

from pytest_gpuio.core.errors import ConfigError
from pytest_gpuio.phases.traces import fio_job, iolog, mlperf_kv, mooncake
from pytest_gpuio.phases.traces.block_trace import BlockTrace
from pytest_gpuio.phases.traces.reading import Kind
from pytest_gpuio.phases.traces.request_trace import RequestTrace

Trace = RequestTrace | BlockTrace
DEFAULT_FILENAME: Final = "gpuio-trace.dat"


@dataclass(frozen=True, slots=True)
class Target:
    """Where a written trace will act.

    Attributes:
        filename: file of a fio job. iodepth: of a fio job.
    """

    filename: str = DEFAULT_FILENAME
    iodepth: int = 32


@dataclass(frozen=True, slots=True)
class Writer:
    """A format that is written.

    Attributes:
        name: as ``--to`` takes it. title: one line for people.
        kind: of traces it takes; request traces become block traces through the cache tiers.
        lines: the trace's lines, without their ends.
    """

    name: str
    title: str
    kind: Kind
    lines: Callable[[Trace, Target], Iterator[str]]


def _of_requests(trace: Trace) -> RequestTrace:
    if not isinstance(trace, RequestTrace):
        raise ConfigError(f"{trace.path} is a trace of I/O ({trace.format}), from which requests cannot be told.")
    return trace


def _of_blocks(trace: Trace) -> BlockTrace:
    if not isinstance(trace, BlockTrace):
        raise ConfigError(f"{trace.path} is a trace of requests ({trace.format}): run it through cache tiers first.")
    return trace


_WRITERS: Final = (
    Writer("iolog", "fio iolog, version 3: each I/O at its time (fio --read_iolog)", "block",
           lambda trace, _: iolog.lines(_of_blocks(trace))),
    Writer("fio-job", "fio job with bssplit: sizes, mix and mean rate only", "block",
           lambda trace, target: fio_job.lines(_of_blocks(trace), target.filename, target.iodepth)),
    Writer("mlperf-kv", "MLPerf Storage KV cache CSV (as its --io-trace-log writes)", "block",
           lambda trace, _: mlperf_kv.lines(_of_blocks(trace))),
    Writer("mooncake", "Mooncake JSONL: requests with 512-token prefix blocks", "request",
           lambda trace, _: mooncake.lines(_of_requests(trace))),
)  # fmt: skip
#: Every writer by name.
WRITERS: Final = {writer.name: writer for writer in _WRITERS}


def get(name: str) -> Writer:
    """The writer of this name.

    Raises:
        ConfigError: there is none.
    """
    if name not in WRITERS:
        raise ConfigError(f"traces are not written as {name!r}, but as {', '.join(WRITERS)}.")
    return WRITERS[name]
