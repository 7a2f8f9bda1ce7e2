"""Persistent memory in sysfs: the mode of a namespace, how durable its stores are, and devdax character devices."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Final

from pytest_gpuio.media.medium import BlockDevice
from pytest_gpuio.media.sysfs import numa_node, read_text, transport

# What a namespace, or the device that claims it, calls its mode, in ndctl's words.
_MODES: Final = {"memory": "fsdax", "raw": "raw", "safe": "sector", "dax": "devdax"}
_CLAIMS: Final = {"nd_pfn": "fsdax", "nd_btt": "sector", "nd_dax": "devdax"}
_DEVDAX: Final = re.compile(r"dax\d+\.\d+")


def namespace_mode(node: Path) -> str | None:
    """``fsdax``, ``devdax``, ``sector`` or ``raw``, as ndctl names it; None for what is no namespace.

    Args:
        node: sysfs folder of the block device, or of the device it belongs to.
    """
    for folder in (node / "device", node):
        claim = _CLAIMS.get(read_text(folder / "devtype") or "")
        if claim is not None:
            return claim
        if (read_text(folder / "devtype") or "").startswith("nd_namespace"):
            return _MODES.get(read_text(folder / "mode") or "")
    return None


def persistence_domain(node: Path) -> str | None:
    """From where on a store survives a power cut: ``memory_controller`` or ``cpu_cache``; None when firmware hides it.

    Args:
        node: sysfs folder of a block or devdax device, resolved.
    """
    for folder in node.parents:
        if re.fullmatch(r"region\d+", folder.name):
            told = read_text(folder / "persistence_domain")
            return None if told == "unknown" else told
    return None


def devdax_name(device: tuple[int, int], root: str = "/") -> str | None:
    """Kernel name of a devdax character device; None when the number is none."""
    found = devdax_device(device, Path(root))
    return None if found is None else found[0].name


def devdax_device(device: tuple[int, int], root: Path) -> tuple[BlockDevice, Path] | None:
    """Facts and sysfs folder of a devdax character device (``/dev/dax0.0``); None when the number is none.

    Args:
        device: ``(major, minor)``.
        root: folder that holds ``sys``.
    """
    number = f"{device[0]}:{device[1]}"
    try:
        node = (root / "sys/dev/char" / number).resolve(strict=True)
    except (OSError, RuntimeError):
        return None
    if _DEVDAX.fullmatch(node.name) is None:
        return None
    found = BlockDevice(
        name=node.name,
        dev=number,
        transport=transport(node),
        numa_node=numa_node(node),
        dax=True,
        pmem_mode="devdax",
        persistence_domain=persistence_domain(node),
    )
    return found, node
