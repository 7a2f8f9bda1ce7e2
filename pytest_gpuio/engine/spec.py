"""What a run is asked to do, and its translation into the engine's struct."""

from __future__ import annotations

import errno
import os
from array import array
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final, Literal

from pytest_gpuio.core.errors import EngineError
from pytest_gpuio.engine.engines import find_library
from pytest_gpuio.engine.gpus import find_libcuda
from pytest_gpuio.engine.native import native
from pytest_gpuio.engine.replay import Replay, fill
from pytest_gpuio.engine.spdk import SpdkNamespace

Order = Literal["sequential", "random", "zipf"]
Sync = Literal["none", "end", "every"]
ArrivalWait = Literal["sleep", "spin"]
GpuCheck = Literal["kernel", "copy"]
Compute = Literal["timer", "kernel"]

#: Knobs that an engine may have; what it really had is :attr:`Run.effective_knobs`.
KNOBS: Final = ("fixed_buffers", "registered_files", "single_issuer", "merged_wait")
_ORDERS: Final[Mapping[str, str]] = {
    "sequential": "GPUIO_SEQUENTIAL",
    "random": "GPUIO_RANDOM",
    "zipf": "GPUIO_ZIPF",
}
_SYNCS: Final[Mapping[str, str]] = {
    "none": "GPUIO_SYNC_NONE",
    "end": "GPUIO_SYNC_END",
    "every": "GPUIO_SYNC_EVERY",
}
_WAITS: Final[Mapping[str, str]] = {"sleep": "GPUIO_WAIT_SLEEP", "spin": "GPUIO_WAIT_SPIN"}
_CHECKS: Final[Mapping[str, str]] = {"kernel": "GPUIO_GPU_KERNEL", "copy": "GPUIO_GPU_COPY"}
_COMPUTES: Final[Mapping[str, str]] = {"timer": "GPUIO_COMPUTE_TIMER", "kernel": "GPUIO_COMPUTE_KERNEL"}


@dataclass(frozen=True, slots=True)
class RunSpec:
    """One cell's engine, geometry and rules.

    Attributes:
        engine: name of an engine.
        fd: open file, with the flags the cell wants; stays the caller's; -1 for ``null``.
        jobs: worker threads. depth: requests in flight per worker. block: bytes per request.
        submit_batch, reap_batch: requests per submit call, completions a reap waits for; 1 to depth.
        order: ``sequential`` (each worker in a slice of its own), ``random`` (no block twice before the region is
            covered) or ``zipf``.
        read_percent: 0 to 100.
        sync: ``none``; ``end`` (fsync inside the window); ``every`` (fdatasync each ``sync_every`` writes).
        knobs: any of :data:`KNOBS`. require_knobs: one that cannot be had is an error instead of being off.
        verify: check every read inside the window.
        region_offset, region_bytes: the part of the file that is used; whole blocks of it.
        zipf_theta: skew, above 0; for ``zipf``.
        seed: of offsets and operations. pattern_seed: of the target's content.
        cpus: one CPU per worker, -1 = not pinned; empty = none pinned.
        timeout_s: deadline of one window in seconds; 0 = none.
        library: the engine's library to open at run time; None = search.
        sq_cpus: for io_uring's submission pollers, one CPU per worker, -1 = wherever; None = none chosen.
        sq_idle_ms: milliseconds that such a poller spins without work before it sleeps; 0 = 50.
        arrivals: open loop: intended start of each request in nanoseconds after the window's start, ascending; request
            ``i`` belongs to worker ``i % jobs``, and a window is the whole schedule. None = closed loop.
        arrival_wait: how the next arrival is waited for: ``sleep`` in the kernel, or ``spin`` on clock and completions.
        gpus: ordinal of the GPU that each worker's bytes end in, one per worker; empty = host memory.
        gpu_library: CUDA driver to open; None = ``$GPUIO_LIBCUDA``, else the system's.
        copy_wait: how the end of a copy is waited for when nothing else can be done: ``spin``, or ``sleep``.
        copy_streams: CUDA streams of each worker; 0 = 1. copy_ahead: staging slots beyond the depth; 0 = chosen.
        replay: records to issue; then order, region, arrivals and sync are not used, windows are :meth:`Run.replay`,
            and ``read_percent`` only says whether there are writes (below 100). None = the engine draws offsets.
        spdk: the attached namespace that the engine ``spdk`` works on; it uses no ``fd``.
        gpu_check: data is checked by a ``kernel`` on the GPU, or after a ``copy`` back.
        compute: how a record chain's consumer computes: a ``timer`` passes; or a ``kernel`` on the GPU does what takes
            that time alone, for one chain and one GPU.
    """

    engine: str
    fd: int = -1
    jobs: int = 1
    depth: int = 1
    block: int = 4096
    submit_batch: int = 1
    reap_batch: int = 1
    order: Order = "sequential"
    read_percent: int = 100
    sync: Sync = "none"
    sync_every: int = 0
    knobs: frozenset[str] = frozenset()
    require_knobs: bool = False
    verify: bool = False
    region_offset: int = 0
    region_bytes: int = 0
    zipf_theta: float = 0.0
    seed: int = 0
    pattern_seed: int = 0
    cpus: tuple[int, ...] = ()
    timeout_s: float = 0.0
    library: str | None = None
    sq_cpus: tuple[int, ...] | None = None
    sq_idle_ms: int = 0
    arrivals: array[int] | memoryview | None = None
    arrival_wait: ArrivalWait = "sleep"
    gpus: tuple[int, ...] = ()
    gpu_library: str | None = None
    copy_wait: ArrivalWait = "spin"
    copy_streams: int = 0
    copy_ahead: int = 0
    gpu_check: GpuCheck = "kernel"
    compute: Compute = "timer"
    replay: Replay | None = None
    spdk: SpdkNamespace | None = None


