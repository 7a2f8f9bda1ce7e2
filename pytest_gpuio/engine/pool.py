"""The pool of I/O buffers: 2 MiB aligned, huge-page backed where possible, reused by every run of the process."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from pytest_gpuio.core.errors import EngineError
from pytest_gpuio.engine.native import check, native, new_why


@dataclass(frozen=True, slots=True)
class PoolInfo:
    """Where the pool lies.

    Attributes:
        base: address, 2 MiB aligned; 0 while empty.
        bytes: mapped.
        huge_bytes: backed by huge pages, as /proc/self/smaps said when the pool grew; 0 when unknown.
        map_seconds: mapping and prefaulting it, when it last grew.
        pinned_bytes: page-locked for GPUs; 0 = never asked for. pin_seconds: page-locking it.
    """

    base: int
    bytes: int
    huge_bytes: int
    map_seconds: float = 0.0
    pinned_bytes: int = 0
    pin_seconds: float = 0.0


class Pool:
    """Buffers of one process; one run uses them at a time."""

    def __init__(self) -> None:
        pointer = native().lib.gpuio_pool_new()
        if pointer == native().ffi.NULL:
            raise EngineError("there is no memory for a buffer pool")
        self._pointer: Any = native().ffi.gc(pointer, native().lib.gpuio_pool_free)

    @property
    def pointer(self) -> Any:
        """The ``struct gpuio_pool *``.

        Raises:
            EngineError: the pool is closed.
        """
        if self._pointer is None:
            raise EngineError("the buffer pool is closed")
        return self._pointer

    def reserve(self, size: int) -> None:
        """Grow to at least ``size`` bytes, prefaulted. A pool that grew has moved.

        Raises:
            EngineError: no memory (ENOMEM), or it would have to grow while a run uses it (EBUSY).
        """
        why = new_why()
        check(native().lib.gpuio_pool_reserve(self.pointer, size, why), why, f"reserving {size:,} bytes of buffers")

    def info(self) -> PoolInfo:
        """Where the pool lies now.

        Raises:
            EngineError: the pool is closed.
        """
        ffi = native().ffi
        info = ffi.new("struct gpuio_pool_info *")
        native().lib.gpuio_pool_describe(self.pointer, info)
        return PoolInfo(
            int(ffi.cast("uintptr_t", info.base)),
            info.bytes,
            info.huge_bytes,
            info.map_ns / 1e9,
            info.pinned_bytes,
            info.pin_ns / 1e9,
        )

    def close(self) -> None:
        """Give the memory back; buffers of a run that was given up stay, since I/O may still be in flight into them."""
        if self._pointer is not None:
            native().ffi.release(self._pointer)
            self._pointer = None
