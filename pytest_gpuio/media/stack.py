"""Looking through stacked block devices (partitions, dm, md, bcache, loop, NVMe multipath) to what they stand on."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

from pytest_gpuio.media.describe import describe_device
from pytest_gpuio.media.leaf import classify_leaf
from pytest_gpuio.media.medium import BlockDevice
from pytest_gpuio.media.sysfs import block_node, chosen, read_int, read_text, whole_disk

# A device mapper's uuid begins with what made it.
_MAPPERS: Final = (
    ("LVM-", "LVM volume"),
    ("CRYPT-", "encrypted volume, dm-crypt"),
    ("mpath-", "multipath"),
    ("part", "partition by kpartx"),
)
_MULTIPATH_HEAD = re.compile(r"nvme\d+n(?P<namespace>\d+)")


@dataclass(frozen=True, slots=True)
class Stack:
    """What a block device, or a file under a loop device, stands on; fields as in ``Medium``."""

    name: str
    evidence: tuple[str, ...]
    devices: tuple[BlockDevice, ...] = ()
    counted: tuple[str, ...] = ()


#: Classifies the file under a loop device; the set holds the device numbers already walked through.
Backing = Callable[[str, frozenset[str]], Stack]


def look_through(device: tuple[int, int], root: Path, backing: Backing, seen: frozenset[str]) -> Stack:
    """What the block device with this number stands on.

    Args:
        device: ``(major, minor)``.
        root: folder that holds ``sys``.
        backing: classifies the file under a loop device.
        seen: numbers of devices above this one; meeting one again is a cycle and ends the walk.
    """
    number = f"{device[0]}:{device[1]}"
    node = block_node(device, root)
    if node is None:
        return Stack("unknown", (f"sysfs has no block device {number}.",))
    return _walk(node, root, backing, seen)


def merge(parts: Iterable[Stack], subject: str) -> Stack:
    """One stack of several: their class if they share one, else ``unknown`` with the evidence of all."""
    parts = tuple(parts)
    evidence = tuple(dict.fromkeys(sentence for part in parts for sentence in part.evidence))
    classes = sorted({part.name for part in parts})
    devices = tuple({device.name: device for part in parts for device in part.devices}.values())
    # A sum over some of the devices would look like missing traffic, so one without counters spoils all.
    counted = (
        tuple(dict.fromkeys(dev for part in parts for dev in part.counted))
        if all(part.counted for part in parts)
        else ()
    )
    if len(classes) == 1:
        return Stack(classes[0], evidence, devices, counted)
    mixed = f"{subject} stands on several classes: {', '.join(classes)}."
    return Stack("unknown", (*evidence, mixed), devices, counted)


def _walk(node: Path, root: Path, backing: Backing, seen: frozenset[str]) -> Stack:
    disk = whole_disk(node)
    device = describe_device(disk, root)
    key = device.dev or device.name
    if key in seen:
        return Stack("unknown", (f"{device.name} stands on itself: the walk ended there.",))
    below = _below(disk, device, root, backing, seen | {key})
    if below is None:
        name, sentence = classify_leaf(disk, device, root)
        found = Stack(name, (sentence,), (device,), _counted_itself(disk, device))
    else:
        found = below
        if not found.counted:
            found = replace(found, counted=_counted_itself(disk, device))
        if not found.devices:
            found = replace(found, devices=(device,))
    if disk != node:
        found = replace(found, evidence=(f"{node.name} is a partition of {device.name}.", *found.evidence))
    return found


def _below(disk: Path, device: BlockDevice, root: Path, backing: Backing, seen: frozenset[str]) -> Stack | None:
    """The stack under a device that stands on others; None for a device that stands on nothing we can see."""
    if (disk / "loop").is_dir() or device.name.startswith("loop"):
        file = read_text(disk / "loop/backing_file")
        if file is None:
            return Stack("unknown", (f"{device.name} is a loop device without a backing file.",))
        below = backing(file.removesuffix(" (deleted)"), seen)
        return replace(below, evidence=(f"{device.name} is a loop device over {file}.", *below.evidence))
    paths = _multipath_paths(disk, device.name)
    if paths:
        below = merge((_walk(path, root, backing, seen) for path in paths), device.name)
        names = ", ".join(path.name for path in paths)
        return replace(below, evidence=(f"{device.name} is the multipath head of {names}.", *below.evidence))
    slaves = _slaves(disk)
    if slaves:
        below = merge((_walk(slave, root, backing, seen) for slave in slaves), device.name)
        names = ", ".join(slave.name for slave in slaves)
        return replace(below, evidence=(f"{_stacked_name(disk, device.name)} stands on {names}.", *below.evidence))
    return None


def _multipath_paths(disk: Path, name: str) -> tuple[Path, ...]:
    """Folders of the hidden namespaces that an NVMe multipath head spreads over; empty for any other device."""
    match = _MULTIPATH_HEAD.fullmatch(name)
    subsystem = disk / "device"
    # A plain namespace's `device` is its controller, which has a transport; a head's is the subsystem, which has none.
    if match is None or (subsystem / "transport").exists():
        return ()
    hidden = re.compile(rf"nvme\d+c\d+n{match['namespace']}")
    found = []
    for controller in _entries(subsystem, re.compile(r"nvme\d+")):
        found += _entries(controller, hidden)
    return tuple(found)


def _slaves(disk: Path) -> tuple[Path, ...]:
    found = []
    for entry in _entries(disk / "slaves", re.compile(r".+")):
        try:
            found.append(entry.resolve(strict=True))
        except (OSError, RuntimeError):
            continue
    return tuple(found)


def _entries(folder: Path, pattern: re.Pattern[str]) -> list[Path]:
    try:
        return sorted(entry for entry in folder.iterdir() if pattern.fullmatch(entry.name))
    except OSError:
        return []


def _stacked_name(disk: Path, name: str) -> str:
    label = read_text(disk / "dm/name")
    if label is not None:
        uuid = read_text(disk / "dm/uuid") or ""
        kind = next((words for mark, words in _MAPPERS if uuid.startswith(mark)), "device mapper")
        return f"{name} ({kind} {label})"
    level = read_text(disk / "md/level")
    if level is not None:
        return f"{name} (md {level})"
    if name.startswith("bcache"):
        return f"{name} (bcache, {chosen(read_text(disk / 'bcache/cache_mode')) or 'unknown mode'})"
    return name


def _counted_itself(disk: Path, device: BlockDevice) -> tuple[str, ...]:
    """The device's own counters, when it keeps any: pmem for one has them switched off."""
    # zram shows iostats 0 and counts all the same (tried on 6.18).
    switched_off = read_int(disk / "queue/iostats") == 0 and not device.name.startswith("zram")
    if switched_off or not (disk / "stat").exists():
        return ()
    return (device.dev or device.name,)