def _bits(spec: RunSpec) -> int:
    lib = native().lib
    unknown = sorted(spec.knobs.difference(KNOBS))
    if unknown:
        raise EngineError(f"the knobs {', '.join(unknown)} are not known: use {', '.join(KNOBS)}")
    bits = sum(int(getattr(lib, f"GPUIO_KNOB_{name.upper()}")) for name in spec.knobs)
    return bits | (int(lib.GPUIO_KNOB_REQUIRE) if spec.require_knobs else 0)


def knob_names(bits: int) -> frozenset[str]:
    """The knobs in a bit set of the engine."""
    lib = native().lib
    return frozenset(name for name in KNOBS if bits & getattr(lib, f"GPUIO_KNOB_{name.upper()}"))


def _lookup(table: Mapping[str, str], key: str, what: str) -> int:
    if key not in table:
        raise EngineError(f"{what} {key!r} is not known: use {', '.join(table)}")
    return int(getattr(native().lib, table[key]))


def _arrivals(arrivals: array[int] | memoryview, keep: list[Any]) -> tuple[int, Any]:
    """Number of arrivals, and a pointer to them; the engine makes a copy."""
    view = memoryview(arrivals)
    if view.format not in ("Q", "L") or view.itemsize != 8 or view.ndim != 1 or not view.contiguous:
        raise EngineError(
            f"arrivals of {view.ndim} dimensions and item format {view.format!r}: give an array of type code 'Q'",
            errno.EINVAL,
        )
    if len(view) == 0:
        raise EngineError("there are no arrivals: give at least one, or none at all for a closed loop", errno.EINVAL)
    keep.append(native().ffi.from_buffer("uint64_t[]", view))
    return len(view), keep[-1]


def _gpu_part(spec: RunSpec, out: Any, keep: list[Any]) -> None:
    """Fill the ``struct gpuio_gpu_spec`` inside the spec."""
    ffi = native().ffi
    if len(spec.gpus) != spec.jobs:
        raise EngineError(f"{len(spec.gpus)} GPUs are given for {spec.jobs} jobs: give one per job, or none")
    try:
        keep.append(ffi.new("int32_t[]", list(spec.gpus)))
        out.ordinals = keep[-1]
        out.streams, out.ahead = spec.copy_streams, spec.copy_ahead
    except (OverflowError, TypeError) as error:
        raise EngineError(
            f"gpus {spec.gpus!r}, {spec.copy_streams!r} streams, {spec.copy_ahead!r} slots ahead: {error}"
        ) from error
    out.wait = _lookup(_WAITS, spec.copy_wait, "copy wait")
    out.check = _lookup(_CHECKS, spec.gpu_check, "GPU check")
    out.compute = _lookup(_COMPUTES, spec.compute, "compute")
    library = spec.gpu_library or find_libcuda()
    if library is not None:
        keep.append(ffi.new("char[]", os.fsencode(library)))
        out.library = keep[-1]


def to_native(spec: RunSpec) -> tuple[Any, list[Any]]:
    """The ``struct gpuio_spec *`` of a spec, without clock, pool and stop flag.

    Returns:
        The struct, and what must be kept alive as long as it is used.

    Raises:
        EngineError: a name is not known, or a number does not fit the engine's field.
    """
    ffi = native().ffi
    for cpus in (spec.cpus, spec.sq_cpus):
        if cpus and len(cpus) != spec.jobs:
            raise EngineError(f"{len(cpus)} CPUs are given for {spec.jobs} jobs: give one per job, or none")
    if not 0.0 <= spec.timeout_s < 1e9:
        raise EngineError(f"a window's time-out of {spec.timeout_s} s: use 0 (none) to 1e9 s")
    library = spec.library or find_library(spec.engine)
    keep = [ffi.new("char[]", spec.engine.encode())]
    out = ffi.new("struct gpuio_spec *")
    out.engine = keep[0]
    plain = (
        "fd", "jobs", "depth", "block", "submit_batch", "reap_batch", "read_percent", "sync_every", "region_offset",
        "region_bytes", "zipf_theta", "seed", "pattern_seed", "sq_idle_ms",
    )  # fmt: skip
    for name in plain:
        try:
            setattr(out, name, getattr(spec, name))
        except (OverflowError, TypeError) as error:
            raise EngineError(f"{name} = {getattr(spec, name)!r} does not fit the engine: {error}") from error
    out.order = _lookup(_ORDERS, spec.order, "order")
    out.sync = _lookup(_SYNCS, spec.sync, "sync")
    out.knobs = _bits(spec)
    out.verify = int(spec.verify)
    out.timeout_ns = round(spec.timeout_s * 1e9)
    out.arrival_wait = _lookup(_WAITS, spec.arrival_wait, "arrival wait")
    if spec.cpus:
        keep.append(ffi.new("int32_t[]", list(spec.cpus)))
        out.cpus = keep[-1]
    if spec.sq_cpus:
        keep.append(ffi.new("int32_t[]", list(spec.sq_cpus)))
        out.sq_cpus = keep[-1]
    if spec.arrivals is not None:
        out.n_arrivals, out.arrivals = _arrivals(spec.arrivals, keep)
    if spec.compute == "kernel" and not spec.gpus:
        raise EngineError("kernels compute on a GPU: name one, or let computing be a timer", errno.EINVAL)
    if spec.gpus:
        _gpu_part(spec, out.gpu, keep)
    if library is not None:
        keep.append(ffi.new("char[]", os.fsencode(library)))
        out.library = keep[-1]
    if spec.spdk is not None:
        out.spdk = spec.spdk.pointer
    if spec.replay is not None:
        fill(spec.replay, out.replay, keep)
    return out, keep
