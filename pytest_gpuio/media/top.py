"""The device that requests to a path enter the block layer by, before anything is looked through."""

from __future__ import annotations

import os
import stat
from pathlib import Path

from pytest_gpuio.media.describe import describe_device
from pytest_gpuio.media.medium import BlockDevice
from pytest_gpuio.media.sysfs import block_node, whole_disk


def top_device(
    path: str | os.PathLike[str], *, root: str = "/", device: tuple[int, int] | None = None
) -> BlockDevice | None:
    """The whole disk, array or loop device that a file lies on, or that a device node is.

    Args:
        path: an existing file, directory or block device.
        root: folder that holds ``sys``.
        device: ``(major, minor)``; None = ask the path.

    Returns:
        None when nothing of the kind is there (tmpfs, a network) or sysfs does not know its number (btrfs).
    """
    if device is None:
        try:
            status = os.stat(path)  # noqa: PTH116 - may be a plain string
        except OSError:
            return None
        number = status.st_rdev if stat.S_ISBLK(status.st_mode) else status.st_dev
        device = os.major(number), os.minor(number)
    node = block_node(device, Path(root))
    return None if node is None else describe_device(whole_disk(node), Path(root))
