"""Memory on a GPU for callers without a run, with copies to and from it."""

from __future__ import annotations

from typing import Any

from pytest_gpuio.core.errors import EngineError
from pytest_gpuio.engine.gpus import library_argument
from pytest_gpuio.engine.native import check, native, new_why


class DeviceMemory:
    """A piece of a GPU's memory; the thread that makes it has the GPU's primary context afterwards.

    Args:
        size: bytes.
        gpu: the CUDA driver's number, from 0.
        library: CUDA driver to open; None = :func:`pytest_gpuio.engine.find_libcuda`.

    Raises:
        EngineError: no driver, no such GPU, or no memory left on it.
    """

    def __init__(self, size: int, gpu: int, library: str | None = None) -> None:
        ffi, lib = native().ffi, native().lib
        out, why = ffi.new("struct gpuio_memory **"), new_why()
        code = lib.gpuio_memory_new(library_argument(library), gpu, size, out, why)
        check(code, why, f"reserving {size:,} bytes on GPU {gpu}")
        self._memory: Any = ffi.gc(out[0], lib.gpuio_memory_free)
        self.size = size
        self.address = int(lib.gpuio_memory_address(self._memory))

    @property
    def _open(self) -> Any:
        if self._memory is None:
            raise EngineError("the GPU memory was given back")
        return self._memory

    def read(self, place: int, size: int) -> bytes:
        """A copy of ``size`` bytes at ``place``.

        Raises:
            EngineError: they are not inside, or the copy failed.
        """
        room, why = native().ffi.new("char[]", size), new_why()
        check(native().lib.gpuio_memory_read(self._open, place, room, size, why), why, "copying from the GPU")
        return bytes(native().ffi.buffer(room, size))

    def write(self, place: int, content: bytes | bytearray | memoryview) -> None:
        """Put bytes at ``place``.

        Raises:
            EngineError: they would not be inside, or the copy failed.
        """
        source, why = native().ffi.from_buffer(content), new_why()
        check(native().lib.gpuio_memory_write(self._open, place, source, len(source), why), why, "copying to the GPU")

    def close(self) -> None:
        """Give it back; closing twice does nothing."""
        if self._memory is not None:
            native().ffi.release(self._memory)
            self._memory = None
