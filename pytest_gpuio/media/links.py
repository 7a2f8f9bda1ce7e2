"""The PCI Express or SATA link that a device hangs on: its address and rate; no device is faster than its wires."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Final, Literal

_PCI: Final = re.compile(r"[0-9a-f]{4,8}:[0-9a-f]{2}:[0-9a-f]{2}\.[0-7]")


def link_rate(node: Path, transport: str | None) -> int | None:
    """Bytes per second of the device's link in one direction, line coding taken off; None when unknown.

    PCI Express frames cost some more: a device reaches about nine tenths of it. SATA carries one direction at a time.

    Args:
        node: sysfs folder of the whole disk, resolved.
        transport: as :attr:`BlockDevice.transport`.
    """
    if transport == "pcie":
        return _pcie(node)
    if transport == "sata":
        return _sata(node)
    return None


def pci_folder(node: Path) -> Path | None:
    """Folder of the PCI device that a resolved sysfs folder lies below; None without one."""
    return next((folder for folder in (node, *node.parents) if _PCI.fullmatch(folder.name)), None)


def pci_link(pci: Path, which: Literal["current", "max"]) -> str | None:
    """``16.0 GT/s x4`` of a PCI device's link, as it runs or as it could; None when it has none.

    Args:
        pci: of :func:`pci_folder`.
        which: ``max`` is what the device and the port above it can both do.
    """
    links = [_link(pci, which)]
    if which == "max" and (pci.parent / "max_link_speed").exists():
        links.append(_link(pci.parent, which))
    known = [link for link in links if link is not None]
    if len(known) < len(links):
        return None
    speed, width = min(link[0] for link in known), min(link[1] for link in known)
    return f"{speed} GT/s x{width:.0f}"


def _link(pci: Path, which: str) -> tuple[float, float] | None:
    speed, width = _first_number(pci / f"{which}_link_speed"), _first_number(pci / f"{which}_link_width")
    return (speed, width) if speed and width else None


def _pcie(node: Path) -> int | None:
    for folder in node.parents:
        speed, width = _first_number(folder / "current_link_speed"), _first_number(folder / "current_link_width")
        if speed is not None and width is not None:
            # Up to 5 GT/s 8 bits travel as 10; from 8 GT/s 128 as 130; 64 GT/s frames are taken as free of cost.
            coding = 0.8 if speed <= 5.0 else 128 / 130 if speed < 64.0 else 1.0
            return int(speed * 1e9 * coding / 8 * width) or None
    return None


def _sata(node: Path) -> int | None:
    for folder in node.parents:
        if re.fullmatch(r"ata\d+", folder.name):
            speeds = [_first_number(file) for file in folder.glob("link*/ata_link/link*/sata_spd")]
            known = [speed for speed in speeds if speed is not None]
            return int(max(known) * 1e8) if known else None  # 8 bits travel as 10
    return None


def _first_number(file: Path) -> float | None:
    try:
        match = re.match(r"x?(\d+(?:\.\d+)?)", file.read_text(errors="replace").strip())
    except OSError:
        return None
    return float(match[1]) if match else None
