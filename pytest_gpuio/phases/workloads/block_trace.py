"""A recorded trace of block I/O, replayed on a file of ours: its times, order and sizes on the target's storage."""

from __future__ import annotations

from typing import Final

from pytest_gpuio.core.errors import CapabilityMissing, ConfigError
from pytest_gpuio.phases.model import RecordModel
from pytest_gpuio.phases.parameter import Parameter
from pytest_gpuio.phases.records import Records
from pytest_gpuio.phases.scaling import check_share, share
from pytest_gpuio.phases.workloads.binding import NO_FILE, by_name


def records(*, file: str, speed: float, pace: str, skip: int, capacity_gib: float, scale: float, seed: int) -> Records:
    """A group per I/O, at its time; the traced device or file itself is never touched.

    ``scale`` of the I/Os, from ``skip`` on, are replayed. Their places come to lie densely in one file of at most
    ``capacity_gib``; what lies beyond comes to lie over what is before.

    Raises:
        ConfigError: no file, nothing left of it, or no room for its largest I/O.
        CapabilityMissing: it is a trace of requests.
        TraceError: the file cannot be read.
    """
    # numpy comes with these, and nothing that only lists workloads needs it.
    from pytest_gpuio.phases.traces import BlockTrace, load
    from pytest_gpuio.phases.traces.block_records import to_records

    del seed  # nothing is drawn
    if file == NO_FILE:
        raise ConfigError(
            "micro/block_trace replays a file: --gpuio-workload-param file=PATH (fio iolog, blkparse, bpftrace, MSR "
            "or MLPerf KV; `gpuio trace info PATH` says what it is)."
        )
    check_share(scale)
    trace = load(file)
    if not isinstance(trace, BlockTrace):
        raise CapabilityMissing(
            f"{file} is a trace of requests ({trace.format}), not of I/O: the workload inference/kv_trace runs those "
            "through a cache."
        )
    trace = trace.on_storage()
    if skip >= len(trace):
        raise ConfigError(f"skip={skip:,} leaves none of the {len(trace):,} I/Os of {file}.")
    part = trace.cut(skip, share(len(trace) - skip, scale)).scaled(speed)
    found = to_records(part, round(capacity_gib * 2**30))
    return found if pace == "trace" else found.unchained()


MODEL: Final = RecordModel(
    "micro/block_trace",
    "Recorded block I/O is replayed at its times on a file of ours.",
    source="the trace that is named; what is sequential, aligned or written again in it stays so.",
    build=by_name(records),
    deciding="completion",
    parameters=(
        Parameter("file", NO_FILE, "trace of I/O"),
        Parameter("speed", 1.0, "how many times as fast as in the trace", least=1e-3, most=1e6),
        Parameter(
            "pace",
            "trace",
            "trace = at its times (one after the other where it has none), depth = as fast as the depth allows",
            choices=("trace", "depth"),
        ),
        Parameter("skip", 0, "I/Os at the start that are left out", least=0, most=1 << 40),
        Parameter(
            "capacity_gib", 4.0, "largest file, in GiB; what lies beyond is folded into it", least=1e-3, most=1e6
        ),
    ),
    bs=1 << 20,
    qd=64,
    writes=True,
    by_name=True,
)
