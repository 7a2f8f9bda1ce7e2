"""Laying out target files safely: alignment, geometry, fill, page cache, and nothing foreign ever written."""

from pytest_gpuio.targets.alignment import Alignment, direct_alignment
from pytest_gpuio.targets.cache import drop, holes, resident_bytes, warm
from pytest_gpuio.targets.direct import refuses_direct
from pytest_gpuio.targets.geometry import check_geometry
from pytest_gpuio.targets.header import HEADER_BYTES
from pytest_gpuio.targets.layout import LayoutStopped, TargetFile, lay_out
from pytest_gpuio.targets.location import DEFAULT_DIRECTORY, target_file
from pytest_gpuio.targets.open import open_target

__all__ = [
    "DEFAULT_DIRECTORY",
    "HEADER_BYTES",
    "Alignment",
    "LayoutStopped",
    "TargetFile",
    "check_geometry",
    "direct_alignment",
    "drop",
    "holes",
    "lay_out",
    "open_target",
    "refuses_direct",
    "resident_bytes",
    "target_file",
    "warm",
]
