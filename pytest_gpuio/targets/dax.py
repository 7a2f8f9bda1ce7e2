"""Whether a file is mapped without page cache (DAX): what statx, the map itself and the medium say of it."""

from __future__ import annotations

import errno
import mmap
import os
from pathlib import Path
from typing import Final

from pytest_gpuio.core.errors import TargetError, errno_text
from pytest_gpuio.media import DEVDAX, BlockDevice, Medium, classify
from pytest_gpuio.targets.alignment import statx_attributes

_STATX_ATTR_DAX: Final = 0x00200000
_MAP_SHARED_VALIDATE: Final = 0x03
_MAP_SYNC: Final = 0x080000
_SIZE: Final = 1 << 16


def says_dax(fd: int) -> bool | None:
    """``STATX_ATTR_DAX`` of an open file; None where the kernel has no statx."""
    attributes = statx_attributes(fd)
    return None if attributes is None else bool(attributes & _STATX_ATTR_DAX)


def maps_synchronously(fd: int) -> bool:
    """Whether this process has a map of the file that the kernel lists with synchronous faults (``sf``).

    It is the kernel's own word on maps that an engine has made, not what the engine says of itself.
    """
    status = os.fstat(fd)
    wanted = f"{os.major(status.st_dev):02x}:{os.minor(status.st_dev):02x}", str(status.st_ino)
    inside = False
    with open("/proc/self/smaps", encoding="utf-8", errors="replace") as table:  # noqa: PTH123 - read line by line
        for line in table:
            words = line.split()
            if "-" in words[0] and not words[0].endswith(":"):
                inside = len(words) > 4 and (words[3], words[4]) == wanted
            elif inside and words[0] == "VmFlags:" and "sf" in words[1:]:
                return True
    return False


def refuses_dax(target: str | os.PathLike[str]) -> str | None:
    """None when files of the target are mapped without page cache; else one sentence with the remedy.

    Args:
        target: directory, file or device; one that does not exist yet is judged by its nearest existing parent. A
            directory is asked with an unnamed temporary file, which disappears with its descriptor.

    Raises:
        TargetError: nothing above the target can be reached.
    """
    path = Path(target).absolute()
    while not path.exists():
        if path == path.parent:
            raise TargetError(f"{target} has no existing folder above it: name another --gpuio-target.")
        path = path.parent
    medium = classify(path)
    if medium.file_system == DEVDAX:
        return None
    if path.is_block_device():
        return (
            f"{path} is a block device, whose maps go through the page cache: make a file system with DAX on it "
            "(mkfs.ext4 -b 4096; mount -o dax=always), or a devdax device (ndctl create-namespace -m devdax)"
        )
    try:
        fd = os.open(path, os.O_TMPFILE | os.O_RDWR, 0o600) if path.is_dir() else os.open(path, os.O_RDONLY)
    except OSError as error:
        if error.errno in (errno.EOPNOTSUPP, errno.EISDIR):  # file systems without nameless files have no DAX either
            return why_not(path, medium)
        return f"{path} cannot be opened to look at it: {errno_text(error.errno or 0)}. Name another --gpuio-target"
    try:
        if path.is_dir():
            os.ftruncate(fd, _SIZE)
        return None if says_dax(fd) or _map_sync_works(fd) else why_not(path, medium)
    finally:
        os.close(fd)


def why_not(path: Path, medium: Medium) -> str:
    """The sentence for a file that goes through the page cache, by what it lies on."""
    options = medium.mount_options.split(",")
    asked = next((option for option in options if option in ("dax", "dax=always")), None)
    able = [device.name for device in medium.devices if device.dax]
    if asked is not None:
        names = ", ".join(_named(device) for device in medium.devices) or "its device"
        return (
            f"{medium.mount_point} is mounted with {asked}, but the kernel has switched DAX off for {path}: {names}. "
            "See dmesg; it needs an fsdax namespace aligned to 2 MiB and blocks of the page size"
        )
    if able and medium.file_system in ("ext4", "xfs", "ext2"):
        return (
            f"{medium.mount_point} lies on {', '.join(able)}, which has DAX, but is mounted without it: unmount it, "
            "and mount it with -o dax=always"
        )
    if able:
        return f"{medium.file_system} on {', '.join(able)} has no DAX: use ext4 or xfs, mounted with -o dax=always"
    if medium.name == "pmem":
        names = ", ".join(_named(device) for device in medium.devices)
        return f"{path} lies on {names}: ndctl create-namespace -f -e NAMESPACE -m fsdax (destroys its content)"
    return f"{path} lies on {medium.name}, which has no DAX: it needs persistent memory (pmem) as --gpuio-target"


def _named(device: BlockDevice) -> str:
    mode = f"mode {device.pmem_mode}, " if device.pmem_mode else ""
    return f"{device.name} ({mode}queue/dax {'unknown' if device.dax is None else int(device.dax)})"


def _map_sync_works(fd: int) -> bool:
    size = min(os.fstat(fd).st_size, _SIZE)
    if size == 0:
        return False
    try:
        with mmap.mmap(fd, size, flags=_MAP_SHARED_VALIDATE | _MAP_SYNC, prot=mmap.PROT_READ):
            return True
    except (OSError, ValueError):
        return False
