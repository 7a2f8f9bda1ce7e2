"""A raw device as target: which one it is, and whether the machine uses it for anything else."""

from __future__ import annotations

import errno
import fcntl
import os
import stat
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from pytest_gpuio.core.errors import Busy, TargetError, errno_text
from pytest_gpuio.machine.reading import read_int, read_text
from pytest_gpuio.media import devdax_name, generic_block_device

#: The option that permits overwriting a device.
ALLOW_OPTION: Final = "--gpuio-allow-destroy"
#: The option that permits it although the device still carries marks of a former use.
FORCE_OPTION: Final = "--gpuio-force"
_ANOTHER: Final = "or name another --gpuio-target"


@dataclass(frozen=True, slots=True)
class RawDevice:
    """A device node that was named as target.

    Attributes:
        named: as the user named it, maybe a symbolic link.
        node: the device node itself, ``/dev/nvme0n1`` or ``/dev/ng0n1``.
        generic: it takes NVMe commands only (a character device), no reads and writes.
        block: kernel name of the block device with the same bytes; of a devdax device its own.
        number: ``(major, minor)`` of that device.
        devdax: it is persistent memory as a character device, which only a map reads and writes.
    """

    named: str
    node: str
    generic: bool
    block: str
    number: tuple[int, int]
    devdax: bool = False

    def __str__(self) -> str:
        """``/dev/disk/by-id/x (/dev/sdb)`` where the two differ."""
        return self.node if self.named == self.node else f"{self.named} ({self.node})"

    @property
    def block_path(self) -> str:
        """A node of the block device."""
        return f"/dev/{self.block}" if self.generic else self.node


def raw_device(path: str | os.PathLike[str]) -> RawDevice | None:
    """The device that a path names, symbolic links followed; None when it names no device or does not exist.

    Raises:
        TargetError: a character device other than an NVMe generic or a devdax one, or one that sysfs does not know.
    """
    named = os.fspath(path)
    try:
        status = os.stat(named)  # noqa: PTH116 - a plain string path
    except OSError:
        return None
    number = os.major(status.st_rdev), os.minor(status.st_rdev)
    node = os.path.realpath(named)
    if stat.S_ISBLK(status.st_mode):
        folder = Path(os.path.realpath(f"/sys/dev/block/{number[0]}:{number[1]}"))
        return RawDevice(named, node, generic=False, block=folder.name.replace("!", "/"), number=number)
    if not stat.S_ISCHR(status.st_mode):
        return None
    persistent = devdax_name(number)
    if persistent is not None:
        return RawDevice(named, node, generic=False, block=persistent, number=number, devdax=True)
    sibling = generic_block_device(number)
    if sibling is None:
        raise TargetError(
            f"{named} is a character device, and not an NVMe generic one with a block device (/dev/ngXnY), nor a "
            f"devdax one (/dev/daxX.Y): name a directory, a file, a block device or one of those."
        )
    return RawDevice(named, node, generic=True, block=sibling[0], number=sibling[1])


def check_allowed(device: RawDevice, allowed: Sequence[str]) -> None:
    """Refuses a device that the user did not give up by naming it.

    Args:
        device: the target.
        allowed: values of ``--gpuio-allow-destroy``; one must be a name of exactly this device node. A disk's name
            does not stand for its partitions, nor a block device's for its generic device.

    Raises:
        TargetError: says which option to add.
    """
    if is_allowed(device, allowed):
        return
    given = f" ({ALLOW_OPTION} names {', '.join(allowed)})" if allowed else ""
    raise TargetError(
        f"{device} is a raw device, and measuring overwrites what it holds{given}: if nothing on it is needed, add "
        f"{ALLOW_OPTION}={device.node}, {_ANOTHER}."
    )


def is_allowed(device: RawDevice, allowed: Sequence[str]) -> bool:
    """Whether one of the names that the user gave up is a name of exactly this device node."""
    wanted = _identity(device.node)
    return wanted is not None and any(_identity(name) == wanted for name in allowed)


