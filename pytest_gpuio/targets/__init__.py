"""Laying out target files and devices safely: alignment, geometry, fill, page cache; nothing foreign is written."""

from pytest_gpuio.targets import leftovers
from pytest_gpuio.targets.alignment import Alignment, direct_alignment
from pytest_gpuio.targets.cache import drop, holes, resident_bytes, warm
from pytest_gpuio.targets.dax import maps_synchronously, refuses_dax, says_dax
from pytest_gpuio.targets.devdax_layout import lay_out_devdax, look_at_devdax
from pytest_gpuio.targets.device_layout import lay_out_device, look_at_device
from pytest_gpuio.targets.direct import refuses_direct
from pytest_gpuio.targets.geometry import check_geometry
from pytest_gpuio.targets.header import HEADER_BYTES
from pytest_gpuio.targets.identity import Identity, check_unchanged, identify
from pytest_gpuio.targets.layout import LayoutStopped, TargetFile, check_space, lay_out
from pytest_gpuio.targets.leftovers import make_model_folder
from pytest_gpuio.targets.location import DEFAULT_DIRECTORY, target_file
from pytest_gpuio.targets.namespace import check_huge_pages, memory_mib, refuses_namespace
from pytest_gpuio.targets.namespace_layout import lay_out_namespace
from pytest_gpuio.targets.open import open_target
from pytest_gpuio.targets.raw_device import RawDevice, held, is_allowed, raw_device
from pytest_gpuio.targets.raw_layout import FoundContent

__all__ = [
    "DEFAULT_DIRECTORY",
    "HEADER_BYTES",
    "Alignment",
    "FoundContent",
    "Identity",
    "LayoutStopped",
    "RawDevice",
    "TargetFile",
    "check_geometry",
    "check_huge_pages",
    "check_space",
    "check_unchanged",
    "direct_alignment",
    "drop",
    "held",
    "holes",
    "identify",
    "is_allowed",
    "lay_out",
    "lay_out_devdax",
    "lay_out_device",
    "lay_out_namespace",
    "leftovers",
    "look_at_devdax",
    "look_at_device",
    "make_model_folder",
    "maps_synchronously",
    "memory_mib",
    "open_target",
    "raw_device",
    "refuses_dax",
    "refuses_direct",
    "refuses_namespace",
    "resident_bytes",
    "says_dax",
    "target_file",
    "warm",
]
