"""The offsets that a worker's requests touch, from the very code that the job loop runs."""

from __future__ import annotations

from pytest_gpuio.engine.native import check, native
from pytest_gpuio.engine.spec import RunSpec, to_native


def offsets(spec: RunSpec, worker: int, n: int) -> tuple[list[int], list[int]]:
    """The first ``n`` requests of a worker.

    Returns:
        Offsets in bytes from the start of the file, and operations (0 read, 1 write).

    Raises:
        EngineError: the geometry gives the worker no block, or the order is not known.
    """
    ffi = native().ffi
    struct, keep = to_native(spec)
    places, ops = ffi.new("uint64_t[]", n), ffi.new("uint8_t[]", n)
    code = native().lib.gpuio_offsets(struct, worker, n, places, ops)
    del keep
    check(code, None, f"offsets of worker {worker} of {spec.jobs} in a region of {spec.region_bytes:,} bytes")
    return ffi.unpack(places, n), list(ffi.unpack(ops, n))
