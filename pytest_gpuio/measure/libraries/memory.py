"""Memory that a library's transfers end in, with the ways to look at it from here."""

from __future__ import annotations

import mmap
from typing import Protocol

#: Every block begins at a page, so that each is aligned for O_DIRECT.
PAGE = mmap.PAGESIZE


def stride_of(block: int) -> int:
    """Bytes from one block to the next."""
    return -(-block // PAGE) * PAGE


class Memory(Protocol):
    """A piece of memory in the host or in a GPU.

    Attributes:
        address: where it begins, as pointers of its kind go. size: bytes. gpu: ordinal, -1 = the host's.
    """

    address: int
    size: int
    gpu: int

    def read(self, place: int, size: int) -> bytes:
        """A copy of ``size`` bytes at ``place``."""

    def write(self, place: int, content: bytes | bytearray | memoryview) -> None:
        """Put bytes at ``place``."""

    def close(self) -> None:
        """Give it back."""


class GpuMemory:
    """Memory of a GPU, in its primary context, which libraries of the process use, too.

    Raises:
        EngineError: no driver, no such GPU, or no memory left on it.
    """

    def __init__(self, size: int, gpu: int) -> None:
        from pytest_gpuio.engine.device_memory import DeviceMemory

        self._memory = DeviceMemory(size, gpu)
        self.size, self.gpu, self.address = size, gpu, self._memory.address

    def read(self, place: int, size: int) -> bytes:
        """A copy of ``size`` bytes at ``place``."""
        return self._memory.read(place, size)

    def write(self, place: int, content: bytes | bytearray | memoryview) -> None:
        """Put bytes at ``place``."""
        self._memory.write(place, content)

    def close(self) -> None:
        """Give it back; the library must have let go of it."""
        self._memory.close()


class HostMemory:
    """Anonymous memory of the process, prefaulted, on huge pages where the kernel gives them."""

    gpu = -1

    def __init__(self, size: int) -> None:
        from pytest_gpuio.engine.native import native

        self.size = max(size, PAGE)
        self._map = mmap.mmap(-1, self.size)
        self._map.madvise(mmap.MADV_HUGEPAGE)
        for place in range(0, self.size, PAGE):
            self._map[place] = 0
        ffi = native().ffi
        self._buffer = ffi.from_buffer(self._map)
        self.address = int(ffi.cast("uintptr_t", self._buffer))

    def read(self, place: int, size: int) -> bytes:
        """A copy of ``size`` bytes at ``place``."""
        return self._map[place : place + size]

    def write(self, place: int, content: bytes | bytearray | memoryview) -> None:
        """Put bytes at ``place``."""
        self._map[place : place + len(content)] = content

    def close(self) -> None:
        """Give it back; the library must have let go of it."""
        from pytest_gpuio.engine.native import native

        native().ffi.release(self._buffer)
        self._map.close()
