"""What lies under a path or device: its class of medium, the evidence, and the block layer's counters."""

from pytest_gpuio.media.classification import DEVDAX, MEMORY_FILE_SYSTEMS, classify
from pytest_gpuio.media.counters import Counters, device_counters, read_counters
from pytest_gpuio.media.generic import generic_block_device
from pytest_gpuio.media.medium import BlockDevice, Medium
from pytest_gpuio.media.nvdimm import devdax_name
from pytest_gpuio.media.sysfs import logical_block_size
from pytest_gpuio.media.top import top_device

__all__ = [
    "DEVDAX",
    "MEMORY_FILE_SYSTEMS",
    "BlockDevice",
    "Counters",
    "Medium",
    "classify",
    "devdax_name",
    "device_counters",
    "generic_block_device",
    "logical_block_size",
    "read_counters",
    "top_device",
]
