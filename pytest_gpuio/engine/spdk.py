"""An NVMe namespace that SPDK drives in this process: attached once, transferred outside of runs, closed."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Self

from pytest_gpuio.core.errors import EngineError
from pytest_gpuio.core.spdk_address import SpdkAddress
from pytest_gpuio.engine.native import check, native, new_why, text


@dataclass(frozen=True, slots=True)
class NamespaceInfo:
    """What the controller says.

    Attributes:
        model, firmware: of the controller.
        sector: bytes. max_transfer: bytes of one command; larger requests go in parts. bytes: of the namespace.
    """

    model: str
    firmware: str
    sector: int
    max_transfer: int
    bytes: int


class SpdkNamespace:
    """The attached namespace; one per process, since DPDK below SPDK does not start twice. Runs on it close first.

    Args:
        address: of the namespace.
        memory_mib: MiB of memory without huge pages; 0 = huge pages, taken as needed.

    Raises:
        EngineError: SPDK is not installed, does not start, or cannot attach.
    """

    def __init__(self, address: SpdkAddress, memory_mib: int) -> None:
        ffi, lib = native().ffi, native().lib
        self.address = address
        options, out, why = ffi.new("struct gpuio_spdk_options *"), ffi.new("struct gpuio_spdk **"), new_why()
        transport = ffi.new("char[]", address.transport_id.encode())
        pci = ffi.new("char[]", address.address.encode()) if address.transport == "pci" else ffi.NULL
        options.transport, options.pci = transport, pci
        options.nsid, options.memory_mib = address.nsid, memory_mib
        check(lib.gpuio_spdk_open(options, out, why), why, f"attaching {address}")
        self._spdk: Any = out[0]
        info = ffi.new("struct gpuio_spdk_info *")
        lib.gpuio_spdk_describe(self._spdk, info)
        self.info = NamespaceInfo(text(info.model), text(info.firmware), info.sector, info.max_transfer, info.bytes)

    @property
    def pointer(self) -> Any:
        """The engine's handle.

        Raises:
            EngineError: it is closed.
        """
        if self._spdk is None:
            raise EngineError(f"{self.address} is closed")
        return self._spdk

    def _transfer(self, operation: str, buffer: Any, offset: int) -> None:
        lib, why = native().lib, new_why()
        view = native().ffi.from_buffer(buffer) if buffer is not None else native().ffi.NULL
        size = len(view) if buffer is not None else 0
        code = lib.gpuio_spdk_transfer(self.pointer, getattr(lib, operation), view, size, offset, why)
        check(code, why, f"transferring {size} bytes at offset {offset} of {self.address}")

    def read(self, length: int, offset: int) -> bytearray:
        """Whole sectors.

        Raises:
            EngineError: a command failed, or they do not lie in the namespace.
        """
        buffer = bytearray(length)
        self._transfer("GPUIO_READ", buffer, offset)
        return buffer

    def write(self, content: Any, offset: int) -> None:
        """Whole sectors, from any buffer.

        Raises:
            EngineError: as :meth:`read`.
        """
        self._transfer("GPUIO_WRITE", content, offset)

    def flush(self) -> None:
        """Makes what was written durable.

        Raises:
            EngineError: the command failed.
        """
        self._transfer("GPUIO_FSYNC", None, 0)

    def close(self) -> None:
        """Detach; closing twice does nothing."""
        spdk, self._spdk = self._spdk, None
        if spdk is not None:
            native().lib.gpuio_spdk_close(spdk)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
