"""The class of medium that a path lies on, from the mount table and sysfs."""

from __future__ import annotations

import os
import stat
from pathlib import Path
from typing import Final

from pytest_gpuio.core.spdk_address import spdk_address
from pytest_gpuio.media.generic import generic_block_device
from pytest_gpuio.media.medium import Medium
from pytest_gpuio.media.mounts import Mount, mount_of, parse_device, read_mounts
from pytest_gpuio.media.namespace import BLOCK_DEVICE, classify_namespace
from pytest_gpuio.media.nvdimm import devdax_device
from pytest_gpuio.media.stack import Stack, look_through, merge
from pytest_gpuio.media.sysfs import read_text, recorded_numbers

#: What stands for a file system's type on a devdax device.
DEVDAX: Final = "devdax"

#: File systems whose files lie in memory and nowhere else.
MEMORY_FILE_SYSTEMS = frozenset({"tmpfs", "ramfs", "devtmpfs", "hugetlbfs"})
_NETWORK = frozenset(
    {
        "nfs", "nfs4", "lustre", "beegfs", "fhgfs", "wekafs", "gpfs", "ceph", "cifs", "smb3", "smbfs", "9p", "afs",
        "panfs", "pvfs2", "orangefs", "glusterfs", "fuse.hf3fs", "fuse.ceph", "fuse.ceph-fuse", "fuse.glusterfs",
        "fuse.sshfs", "fuse.juicefs", "fuse.JuiceFS", "fuse.s3fs", "fuse.gcsfuse", "fuse.goofys", "fuse.rclone",
        "fuse.mountpoint-s3", "fuse.dfuse", "fuse.daos", "fuse.quobyte", "fuse.smb-network",
    }
)  # fmt: skip
_SUPERBLOCK_OF_MANY = frozenset({"zfs", "bcachefs", "btrfs"})


# Options that only VAST's own NFS client knows.
_VAST_OPTIONS = ("remoteports", "localports", "spread_reads", "spread_writes")
_UNCOUNTED = "Device counters are unknown: no block device of this machine carries the traffic."


def classify(path: str | os.PathLike[str], *, root: str = "/", device: tuple[int, int] | None = None) -> Medium:
    """What ``path`` lies on.

    A path that does not exist yet is classified by its nearest existing parent; a block device node by the device, an
    NVMe generic device by its namespace's block device, and a devdax device by itself.

    Args:
        path: file, directory or device; relative paths are taken from the working directory.
        root: folder that holds ``proc`` and ``sys``, so that trees can be faked.
        device: ``(major, minor)`` of the path's ``st_dev``. None = ask the path itself, or, under another root, believe
            the mount table.
    """
    address = spdk_address(path)
    if address is not None:
        return classify_namespace(address, Path(root))
    return _classify(os.path.abspath(path), Path(root), device, frozenset())  # noqa: PTH100 - Path.absolute keeps ".."


def _classify(path: str, root: Path, device: tuple[int, int] | None, seen: frozenset[str]) -> Medium:
    existing = _nearest_existing(path, root)
    if device is None and root == Path("/"):
        status = _status(existing)
        if status is not None and (stat.S_ISBLK(status.st_mode) or stat.S_ISCHR(status.st_mode)):
            number = os.major(status.st_rdev), os.minor(status.st_rdev)
            found = _node(existing, number, root, seen, block=stat.S_ISBLK(status.st_mode))
            if found is not None:
                return found
        if status is not None:
            device = os.major(status.st_dev), os.minor(status.st_dev)
    elif device is None and path.startswith("/dev/"):
        for number, block in recorded_numbers(path.removeprefix("/dev/"), root):
            found = _node(path, number, root, seen, block=block)
            if found is not None:
                return found
    mount = mount_of(existing, read_mounts(root), device)
    if mount is None:
        told = f"The mount table has no file system for {existing}"
        if device is None or device[0] == 0:
            return Medium("unknown", (f"{told}.",))
        # A chroot sees only mounts below its root, but the file's own device number still tells what it lies on.
        below = _look(device, root, seen)
        evidence = (f"{told} (a chroot?): it lies on device {device[0]}:{device[1]}.", *below.evidence)
        return Medium(below.name, evidence, devices=below.devices, counted=below.counted)
    below = _classify_mount(mount, root, device or mount.device, seen)
    where = f"{existing} lies on {mount.file_system} mounted at {mount.point}."
    return Medium(
        name=below.name,
        evidence=(where, *below.evidence),
        file_system=mount.file_system,
        mount_point=mount.point,
        mount_options=mount.options,
        mount_source=mount.source,
        devices=below.devices,
        counted=below.counted,
    )


def _node(path: str, number: tuple[int, int], root: Path, seen: frozenset[str], *, block: bool) -> Medium | None:
    """The medium of a device node; None for a character device that is no medium (it lies on its file system)."""
    if block:
        found = _look(number, root, seen)
        return Medium(found.name, found.evidence, BLOCK_DEVICE, devices=found.devices, counted=found.counted)
    sibling = generic_block_device(number, str(root))
    if sibling is not None:
        return _generic(path, sibling, root, seen)
    devdax = devdax_device(number, root)
    if devdax is None:
        return None
    device, folder = devdax
    if device.transport == "nvdimm":
        domain = f", persistence domain {device.persistence_domain}" if device.persistence_domain else ""
        told = (
            f"{device.name} is persistent memory as a character device (mode devdax{domain}): only a mapping reads it."
        )
        return Medium("pmem", (told,), DEVDAX, devices=(device,))
    told = f"{device.name} is a DAX device on no nvdimm bus ({folder.parent.name}): memory of unknown persistence."
    return Medium("unknown", (told,), DEVDAX, devices=(device,))


