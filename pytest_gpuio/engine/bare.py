"""The yardstick: an io_uring loop that measures nothing, to tell what the measuring costs."""

from __future__ import annotations

import os
from collections.abc import Collection
from dataclasses import dataclass

from pytest_gpuio.core.errors import EngineError
from pytest_gpuio.engine.clock import Clock
from pytest_gpuio.engine.native import check, native, new_why
from pytest_gpuio.engine.pool import Pool
from pytest_gpuio.engine.spec import RunSpec, to_native

_NO_FILE_BYTES = 1 << 40


@dataclass(frozen=True, slots=True)
class BareResult:
    """What the loop did.

    Attributes:
        ios: requests completed.
        seconds: from the first submission to the last completion.
        cpu_seconds: of its one thread; kernel helper threads are not in it.
    """

    ios: int
    seconds: float
    cpu_seconds: float


def bare_uring(
    *,
    path: str | os.PathLike[str] = "",
    offset: int = 0,
    region_bytes: int = 0,
    depth: int = 32,
    batch: int = 1,
    block: int = 4096,
    seconds: float = 1.0,
    cpu: int = -1,
    split: bool = False,
    knobs: Collection[str] = (),
    direct: bool = False,
    seed: int = 0,
) -> BareResult:
    """Read at random, or send NOPs, through io_uring without taking a single time or count of kinds.

    Library, ring, buffers and offsets are those of a run of the engine ``io_uring`` or ``io_uring_nop`` with the same
    numbers; the two rates tell what stamps, histograms and checks cost.

    Args:
        path: file or device, opened for reading; empty = NOPs.
        offset: first byte of the part of it that is read.
        region_bytes: length of that part.
        depth: requests in flight.
        batch: requests per submit call, and completions waited for.
        block: bytes of each request.
        seconds: how long, about.
        cpu: the thread's CPU; -1 = not pinned.
        split: submit and wait in calls of their own instead of in one (``merged_wait`` of a run).
        knobs: of a run; ``merged_wait`` is set by ``split``.
        direct: open with O_DIRECT.
        seed: of the offsets.

    Raises:
        EngineError: io_uring cannot be had, the numbers cannot work, or a request failed or was short.
        OSError: the file cannot be opened.
    """
    nop = not os.fspath(path)
    asked = frozenset(knobs) - {"merged_wait"} | (frozenset() if split else {"merged_wait"})
    fd = -1 if nop else os.open(path, os.O_RDONLY | os.O_CLOEXEC | (os.O_DIRECT if direct else 0))
    try:
        spec = RunSpec(
            engine="io_uring_nop" if nop else "io_uring", fd=fd, depth=depth, block=block, submit_batch=batch,
            reap_batch=batch, order="random", knobs=asked, region_offset=0 if nop else offset,
            region_bytes=_NO_FILE_BYTES if nop else region_bytes, seed=seed, cpus=(cpu,),
        )  # fmt: skip
        return _measure(spec, seconds)
    finally:
        if fd >= 0:
            os.close(fd)


def _measure(spec: RunSpec, seconds: float) -> BareResult:
    if not 0.0 < seconds < 1e6:
        raise EngineError(f"a bare loop of {seconds} s: use more than 0 and less than 1e6 s")
    struct, keep = to_native(spec)
    clock, pool = Clock.calibrate("monotonic"), Pool()
    try:
        struct.clock, struct.pool = clock.pointer, pool.pointer
        out, why = native().ffi.new("struct gpuio_bare_result *"), new_why()
        code = native().lib.gpuio_bare_uring(struct, round(seconds * 1e9), out, why)
        del keep
        check(code, why, "the bare loop")
    finally:
        pool.close()
    return BareResult(int(out.ios), out.ns / 1e9, out.cpu_ns / 1e9)
