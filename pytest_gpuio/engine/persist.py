"""Stores to mapped persistent memory that survive a power cut once the call has returned."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pytest_gpuio.core.errors import EngineError
from pytest_gpuio.engine.native import native

if TYPE_CHECKING:
    from _typeshed import ReadableBuffer, WriteableBuffer


def persist(memory: WriteableBuffer, offset: int, data: ReadableBuffer) -> bool:
    """Copy ``data`` to ``offset`` of a map, past the CPU's caches.

    Args:
        memory: the map.
        offset: bytes from its start.
        data: what to store.

    Returns:
        False where this CPU has no instruction that a program could flush with; the bytes are copied all the same.

    Raises:
        EngineError: the data does not lie inside the map, or the map cannot be written.
    """
    ffi = native().ffi
    try:
        with ffi.from_buffer(memory, require_writable=True) as target, ffi.from_buffer(data) as source:
            if not 0 <= offset <= len(target) - len(source):
                raise EngineError(f"{len(source):,} bytes at offset {offset:,} do not fit {len(target):,} bytes of map")
            return bool(native().lib.gpuio_persist(target + offset, source, len(source)))
    except (TypeError, ValueError, BufferError) as error:
        raise EngineError(f"memory for a store must be contiguous, and writable: {error}") from error