def check_unused(device: RawDevice, root: str = "/", *, force: bool = False) -> None:
    """Refuses a device that is mounted, held, swapped to, backing another, or read-only, always; or is partitioned.

    Args:
        device: the target.
        root: folder that holds ``proc`` and ``sys``.
        force: partitions that nobody uses are no reason.

    Raises:
        TargetError: says what uses it and how to end that.
    """
    base = Path(root)
    if device.devdax:
        _check_no_writer(device)
        return
    link = base / f"sys/dev/block/{device.number[0]}:{device.number[1]}"
    folder = Path(os.path.realpath(link))
    if not folder.is_dir():
        raise TargetError(f"{device}: sysfs has no block device {device.number[0]}:{device.number[1]}: is it gone?")
    _check_kind(device, folder)
    partitions = sorted(entry for entry in folder.iterdir() if (entry / "partition").exists())
    # What is mounted or held on a partition is the more urgent thing to say.
    _check_uses(f"{device}", folder, base)
    for part in partitions:
        _check_uses(f"{device}: its partition {part.name}", part, base)
    if partitions and not force:
        raise TargetError(
            f"{device} holds partitions ({', '.join(part.name for part in partitions)}): name one of them as target, "
            f"add {FORCE_OPTION} if nothing on any of them is needed, {_ANOTHER}."
        )
    _check_no_writer(device)


def _check_no_writer(device: RawDevice) -> None:
    writer = _writer(device)
    if writer is not None:
        raise TargetError(f"{device} is open for writing by process {writer}: end it, {_ANOTHER}.")


@contextmanager
def claimed(device: RawDevice) -> Iterator[int]:
    """Holds the block device exclusively (O_EXCL), so that it cannot be mounted or taken meanwhile.

    Yields:
        a descriptor of the block device, open for reading.

    Raises:
        Busy: somebody holds it already: a mount (of any namespace), RAID, device mapper, ZFS, another run.
        TargetError: it cannot be opened, or is not the device it was.
    """
    path = device.block_path
    try:
        fd = os.open(path, os.O_RDONLY | os.O_EXCL | os.O_CLOEXEC)
        if device.devdax:
            # No claim of the kernel's own: a lock keeps other runs of ours out.
            _lock(fd)
    except OSError as error:
        if error.errno == errno.EBUSY:
            raise Busy(
                f"{device} is held exclusively by something (a mount, also of another container, RAID, device mapper, "
                f"ZFS, or another gpuio run): release it, {_ANOTHER}."
            ) from error
        raise TargetError(f"{path} cannot be opened: {errno_text(error.errno or 0)}.") from error
    try:
        check_same(fd, device)
        yield fd
    finally:
        os.close(fd)


@contextmanager
def held(path: str | os.PathLike[str], *, shared: bool = False) -> Iterator[RawDevice | None]:
    """As :func:`claimed` while a device is measured; does nothing for a file.

    Args:
        path: of the target.
        shared: it is only read, so others may go on using it.

    Yields:
        the device, None for a file.

    Raises:
        Busy: somebody else holds it. TargetError: it cannot be opened.
    """
    device = raw_device(path)
    if device is None:
        yield None
        return
    if shared:
        yield device
        return
    with claimed(device):
        yield device


def check_same(fd: int, device: RawDevice) -> None:
    """Refuses a descriptor of another block device: names are given anew when devices come and go.

    Raises:
        TargetError: it is another one.
    """
    status = os.fstat(fd)
    number = os.major(status.st_rdev), os.minor(status.st_rdev)
    if stat.S_ISBLK(status.st_mode) == device.devdax or number != device.number:
        raise TargetError(f"{device.block_path} is not the device {device.number[0]}:{device.number[1]} any more.")


def _lock(fd: int) -> None:
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError as error:
        os.close(fd)
        raise OSError(errno.EBUSY, "locked") from error


