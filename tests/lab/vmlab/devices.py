"""The devices a lab can have: what QEMU emulates, and what the guest builds out of it."""

import os
import shutil
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path

from vmlab import programs
from vmlab.errors import LabUnavailable

#: Of the machine; half of each where it has two nodes.
MEMORY_BYTES = 3 << 30
DISK_BYTES = 256 << 20
#: xfs wants 300 MiB at least, a namespace of pmem whole sections of 128 MiB.
PMEM_BYTES = 512 << 20
_STOCK_MODEL = b"QEMU NVMe Ctrl"
_OPTANE_MODEL = b"INTEL SSDPE21K"


@dataclass(frozen=True, slots=True)
class Device:
    """One device.

    Attributes:
        name: how the lab calls it; ``/dev/lab/NAME`` in the guest where it is a device.
        title: what it is, for people.
        qemu: its options of QEMU, from a folder for images; None = the guest builds it.
        stands_on: other devices that the guest builds it of.
    """

    name: str
    title: str
    qemu: Callable[[Path], list[str]] | None = None
    stands_on: tuple[str, ...] = ()


def image(folder: Path, name: str, size: int = DISK_BYTES) -> Path:
    """A sparse image file, made if it is not there."""
    path = folder / f"{name}.img"
    if not path.exists():
        path.touch()
        os.truncate(path, size)
    return path


def drive(folder: Path, name: str) -> list[str]:
    """Options of the host's end of a disk. What the guest was told is on it survives QEMU, not the host."""
    return ["-drive", f"id={name},if=none,format=raw,file={image(folder, name)},cache=writeback,aio=threads"]


def _namespace(name: str, number: int, sector: int = 512, size: int = DISK_BYTES) -> Device:
    """A namespace of the one NVMe controller ``labnvme``, whose numbers are stable, unlike names of controllers."""

    def qemu(folder: Path) -> list[str]:
        image(folder, name, size)
        blocks = f"logical_block_size={sector},physical_block_size={sector}"
        return [*drive(folder, name), "-device", f"nvme-ns,drive={name},bus=labnvme,nsid={number},{blocks}"]

    return Device(name, f"NVMe namespace with blocks of {sector} bytes", qemu)


def _sata(name: str, port: int, rotation: int, model: str) -> Device:
    def qemu(folder: Path) -> list[str]:
        more = f'bus=ide.{port},rotation_rate={rotation},serial=LAB{name.upper()},model="{model}"'
        return [*drive(folder, name), "-device", f"ide-hd,drive={name},{more}".replace('"', "")]

    return Device(name, f"SATA disk on AHCI, rotation rate {rotation}, model {model}", qemu)


def _virtio(folder: Path) -> list[str]:
    return [*drive(folder, "virtio"), "-device", "virtio-blk-pci,drive=virtio,serial=LABVIRTIO"]


def _nvdimm(name: str) -> Callable[[Path], list[str]]:
    def qemu(folder: Path) -> list[str]:
        path = image(folder, name, PMEM_BYTES)
        memory = f"memory-backend-file,id={name}mem,share=on,mem-path={path},size={PMEM_BYTES}"
        return ["-object", memory, "-device", f"nvdimm,id={name},memdev={name}mem"]

    return qemu


def _virtio_pmem(folder: Path) -> list[str]:
    path = image(folder, "virtio_pmem", PMEM_BYTES)
    memory = f"memory-backend-file,id=virtio_pmemmem,share=on,mem-path={path},size={PMEM_BYTES}"
    return ["-object", memory, "-device", "virtio-pmem-pci,memdev=virtio_pmemmem,id=virtio_pmem"]


def _unplugged_nvme(folder: Path) -> list[str]:
    return [
        *drive(folder, "removable"),
        *("-device", "pcie-root-port,id=labslot,chassis=1,slot=1"),
        *("-device", "nvme,drive=removable,id=removable,bus=labslot,serial=LABREMOVABLE"),
    ]


def _bad_sector_nvme(folder: Path) -> list[str]:
    return ["-device", "nvme,drive=bad_nvme,serial=LABBAD", *_bad_drive(folder, "bad_nvme")]


def _bad_sector_virtio(folder: Path) -> list[str]:
    return ["-device", "virtio-blk-pci,drive=bad_virtio,serial=LABBADVIRTIO", *_bad_drive(folder, "bad_virtio")]


#: The sector of 512 bytes that cannot be read on the disks that have a bad one: 5 MiB into it.
BAD_SECTOR = (5 << 20) // 512


def _bad_drive(folder: Path, name: str) -> list[str]:
    rules = folder / f"{name}.blkdebug"
    rules.write_text(
        f'[inject-error]\nevent = "none"\niotype = "read"\nerrno = "5"\nsector = "{BAD_SECTOR}"\nonce = "off"\n'
    )
    path = image(folder, name)
    return ["-drive", f"id={name},if=none,cache=writeback,format=raw,file=blkdebug:{rules}:{path}"]


def _slow_nvme(folder: Path) -> list[str]:
    return [*drive(folder, "throttled"), "-device", "nvme,drive=throttled,serial=LABTHROTTLED"]


def _numa_nvme(folder: Path) -> list[str]:
    """A drive of node 0: an expander bus of that node, in a machine whose memory and processors are split in two."""
    half = MEMORY_BYTES // 2
    nodes = []
    for node in (0, 1):
        nodes += ["-object", f"memory-backend-ram,id=node{node},size={half}"]
        nodes += ["-numa", f"node,nodeid={node},cpus={node},memdev=node{node}"]
    return [
        *nodes,
        *drive(folder, "numa_nvme"),
        *("-device", "pxb-pcie,id=numabus,bus_nr=64,numa_node=0,bus=pcie.0"),
        *("-device", "pcie-root-port,id=numaport,bus=numabus,chassis=9"),
        *("-device", "nvme,drive=numa_nvme,serial=LABNUMA,bus=numaport"),
    ]


