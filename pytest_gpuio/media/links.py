"""The rate of the link that a device hangs on: no device is faster than its wires."""

from __future__ import annotations

import re
from pathlib import Path


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