def _generic(path: str, sibling: tuple[str, tuple[int, int]], root: Path, seen: frozenset[str]) -> Medium:
    name, number = sibling
    found = _look(number, root, seen)
    # Commands go past what the block layer counts, unless it was told to count them too (Linux 6.13).
    counts = read_text(root / f"sys/block/{name}/queue/iostats_passthrough") == "1"
    evidence = (f"{path} sends NVMe commands to the namespace of {name}.", *found.evidence)
    counted = found.counted if counts else ()
    return Medium(found.name, evidence, "NVMe generic device", devices=found.devices, counted=counted)


def _classify_mount(mount: Mount, root: Path, device: tuple[int, int], seen: frozenset[str]) -> Stack:
    kind = mount.file_system
    if kind in MEMORY_FILE_SYSTEMS:
        return Stack("ram", (f"{kind} keeps its files in memory.",))
    if kind in _NETWORK:
        told = f"{kind} is a network file system (from {mount.source}{_nfs_facts(mount)})."
        return Stack("network_fs", (told, _UNCOUNTED))
    if kind == "virtiofs":
        return Stack("virtual", ("virtiofs is a folder of the virtual machine's host.",))
    if kind == "overlay":
        return _classify_overlay(mount, root, seen)
    if kind == "btrfs":
        members = _btrfs_members(mount.source, root)
        if members:
            found = merge((_look(member, root, seen) for member in members), "The btrfs file system")
            return Stack(found.name, found.evidence, found.devices, found.counted)
    if kind in _SUPERBLOCK_OF_MANY:
        return Stack("unknown", (f"{kind} hides its devices behind an anonymous number: name its medium yourself.",))
    if kind == "fuse" or (kind.startswith("fuse.")):
        return Stack("unknown", (f"{kind} is served by a process: what it stands on cannot be seen from here.",))
    # The superblock's number: st_dev of a file may be an anonymous one where the two differ.
    number = device if device[0] != 0 else mount.device
    if number[0] == 0:
        return Stack("unknown", (f"{kind} has no block device (anonymous number {number[0]}:{number[1]}).",))
    return _look(number, root, seen)


def _nfs_facts(mount: Mount) -> str:
    """What of an NFS mount's options decides its speed, in words; empty for other file systems."""
    if not mount.file_system.startswith("nfs"):
        return ""
    told = [f"{name} {value}" for name in ("vers", "proto", "nconnect", "rsize") if (value := mount.option(name))]
    words = {word.partition("=")[0] for word in mount.options.split(",")}
    vast = [name for name in _VAST_OPTIONS if name in words]
    if vast:
        told.append(f"VAST's client, by its option {vast[0]}")
    return "".join(f", {fact}" for fact in told)


def _classify_overlay(mount: Mount, root: Path, seen: frozenset[str]) -> Stack:
    upper = mount.option("upperdir")
    key = f"overlay {mount.point}"
    if upper is None or key in seen or not os.path.exists(_under(root, upper)):  # noqa: PTH110 - may hold any bytes
        why = "is read-only (no upperdir)" if upper is None else f"writes to {upper}, which is not visible from here"
        return Stack("unknown", (f"This overlay {why}: name another target, such as a volume of the container.",))
    below = _classify(upper, root, None, seen | {key})
    return Stack(
        below.name, (f"New files of this overlay lie in {upper}.", *below.evidence), below.devices, below.counted
    )


def _btrfs_members(source: str, root: Path) -> list[tuple[int, int]]:
    """Numbers of all devices of the btrfs file system that ``source`` is one device of; empty when unknown."""
    name = os.path.basename(os.path.realpath(_under(root, source)))  # noqa: PTH119 - source may hold any bytes
    for folder in sorted((root / "sys/fs/btrfs").glob("*/devices")):
        if (folder / name).exists():
            links = sorted(folder.iterdir())
            numbers = [_number(link) for link in links]
            return [number for number in numbers if number is not None] if all(numbers) else []
    return []


def _number(folder: Path) -> tuple[int, int] | None:
    return parse_device(read_text(folder / "dev") or "")


def _look(device: tuple[int, int], root: Path, seen: frozenset[str]) -> Stack:
    def backing(file: str, seen: frozenset[str]) -> Stack:
        below = _classify(file, root, None, seen)
        return Stack(below.name, below.evidence, below.devices, below.counted)

    return look_through(device, root, backing, seen)


def _nearest_existing(path: str, root: Path) -> str:
    """The path or its nearest existing parent, symbolic links resolved; under another root links stay as they are."""
    here = Path(path)
    for candidate in (here, *here.parents):
        if os.path.lexists(_under(root, str(candidate))):
            return os.path.realpath(candidate) if root == Path("/") else str(candidate)
    return "/"


def _under(root: Path, path: str) -> str:
    return str(root / path.lstrip("/"))


def _status(path: str) -> os.stat_result | None:
    try:
        return os.stat(path)  # noqa: PTH116 - a plain string path
    except OSError:
        return None