def _iommu(_folder: Path) -> list[str]:
    # Addresses of 39 bits, the default, are too few for what SPDK maps.
    return ["-device", "intel-iommu,aw-bits=48"]


DEVICES = {
    device.name: device
    for device in (
        # By name only: most machines are faster without.
        Device("iommu", "IOMMU, for vfio-pci", _iommu),
        _namespace("nvme", 1),
        _namespace("nvme4k", 2, 4096),
        _namespace("files", 3),
        _namespace("under_dm", 4),
        _namespace("under_md0", 5),
        _namespace("under_md1", 6),
        _namespace("under_dax_off", 7, size=PMEM_BYTES),
        Device("nvme_generic", "NVMe passthrough, /dev/ngXnY", stands_on=("nvme",)),
        Device("nvme4k_generic", "NVMe passthrough, /dev/ngXnY, blocks of 4096 bytes", stands_on=("nvme4k",)),
        Device("dm", "dm-linear on NVMe", stands_on=("under_dm",)),
        Device("md", "md raid0 of two NVMe namespaces", stands_on=("under_md0", "under_md1")),
        Device("ext4", "folder of ext4 on NVMe", stands_on=("files",)),
        Device("loop", "loop device over a file of ext4 on NVMe", stands_on=("ext4",)),
        _sata("sata_ssd", 0, 1, "INTEL SSDSC2KB480G8"),
        _sata("hdd", 1, 7200, "ST1000NM0033"),
        Device("virtio", "virtio-blk disk", _virtio),
        Device("pmem", "nvdimm with an fsdax namespace, as a block device", _nvdimm("pmem")),
        Device("under_dax", "nvdimm with an fsdax namespace", _nvdimm("under_dax")),
        Device("dax", "folder of xfs with DAX on an nvdimm", stands_on=("under_dax",)),
        Device("dax_off", "folder of xfs on NVMe, mounted dax=always", stands_on=("under_dax_off",)),
        Device("devdax", "nvdimm with a devdax namespace", _nvdimm("devdax")),
        Device("virtio_pmem", "virtio-pmem, DAX without MAP_SYNC", _virtio_pmem),
        Device("null_blk", "null_blk with memory and poll queues"),
        Device("zram", "zram"),
        Device("brd", "RAM disk (brd)"),
        Device("tmpfs", "folder of tmpfs"),
        Device("nvmeof", "NVMe/TCP to this kernel's own target over 127.0.0.1"),
        # It splits the machine into two nodes, so that it comes by name only.
        Device("numa_nvme", "NVMe on the first of two NUMA nodes", _numa_nvme),
        # Those that break, each for one suite of faults.
        Device("removable", "NVMe in a PCI Express slot, for QEMU's device_del", _unplugged_nvme),
        Device("bad_nvme", "NVMe with a sector that cannot be read", _bad_sector_nvme),
        Device("bad_virtio", "virtio disk with a sector that cannot be read", _bad_sector_virtio),
        Device("throttled", "NVMe for QEMU's block_set_io_throttle", _slow_nvme),
    )
}

#: What ``--devices all`` means: everything that works on a machine of one node.
_BY_NAME = ("iommu", "numa_nvme", "removable", "bad_nvme", "bad_virtio", "throttled")
ALL = tuple(name for name in DEVICES if name not in _BY_NAME)


def closure(names: Iterable[str]) -> tuple[str, ...]:
    """The devices and what they stand on, foundations first.

    Raises:
        LabUnavailable: there is no such device.
    """
    found: dict[str, None] = {}

    def add(name: str) -> None:
        if name not in DEVICES:
            raise LabUnavailable(f"the lab has no device {name!r}: all, or some of {', '.join(DEVICES)}")
        for below in DEVICES[name].stands_on:
            add(below)
        found[name] = None

    for name in names:
        for each in ALL if name == "all" else (name,):
            add(each)
    return tuple(found)


def qemu_options(names: Iterable[str], folder: Path) -> list[str]:
    """QEMU's options for devices; their images are made in the folder."""
    options: list[str] = []
    # In their order, which some buses depend on, but an IOMMU comes before what it translates for.
    ordered = sorted(names, key=lambda name: name != "iommu")
    emulated = [DEVICES[name] for name in ordered if DEVICES[name].qemu is not None]
    if any("bus=labnvme" in word for device in emulated for word in device.qemu(folder)):
        options += ["-device", "nvme,id=labnvme,serial=LABNVME"]
    for device in emulated:
        options += device.qemu(folder)
    return options


def optane_qemu(folder: Path) -> tuple[str, ...]:
    """A copy of QEMU whose NVMe controllers say they are Optane, which no option of this QEMU can make them say.

    Raises:
        LabUnavailable: this QEMU spells its model in another way.
    """
    program = Path(programs.find("qemu-system-x86_64") or "")
    code = program.read_bytes()
    if _STOCK_MODEL not in code:
        raise LabUnavailable(f"{program} has no model string {_STOCK_MODEL.decode()} to replace")
    copy = folder / "qemu-optane"
    copy.write_bytes(code.replace(_STOCK_MODEL, _OPTANE_MODEL))
    shutil.copymode(program, copy)
    # A copy elsewhere does not find its own data.
    places = ("/usr/share/qemu", "/usr/share/seabios", "/usr/lib/ipxe/qemu")
    return (str(copy), *(word for place in places for word in ("-L", place)))
