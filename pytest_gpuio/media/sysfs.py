"""Single facts of block devices, read from sysfs; what cannot be read is None, never an error."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

_BUS_TRANSPORTS = (
    (re.compile(r"/session\d+/"), "iscsi"),
    (re.compile(r"/rport-"), "fc"),
    (re.compile(r"/usb\d+/"), "usb"),
    (re.compile(r"/virtio\d+/"), "virtio"),
    (re.compile(r"/(?:vbd|vscsi)-\d+/"), "xen"),
    (re.compile(r"/ata\d+/"), "sata"),
    (re.compile(r"/(?:end_device|sas_address)-"), "sas"),
    (re.compile(r"/ndbus\d+/"), "nvdimm"),
)


def read_text(path: Path | str) -> str | None:
    """Content without surrounding blanks; None when it cannot be read or is empty."""
    try:
        # Bare: a text file's layers would cost more than the reading itself, and counters are read at every cell.
        with open(path, "rb", buffering=0) as file:  # noqa: PTH123
            return file.read().decode(errors="replace").strip() or None
    except OSError:
        return None


def read_int(path: Path) -> int | None:
    """Content as a whole number; None when it cannot be read or is something else."""
    text = read_text(path)
    try:
        return int(text) if text is not None else None
    except ValueError:
        return None


def read_flag(path: Path) -> bool | None:
    """Content as yes or no; None when it cannot be read or is no number."""
    value = read_int(path)
    return None if value is None else value != 0


def chosen(text: str | None) -> str | None:
    """The word in brackets of ``none [mq-deadline]``; a single word stands for itself."""
    if text is None:
        return None
    match = re.search(r"\[([^\]]+)\]", text)
    if match is not None:
        return match[1]
    return text if " " not in text else None


def whole_disk(node: Path) -> Path:
    """The folder of the disk that a partition's folder lies in; any other folder itself."""
    return node.parent if (node / "partition").exists() else node


def block_node(device: tuple[int, int], root: Path) -> Path | None:
    """Resolved sysfs folder of a block device number; None when sysfs does not know it."""
    link = root / "sys/dev/block" / f"{device[0]}:{device[1]}"
    try:
        return link.resolve(strict=True)
    except (OSError, RuntimeError):
        return None


def recorded_numbers(name: str, root: Path) -> Iterator[tuple[tuple[int, int], bool]]:
    """Number of the device that a kernel name belongs to in a recorded tree, and whether it is a block device."""
    for kind in ("block", "char"):
        try:
            links = sorted((root / "sys/dev" / kind).iterdir())
        except OSError:
            continue
        for link in links:
            major, _, minor = link.name.partition(":")
            if link.resolve().name == name.replace("/", "!") and major.isdigit() and minor.isdigit():
                yield (int(major), int(minor)), kind == "block"


def logical_block_size(device: tuple[int, int], root: str = "/") -> int | None:
    """Logical block size in bytes of the device itself, not of what it stands on; None when unknown.

    Direct I/O obeys the topmost device: a loop device with 4096-byte sectors over a 512-byte disk needs 4096.
    """
    node = block_node(device, Path(root))
    return None if node is None else read_int(whole_disk(node) / "queue/logical_block_size")


def transport(node: Path) -> str | None:
    """How the device is attached; see :class:`BlockDevice`."""
    told = read_text(node / "device/transport")
    if told is not None:
        return told
    # The bus shows in the folder's own path. The table's order decides where two match: virtio-pmem is virtio before it
    # is an nvdimm, and an iSCSI session is that before the network card's bus.
    for pattern, name in _BUS_TRANSPORTS:
        if pattern.search(f"{node}/"):
            return name
    return None


def numa_node(node: Path) -> int | None:
    """The node of the device, or of the nearest bus device above it."""
    for folder in (node / "device", *node.parents):
        value = read_int(folder / "numa_node")
        if value is not None:
            return value if value >= 0 else None
        if folder.name == "devices":
            break
    return None
