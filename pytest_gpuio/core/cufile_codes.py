"""Codes of NVIDIA's cuFile (5001 and up) in words, each with what to do about it."""

from __future__ import annotations

from typing import Final

_DRIVER: Final = "load the module (modprobe nvidia-fs), or use gds_compat"
_TOOL: Final = "this is a bug of the caller: report it with cufile.log"

#: code: (name in cufile.h, what happened, what to do). Names and meanings from NVIDIA's public API reference.
CODES: Final[dict[int, tuple[str, str, str]]] = {
    5001: (
        "DRIVER_NOT_INITIALIZED",
        "neither nvidia-fs nor PCI peer-to-peer DMA is there, and falling back is not allowed",
        "load nvidia-fs (modprobe nvidia-fs), or boot a kernel with CONFIG_PCI_P2PDMA and use NVMe with the open GPU "
        "driver 570 or newer and NVreg_RegistryDwords=RMForceStaticBar1=1; or measure gds_compat",
    ),
    5002: ("DRIVER_INVALID_PROPS", "a setting of cufile.json or of the driver is out of range", "see cufile.log"),
    5003: ("DRIVER_UNSUPPORTED_LIMIT", "a size is out of the driver's range", "see properties in cufile.json"),
    5004: (
        "DRIVER_VERSION_MISMATCH",
        "libcufile and nvidia-fs are of versions that do not fit",
        "install libcufile and nvidia-fs of the same CUDA release",
    ),
    5005: ("DRIVER_VERSION_READ_ERROR", "nvidia-fs does not tell its version", _DRIVER),
    5006: ("DRIVER_CLOSING", "the driver is being closed", "open it again in a new process"),
    5007: (
        "PLATFORM_NOT_SUPPORTED",
        "this platform has no GPUDirect Storage",
        "switch the IOMMU off (intel_iommu=off, amd_iommu=off, or iommu=pt) and ACS on the PCIe bridges; "
        "virtual machines need the GPU and the drive passed through behind one switch",
    ),
    5008: (
        "IO_NOT_SUPPORTED",
        "this file system or device has no direct path",
        "use ext4 mounted with data=ordered, or XFS, on NVMe; or a file system with GPUDirect support",
    ),
    5009: (
        "DEVICE_NOT_SUPPORTED",
        "this GPU has no GPUDirect Storage",
        "use a data-centre or RTX professional GPU, or measure gds_compat",
    ),
    5010: ("NVFS_DRIVER_ERROR", "nvidia-fs failed the call", "see dmesg and /proc/driver/nvidia-fs/stats"),
    5011: ("CUDA_DRIVER_ERROR", "the CUDA driver failed the call", "see nvidia-smi and dmesg (Xid)"),
    5012: ("CUDA_POINTER_INVALID", "the address is no memory that CUDA knows", _TOOL),
    5013: (
        "CUDA_MEMORY_TYPE_INVALID",
        "memory of this kind cannot be reached",
        "use plain device memory, no managed memory",
    ),
    5014: ("CUDA_POINTER_RANGE_ERROR", "the request reaches past its memory", _TOOL),
    5015: ("CUDA_CONTEXT_MISMATCH", "the memory belongs to another CUDA context", _TOOL),
    5016: ("INVALID_MAPPING_SIZE", "the mapping is too large", "lower block size or depth, see max_device_cache_size"),
    5017: ("INVALID_MAPPING_RANGE", "the mapping's range is wrong", _TOOL),
    5018: ("INVALID_FILE_TYPE", "the target is no regular file or block device", "name a file, folder or block device"),
    5019: ("INVALID_FILE_OPEN_FLAG", "the file is open with flags that do not fit", "see cufile.log"),
    5020: (
        "DIO_NOT_SET",
        "the file is not open with O_DIRECT",
        "use --gpuio-cache=direct, on a file system with O_DIRECT",
    ),
    5022: ("INVALID_VALUE", "an argument is not valid", "lower depth or block size; see cufile.log"),
    5023: ("MEMORY_ALREADY_REGISTERED", "the memory is registered already", _TOOL),
    5024: ("MEMORY_NOT_REGISTERED", "the memory is not registered", _TOOL),
    5025: (
        "PERMISSION_DENIED",
        "nvidia-fs or the file may not be used by this user",
        "see the rights of /dev/nvidia-fs* and of the file",
    ),
    5026: ("DRIVER_ALREADY_OPEN", "the driver is open already", _TOOL),
    5027: (
        "HANDLE_NOT_REGISTERED",
        "cuFile does not take this file: its device has no entry in udev's database (a container or a machine without "
        "udevd), or its file system or mount option has no support",
        "run udevd, or bind-mount the host's /run/udev into the container; for the database alone: a file "
        "/run/udev/data/bMAJOR:MINOR with the line E:ID_FS_USAGE=filesystem; tmpfs needs libcufile 1.20",
    ),
    5028: ("HANDLE_ALREADY_REGISTERED", "the descriptor is registered already", _TOOL),
    5029: ("DEVICE_NOT_FOUND", "there is no such GPU", "see nvidia-smi -L and CUDA_VISIBLE_DEVICES"),
    5030: ("INTERNAL_ERROR", "libcufile failed inside", "see cufile.log with logging.level DEBUG"),
    5031: ("GETNEWFD_FAILED", "no descriptor could be had", "raise ulimit -n"),
    5033: (
        "NVFS_SETUP_ERROR",
        "nvidia-fs, or the CUDA driver (libcuda.so.1), cannot be set up",
        "install NVIDIA's driver; " + _DRIVER,
    ),
    5034: ("IO_DISABLED", "cufile.json switches the direct path off here", "see fs and denylist in cufile.json"),
    5035: ("BATCH_SUBMIT_FAILED", "the batch could not be sent", "lower the depth; see cufile.log"),
    5036: (
        "GPU_MEMORY_PINNING_FAILED",
        "no more GPU memory can be pinned: BAR1 is full",
        "see BAR1 in nvidia-smi -q; lower block size x depth x jobs, or enable resizable BAR in the firmware",
    ),
    5037: ("BATCH_FULL", "the batch is full", "lower the depth"),
    5038: ("ASYNC_NOT_SUPPORTED", "stream operations are not supported", "use libcufile 1.7 and driver 535 or newer"),
    5039: ("INTERNAL_BATCH_SETUP_ERROR", "a batch cannot be set up", "see cufile.log"),
    5040: ("INTERNAL_BATCH_SUBMIT_ERROR", "a batch cannot be sent", "see cufile.log"),
    5041: ("INTERNAL_BATCH_GETSTATUS_ERROR", "a batch does not tell its state", "see cufile.log"),
    5042: ("INTERNAL_BATCH_CANCEL_ERROR", "a batch cannot be cancelled", "see cufile.log"),
    5043: ("NOMEM_ERROR", "there is no memory", "lower block size, depth or jobs"),
    5044: ("IO_ERROR", "the device failed the request", "see dmesg"),
    5045: ("INTERNAL_BUF_REGISTER_ERROR", "buffers cannot be registered", "see BAR1 in nvidia-smi -q, and cufile.log"),
    5046: ("HASH_OPR_ERROR", "a table of libcufile is full or broken", "see cufile.log"),
    5047: ("INVALID_CONTEXT_ERROR", "there is no CUDA context", _TOOL),
    5048: ("NVFS_INTERNAL_DRIVER_ERROR", "nvidia-fs failed inside", "see dmesg"),
    5049: (
        "BATCH_NOCOMPAT_ERROR",
        "batches cannot fall back here",
        "use the synchronous path, or enable the direct one",
    ),
}  # fmt: skip


def is_cufile_code(code: int) -> bool:
    """Whether a number, of either sign, is in cuFile's range."""
    return 5000 < abs(code) < 5100


def cufile_text(code: int) -> str:
    """A code in a sentence with the remedy: ``cuFile 5020 DIO_NOT_SET: the file is not ...: use ...``."""
    code = abs(code)
    name, happened, remedy = CODES.get(code, ("unknown", "a code of a newer libcufile", "see cufile.h of its release"))
    return f"cuFile {code} {name}: {happened}: {remedy}"
