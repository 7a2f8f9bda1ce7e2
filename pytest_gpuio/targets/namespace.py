"""Namespaces that SPDK is to drive: whether the machine uses the device otherwise, and the memory that takes."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from pytest_gpuio.core.errors import TargetError
from pytest_gpuio.core.spdk_address import SpdkAddress
from pytest_gpuio.machine.reading import read_int, read_text
from pytest_gpuio.targets.geometry import round_up

#: Drivers through which SPDK reaches a device.
DRIVERS: Final = ("vfio-pci", "uio_pci_generic", "igb_uio")
#: What SPDK takes for itself: queues, requests, the bounce buffer. Tried: 32 MiB suffice for one queue pair.
_BASE_MIB: Final = 64
_PER_JOB_MIB: Final = 8
_SLOT: Final = 4096


def memory_mib(jobs: int, depth: int, block: int) -> int:
    """MiB of memory that SPDK needs for a cell; a power of two, so that like cells share a child."""
    buffers = jobs * depth * round_up(block, _SLOT)
    # The allocator keeps a head of its own beside every buffer and cannot fill every gap.
    needed = _BASE_MIB + _PER_JOB_MIB * jobs + -(-buffers * 5 // 4 >> 20)
    return 1 << (needed - 1).bit_length()


def refuses_namespace(address: SpdkAddress, root: str = "/") -> str | None:
    """Why SPDK cannot have a device; None when it can, or is reached over the network.

    Args:
        address: of the target.
        root: folder that holds ``sys`` and ``proc``.
    """
    if address.transport != "pci":
        return None
    base = Path(root)
    folder = base / "sys/bus/pci/devices" / address.address
    if not folder.is_dir():
        return f"there is no PCI device {address.address}: see lspci -D -d ::0108"
    if (read_text(folder / "class") or "")[:6] != "0x0108":
        return f"PCI device {address.address} is no NVMe controller (class {read_text(folder / 'class')})"
    driver = folder / "driver"
    name = driver.resolve().name if driver.exists() else None
    if name in DRIVERS:
        return None
    if name is None:
        return f"{address.address} has no driver: bind it to vfio-pci or uio_pci_generic (driverctl, or SPDK's setup)"
    used = _uses(folder, base)
    if used:
        return (
            f"{address.address} is bound to the kernel's driver {name}, and {used}: end that first, and only then bind "
            "it to vfio-pci or uio_pci_generic"
        )
    return (
        f"{address.address} is bound to the kernel's driver {name}: if nothing on it is needed, bind it to vfio-pci or "
        "uio_pci_generic (driverctl set-override ADDRESS vfio-pci)"
    )


def _uses(folder: Path, base: Path) -> str:
    """What the machine uses the controller's namespaces for; empty = nothing that can be seen."""
    numbers = {}
    for disk in sorted(folder.glob("nvme/nvme*/nvme*n*")):
        for node in (disk, *sorted(disk.glob(f"{disk.name}p*"))):
            number = read_text(node / "dev")
            if number:
                numbers[number] = node.name
            holders = sorted(entry.name for entry in (node / "holders").glob("*"))
            if holders:
                return f"its {node.name} is held by {', '.join(holders)}"
    for line in (read_text(base / "proc/self/mountinfo") or "").splitlines():
        fields = line.split(" ")
        if len(fields) > 4 and fields[2] in numbers:
            return f"its {numbers[fields[2]]} is mounted at {fields[4]}"
    for line in (read_text(base / "proc/swaps") or "").splitlines()[1:]:
        name = line.split()[0].rpartition("/")[2]
        if name in numbers.values():
            return f"its {name} is swap space in use"
    return ""


def check_huge_pages(address: SpdkAddress, needed_mib: int, root: str = "/") -> None:
    """Refuses a cell for which too few huge pages are free; NVMe over TCP needs none.

    Raises:
        TargetError: says how many are needed and how to get them.
    """
    if address.transport != "pci":
        return
    base = Path(root) / "sys/kernel/mm/hugepages"
    free = 0
    for folder in base.glob("hugepages-*kB"):
        kib = int(folder.name.removeprefix("hugepages-").removesuffix("kB"))
        free += (read_int(folder / "free_hugepages") or 0) * kib
    if free >= needed_mib << 10:
        return
    raise TargetError(
        f"SPDK needs {needed_mib:,} MiB of huge pages for this cell on {address} and {free >> 10:,} MiB are free: "
        f"sysctl -w vm.nr_hugepages={needed_mib // 2} (2 MiB each), or lower --gpuio-bs, --gpuio-qd or --gpuio-jobs."
    )
