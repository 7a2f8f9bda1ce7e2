"""The block device of the namespace that an NVMe generic character device (``/dev/ngXnY``) sends commands to."""

from __future__ import annotations

import re
from pathlib import Path

from pytest_gpuio.media.mounts import parse_device
from pytest_gpuio.media.sysfs import read_text

_GENERIC = re.compile(r"ng(?P<tail>\d+n\d+)")


def generic_block_device(device: tuple[int, int], root: str = "/") -> tuple[str, tuple[int, int]] | None:
    """Kernel name and number of the block device of the same namespace.

    Args:
        device: ``(major, minor)`` of a character device.
        root: folder that holds ``sys``.

    Returns:
        None when the device is no NVMe generic one, or its namespace has no block device (another command set).
    """
    node = _char_node(device, Path(root))
    match = _GENERIC.fullmatch(node.name) if node is not None else None
    if node is None or match is None:
        return None
    # Both hang below the controller, or below the subsystem where the namespace has several paths.
    name = f"nvme{match['tail']}"
    for folder in (node.parent / name, Path(root, "sys/block", name)):
        number = parse_device(read_text(folder / "dev") or "")
        if number is not None:
            return name, number
    return None


def _char_node(device: tuple[int, int], root: Path) -> Path | None:
    try:
        return (root / "sys/dev/char" / f"{device[0]}:{device[1]}").resolve(strict=True)
    except (OSError, RuntimeError):
        return None