def _identity(name: str) -> tuple[bool, int] | None:
    try:
        status = os.stat(name)  # noqa: PTH116 - a plain string path
    except OSError:
        return None
    device = stat.S_ISBLK(status.st_mode) or stat.S_ISCHR(status.st_mode)
    return (stat.S_ISBLK(status.st_mode), status.st_rdev) if device else None


def _check_kind(device: RawDevice, folder: Path) -> None:
    if read_int(folder / "ro") == 1:
        raise TargetError(f"{device} is read-only: name another --gpuio-target.")
    disk = folder.parent if (folder / "partition").exists() else folder
    zoned = read_text(disk / "queue/zoned")
    if zoned == "host-managed":
        raise TargetError(f"{device} is a host-managed zoned device, which takes no random writes: {_ANOTHER[3:]}.")


def _check_uses(what: str, folder: Path, base: Path) -> None:
    """Refuses when the device or partition of that sysfs folder is in use."""
    number = read_text(folder / "dev") or ""
    for line in (read_text(base / "proc/self/mountinfo") or "").splitlines():
        words, _, rest = line.partition(" - ")
        fields, source = words.split(" "), rest.split(" ")[1:2]
        # btrfs and overlays carry an anonymous number: there the source's name tells.
        if len(fields) > 4 and (fields[2] == number or _names(source, number)):
            raise TargetError(f"{what} is mounted at {fields[4]}: unmount it, {_ANOTHER}.")
    holders = sorted(entry.name for entry in _entries(folder / "holders"))
    if holders:
        raise TargetError(
            f"{what} is held by {', '.join(holders)} (device mapper, LVM, RAID or bcache): take that apart, {_ANOTHER}."
        )
    for line in (read_text(base / "proc/swaps") or "").splitlines()[1:]:
        if _names(line.split()[:1], number):
            raise TargetError(f"{what} is swap space in use: run swapoff, {_ANOTHER}.")
    for loop in sorted((base / "sys/block").glob("loop*")):
        backing = read_text(loop / "loop/backing_file")
        if backing and _names([backing], number):
            raise TargetError(f"{what} backs {loop.name}: detach it (losetup -d /dev/{loop.name}), {_ANOTHER}.")


def _names(paths: Sequence[str], number: str) -> bool:
    """Whether the path (if any) is a node of the block device with this ``major:minor``."""
    identity = _identity(paths[0]) if paths else None
    return identity is not None and identity[0] and f"{os.major(identity[1])}:{os.minor(identity[1])}" == number


def _entries(folder: Path) -> list[Path]:
    try:
        return list(folder.iterdir())
    except OSError:
        return []


def _writer(device: RawDevice) -> str | None:
    """A process that has the block device or its generic device open for writing, as ``1234 (qemu)``; else None.

    A virtual machine or a data base on a raw device claims nothing that the kernel would tell.
    """
    nodes = (device.node, device.block_path)
    wanted = {identity for identity in map(_identity, nodes) if identity is not None}
    for process in Path("/proc").iterdir():
        if not process.name.isdigit() or int(process.name) == os.getpid():
            continue
        for entry in _entries(process / "fd"):
            if _is_open(entry, nodes, wanted) and _writes(process / "fdinfo" / entry.name):
                return f"{process.name} ({read_text(process / 'comm') or 'unknown'})"
    return None


def _is_open(entry: Path, nodes: tuple[str, ...], wanted: set[tuple[bool, int]]) -> bool:
    try:
        named = os.readlink(entry)  # noqa: PTH115 - only the text
    except OSError:
        return False
    # Looking at whatever else is open could wait for a dead network server.
    return (named.startswith("/dev/") or named in nodes) and _identity(str(entry)) in wanted


def _writes(info: Path) -> bool:
    for line in (read_text(info) or "").splitlines():
        key, _, value = line.partition(":")
        if key == "flags":
            return int(value, 8) & os.O_ACCMODE != os.O_RDONLY
    return False
