"""The medium of a namespace that SPDK drives: the kernel's block layer does not know it."""

from __future__ import annotations

from pathlib import Path

from pytest_gpuio.core.spdk_address import SpdkAddress
from pytest_gpuio.media.links import pci_link
from pytest_gpuio.media.medium import BlockDevice, Medium
from pytest_gpuio.media.sysfs import read_int

#: Under this label a raw device is compared with raw devices only, never with files.
BLOCK_DEVICE = "block device"


def classify_namespace(address: SpdkAddress, root: Path = Path("/")) -> Medium:
    """What is known before anything is attached; model and firmware are told by the controller later.

    Args:
        address: of the namespace.
        root: folder that holds ``sys``.
    """
    if address.transport == "tcp":
        told = f"{address} is NVMe over TCP, driven by SPDK from user space."
        device = BlockDevice(name=str(address), dev="", transport="tcp")
        return Medium("nvmeof", (told,), BLOCK_DEVICE, devices=(device,))
    folder = root / "sys/bus/pci/devices" / address.address
    node = read_int(folder / "numa_node")
    device = BlockDevice(
        name=str(address),
        dev="",
        transport="pcie",
        pci_address=address.address,
        numa_node=None if node is None or node < 0 else node,
        pci_link=pci_link(folder, "current"),
        pci_link_max=pci_link(folder, "max"),
    )
    told = f"{address} is a local NVMe device (transport pcie), driven by SPDK from user space."
    return Medium("nvme_ssd", (told,), BLOCK_DEVICE, devices=(device,))
