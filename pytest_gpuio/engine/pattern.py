"""The content of a target: position dependent, incompressible, checkable at any 512-byte sector."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pytest_gpuio.core.errors import EngineError
from pytest_gpuio.engine.native import native

if TYPE_CHECKING:
    from _typeshed import ReadableBuffer, WriteableBuffer


def _memory(buffer: ReadableBuffer, offset: int, *, writable: bool) -> Any:
    sector = native().lib.GPUIO_SECTOR
    try:
        memory = native().ffi.from_buffer(buffer, require_writable=writable)
    except (TypeError, ValueError, BufferError) as error:
        raise EngineError(f"the pattern needs contiguous{' writable' if writable else ''} memory: {error}") from error
    if len(memory) % sector or offset % sector or offset < 0:
        raise EngineError(
            f"{len(memory):,} bytes at offset {offset:,} are not whole sectors of {sector} bytes, which the pattern is "
            "made of"
        )
    return memory


def pattern_fill(buffer: WriteableBuffer, offset: int, seed: int) -> None:
    """Fill a buffer with what belongs at ``offset`` of a target.

    Args:
        buffer: writable memory, whole sectors of 512 bytes.
        offset: bytes from the start of the file; a multiple of 512.
        seed: the target's pattern seed, 0 to 2^64 - 1.

    Raises:
        EngineError: the memory cannot be written or is not whole sectors.
    """
    memory = _memory(buffer, offset, writable=True)
    native().lib.gpuio_pattern_fill(memory, len(memory), offset, seed)


def pattern_check(buffer: ReadableBuffer, offset: int, seed: int) -> tuple[int, int]:
    """Check a buffer against what belongs at ``offset`` of a target.

    Args:
        buffer: memory, whole sectors of 512 bytes.
        offset: bytes from the start of the file; a multiple of 512.
        seed: the target's pattern seed.

    Returns:
        Number of bad sectors, and the file offset of the first one (0 when there is none).

    Raises:
        EngineError: the memory is not whole sectors.
    """
    memory = _memory(buffer, offset, writable=False)
    first = native().ffi.new("uint64_t *")
    return int(native().lib.gpuio_pattern_check(memory, len(memory), offset, seed, first)), int(first[0])
