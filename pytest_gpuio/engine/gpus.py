"""The GPUs that the CUDA driver shows; looking at them makes no context on any."""

from __future__ import annotations

import os
import uuid
from dataclasses import dataclass

from pytest_gpuio.engine.native import check, native, new_why, text


@dataclass(frozen=True, slots=True)
class GpuInfo:
    """One GPU.

    Attributes:
        ordinal: the driver's number, from 0, after CUDA_VISIBLE_DEVICES.
        name: of the product. uuid: as ``GPU-...`` in nvidia-smi. bus_id: PCI address, ``0000:17:00.0``.
        bytes: of its memory.
        compute_capability: ``9.0``.
        copy_engines: copies that can run beside each other and beside kernels.
        driver_version: CUDA version that the driver knows, ``13.0``.
    """

    ordinal: int
    name: str
    uuid: str
    bus_id: str
    bytes: int
    compute_capability: str
    copy_engines: int
    driver_version: str


def find_libcuda() -> str | None:
    """The CUDA driver library that ``$GPUIO_LIBCUDA`` names; None = the system's ``libcuda.so.1``."""
    return os.environ.get("GPUIO_LIBCUDA") or None


def gpu_count(library: str | None = None) -> int:
    """Number of GPUs that the CUDA driver shows; at least 1.

    Args:
        library: CUDA driver to open; None = :func:`find_libcuda`.

    Raises:
        EngineError: no driver (errno ELIBACC), no GPU (ENODEV), or the driver failed.
    """
    ffi = native().ffi
    count, why = ffi.new("int32_t *"), new_why()
    check(native().lib.gpuio_gpu_count(library_argument(library), count, why), why, "looking for GPUs")
    return int(count[0])


def gpus(library: str | None = None) -> tuple[GpuInfo, ...]:
    """Every GPU that the CUDA driver shows.

    Raises:
        EngineError: as :func:`gpu_count`.
    """
    return tuple(_describe(ordinal, library) for ordinal in range(gpu_count(library)))


def library_argument(library: str | None) -> object:
    """A C string that names the CUDA driver, or a null pointer."""
    path = library or find_libcuda()
    ffi = native().ffi
    return ffi.NULL if path is None else ffi.new("char[]", os.fsencode(path))


def _describe(ordinal: int, library: str | None) -> GpuInfo:
    ffi = native().ffi
    info, why = ffi.new("struct gpuio_gpu_info *"), new_why()
    check(
        native().lib.gpuio_gpu_describe(library_argument(library), ordinal, info, why), why, f"describing GPU {ordinal}"
    )
    return GpuInfo(
        ordinal=ordinal,
        name=text(info.name),
        uuid=f"GPU-{uuid.UUID(bytes=bytes(ffi.buffer(info.uuid)))}",
        bus_id=text(info.bus_id).lower(),
        bytes=info.bytes,
        compute_capability=f"{info.capability_major}.{info.capability_minor}",
        copy_engines=info.copy_engines,
        driver_version=f"{info.driver_version // 1000}.{info.driver_version % 1000 // 10}",
    )
