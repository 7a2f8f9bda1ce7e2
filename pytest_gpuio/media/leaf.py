"""The class of one physical block device, by its driver, transport and model."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Final

from pytest_gpuio.media.medium import BlockDevice
from pytest_gpuio.media.sysfs import read_text

# Intel's and Solidigm's part numbers: 900P, 905P, P4800X, P4801X, P5800X, P1600X, 800P, M10, and of H10 and H20 the
# 3D XPoint half.
_OPTANE = re.compile(r"optane|SSDPE[D2]1|SSDPEL1|SSDPEK1|SSDPF21Q|HBRPEK\w*O\b", re.IGNORECASE)
# NVMe controllers that are the front of a network volume or of a host's file.
_CLOUD_VOLUMES = (
    "Amazon Elastic Block Store",
    "nvme_card-pd",
    "MSFT NVMe Accelerator",
    "Alibaba Cloud Elastic Block",
)
_VIRTUAL_VENDORS = ("QEMU", "VMware", "VBOX", "Msft", "Google", "XEN")
_FABRICS = ("tcp", "rdma", "fc", "loop")
# Kinds that have no class of their own, each with what can be said of it.
_OTHERS: Final = (
    (re.compile(r"nbd\d+"), "is a network block device: a server elsewhere holds the bytes"),
    (re.compile(r"rbd\d+"), "is a Ceph RADOS block device: a cluster elsewhere holds the bytes"),
    (re.compile(r"drbd\d+"), "is a DRBD device: it is replicated to another machine"),
    (re.compile(r"rnbd\d+"), "is an RDMA network block device: a server elsewhere holds the bytes"),
    (re.compile(r"ublkb\d+"), "is served by a process (ublk): what it stands on cannot be seen from here"),
    (re.compile(r"zd\d+"), "is a ZFS volume, which hides its devices"),
    (re.compile(r"mmcblk\d+\w*"), "is an SD card or eMMC"),
    (re.compile(r"sr\d+"), "is an optical drive"),
)


def classify_leaf(node: Path, device: BlockDevice, root: Path = Path("/")) -> tuple[str, str]:
    """Class (one of MEDIA) and the sentence that justifies it.

    Args:
        node: sysfs folder of the whole disk.
        device: its facts.
        root: folder that holds ``sys``.
    """
    name = device.name
    if re.fullmatch(r"zram\d+|ram\d+", name):
        return "ram", f"{name} is a RAM disk ({'zram' if name.startswith('zram') else 'brd'})."
    # Made through configfs it has whatever name its maker gave it (Linux 6.2 and newer).
    if name.startswith("nullb") or (root / "sys/kernel/config/nullb" / name).is_dir():
        return "null_blk", f"{name} is a null_blk device: it completes requests without storing them."
    if name.startswith("nvme"):
        return _classify_nvme(device)
    if device.transport in ("virtio", "xen") or re.match(r"x?vd[a-z]", name):
        kind = device.transport or "virtual"
        if name.startswith("pmem"):
            # A file of the host, mapped through the host's page cache.
            able = "DAX capable" if device.dax else "not DAX capable"
            return (
                "virtual",
                f"{name} is virtio persistent memory ({able}): the host's file answers, through its cache.",
            )
        return "virtual", f"{name} is a {kind} disk: what it stands on is the host's secret, rotational flag included."
    if name.startswith("pmem"):
        return "pmem", _pmem_sentence(device)
    if re.match(r"sd[a-z]", name):
        return _classify_scsi(node, device)
    for pattern, told in _OTHERS:
        if pattern.fullmatch(name):
            return "unknown", f"{name} {told}."
    return "unknown", f"{name} is of a kind that has no class here (driver {_driver(node) or 'unknown'})."


def _pmem_sentence(device: BlockDevice) -> str:
    mode = device.pmem_mode or "unknown"
    able = {
        True: "DAX capable",
        False: "not DAX capable: ndctl create-namespace -f -e NAMESPACE -m fsdax makes it so, and destroys its content",
        None: "DAX unknown",
    }[device.dax]
    domain = f", persistence domain {device.persistence_domain}" if device.persistence_domain else ""
    return f"{device.name} is a persistent memory namespace on an nvdimm bus (mode {mode}, {able}{domain})."


def _classify_nvme(device: BlockDevice) -> tuple[str, str]:
    name, model = device.name, device.model or "unknown"
    if device.transport in _FABRICS:
        return "nvmeof", f"{name} is NVMe over fabrics (transport {device.transport}, model {model})."
    if any(mark in model for mark in _CLOUD_VOLUMES):
        return "virtual", f"{name} is a cloud volume shown as NVMe (model {model})."
    if device.transport is None:
        return "unknown", f"{name} is NVMe, but sysfs does not name its transport: it may be remote."
    if _OPTANE.search(model):
        return (
            "nvme_optane",
            f"{name} is a local NVMe device of 3D XPoint media (transport {device.transport}, model {model}).",
        )
    if model.startswith("QEMU"):
        return (
            "nvme_ssd",
            f"{name} is an NVMe device emulated by QEMU (transport {device.transport}): its speed is the host's.",
        )
    return "nvme_ssd", f"{name} is a local NVMe device (transport {device.transport}, model {model})."


def _classify_scsi(node: Path, device: BlockDevice) -> tuple[str, str]:
    name, model = device.name, device.model or "unknown"
    vendor = read_text(node / "device/vendor") or "unknown"
    if model.startswith("scsi_debug"):
        return "ram", f"{name} is a scsi_debug disk in memory."
    if device.transport in ("iscsi", "fc"):
        return "unknown", f"{name} is a remote SCSI disk (transport {device.transport}), which has no class here."
    if vendor.startswith(_VIRTUAL_VENDORS) or model.startswith(_VIRTUAL_VENDORS):
        return "virtual", f"{name} is a disk of a virtual machine (vendor {vendor}, model {model})."
    if device.rotational:
        return "hdd", f"{name} is a rotating disk (vendor {vendor}, model {model})."
    if device.rotational is None:
        return (
            "unknown",
            f"{name} is a SCSI disk (vendor {vendor}, model {model}) and sysfs does not say if it rotates.",
        )
    if device.transport == "sata" or vendor == "ATA":
        return "sata_ssd", f"{name} is a SATA disk that does not rotate (model {model})."
    attached = device.transport or "unknown"
    return "unknown", f"{name} does not rotate and is not SATA (transport {attached}, vendor {vendor}, model {model})."


def _driver(node: Path) -> str | None:
    try:
        return (node / "device/driver").resolve(strict=True).name
    except (OSError, RuntimeError):
        return None
