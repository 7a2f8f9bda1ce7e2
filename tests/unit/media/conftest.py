"""Fake /proc and /sys trees with the facts of real machines (a 6.12 kernel under QEMU, where not said otherwise)."""

import os
import re
from functools import cache
from itertools import count
from pathlib import Path

import pytest

PCI = "sys/devices/pci0000:00"
STAT = "100 50 2048 10 200 20 4096 30 3 40 50 0 0 0 0 0 0"


class Tree:
    """A root folder that block devices and mounts are added to."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self._next_mount = 20
        (root / "sys/dev/block").mkdir(parents=True)
        (root / "sys/block").mkdir(parents=True)
        (root / "proc/self").mkdir(parents=True)

    def write(self, path: str, text: object) -> Path:
        file = self.root / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(f"{text}\n")
        return file

    def link(self, path: str, to: str) -> None:
        """A relative symbolic link, as sysfs makes them."""
        here = self.root / path
        here.parent.mkdir(parents=True, exist_ok=True)
        here.symlink_to(os.path.relpath(self.root / to, here.parent))

    def block(self, folder: str, number: str | None, *, device=None, stat=STAT, **queue) -> str:
        """A block device: its folder, the ``device`` link's target folder and files, and its queue's files."""
        name = Path(folder).name
        facts = {"rotational": 0, "io_poll": 0, "logical_block_size": 512, "physical_block_size": 512, "iostats": 1}
        facts |= {"max_sectors_kb": 1280, "max_segments": 128, "write_cache": "write back"} | queue
        for key, value in facts.items():
            self.write(f"{folder}/queue/{key}", value)
        self.write(f"{folder}/stat", stat)
        (self.root / folder / "slaves").mkdir()
        self.link(f"sys/block/{name}", folder)
        if number is not None:
            self.write(f"{folder}/dev", number)
            self.link(f"sys/dev/block/{number}", folder)
        if device is not None:
            (self.root / device).mkdir(parents=True, exist_ok=True)
            self.link(f"{folder}/device", device)
        return folder

    def partition(self, disk: str, name: str, number: str) -> str:
        folder = f"{disk}/{name}"
        self.write(f"{folder}/partition", 1)
        self.write(f"{folder}/dev", number)
        self.write(f"{folder}/stat", STAT)
        self.link(f"sys/dev/block/{number}", folder)
        return folder

    def stacked(self, name: str, number: str, *slaves: str) -> str:
        """A dm or md device over other devices' folders."""
        folder = self.block(f"sys/devices/virtual/block/{name}", number)
        for slave in slaves:
            self.link(f"{folder}/slaves/{Path(slave).name}", slave)
        return folder

    def loop(self, index: int, file: str) -> str:
        folder = self.block(f"sys/devices/virtual/block/loop{index}", f"7:{index}")
        self.write(f"{folder}/loop/backing_file", file)
        return folder

    def mount(
        self, point: str, kind: str, number: str, source: str = "none", options: str = "rw", root: str = "/"
    ) -> None:
        (self.root / point.lstrip("/")).mkdir(parents=True, exist_ok=True)
        escaped = point.replace(" ", "\\040")
        line = f"{self._next_mount} 1 {number} {root} {escaped} rw,relatime shared:1 - {kind} {source} {options}\n"
        self._next_mount += 1
        with (self.root / "proc/self/mountinfo").open("a") as file:
            file.write(line)

    def link_of(self, pci: str, current: str, fastest: str | None = None) -> None:
        """The PCI Express link of a device, ``16.0 GT/s PCIe x4``, and the fastest that it could be."""
        for which, told in (("current", current), ("max", fastest or current)):
            speed, _, width = told.rpartition(" x")
            self.write(f"{pci}/{which}_link_speed", speed)
            self.write(f"{pci}/{which}_link_width", width)

    # Devices of the lab machine -----------------------------------------------------------------------------------

    def nvme(
        self, index: int = 0, number: str = "259:0", model: str = "QEMU NVMe Ctrl", transport: str = "pcie"
    ) -> str:
        controller = f"{PCI}/0000:00:0{index + 3}.0/nvme/nvme{index}"
        self.write(f"{controller}/transport", transport)
        self.write(f"{controller}/model", model + "   ")
        self.write(f"{controller}/serial", f"LABNVME{index}")
        self.write(f"{controller}/firmware_rev", "7.2.22")
        self.write(f"{controller}/numa_node", -1)
        return self.block(
            f"{controller}/nvme{index}n1",
            number,
            device=controller,
            scheduler="[none] mq-deadline",
            nr_requests=1023,
            io_poll=1,
            max_sectors_kb=512,
        )

    def scsi(
        self,
        name: str,
        number: str,
        *,
        vendor="ATA",
        model="INTEL SSDSC2KB48",
        where="0000:00:1f.2/ata1/host0",
        rotational=0,
    ):
        device = f"{PCI}/{where}/target0:0:0/0:0:0:0"
        for key, value in (("vendor", vendor), ("model", model), ("rev", "2.5+")):
            self.write(f"{device}/{key}", value)
        return self.block(
            f"{device}/block/{name}",
            number,
            device=device,
            scheduler="none [mq-deadline]",
            nr_requests=64,
            rotational=rotational,
        )

    def virtio(self, name: str = "vda", number: str = "254:0") -> str:
        bus = f"{PCI}/0000:00:05.0/virtio2"
        self.write(f"{bus}/vendor", "0x1af4")
        return self.block(f"{bus}/block/{name}", number, device=bus, rotational=1, scheduler="[none] mq-deadline")

    def multipath(self, transport: str = "tcp") -> str:
        """nvme2n1 over a hidden path nvme2c2n1, which has no device number."""
        controller = "sys/devices/virtual/nvme-fabrics/ctl/nvme2"
        subsystem = "sys/devices/virtual/nvme-subsystem/nvme-subsys2"
        for folder in (controller, subsystem):
            self.write(f"{folder}/model", "INTEL SSDPE21K375GA")
            self.write(f"{folder}/firmware_rev", "E2010480")
        self.write(f"{controller}/transport", transport)
        self.link(f"{subsystem}/nvme2", controller)
        self.block(f"{controller}/nvme2c2n1", None, device=controller, scheduler="[none] mq-deadline")
        return self.block(f"{subsystem}/nvme2n1", "259:7", device=subsystem)

    def pmem(self) -> str:
        device = "sys/devices/LNXSYSTM:00/LNXSYBUS:00/ACPI0012:00/ndbus0/region0/pfn0.1"
        self.write(f"{device}/numa_node", 0)
        self.write(f"{device}/devtype", "nd_pfn")
        return self.block(f"{device}/block/pmem0", "259:3", device=device, iostats=0, logical_block_size=4096)


FACTS = Path(__file__).parents[2] / "data/media"
_FACT = re.compile(r"(\w+)='([^']*)'")


def recorded_tree(kernel: str, root: Path) -> dict[str, str]:
    """The machine of a facts file as a tree under ``root``; returns the number given to each block device by name.

    The file holds, of a QEMU machine under that kernel, what sysfs said of every block device: its folder, its own
    files, those of its queue and of its device, where links led, and its hardware queues. Numbers and counters it does
    not hold: those are made up.
    """
    tree, numbers, minors = Tree(root), {}, count()
    for section in re.split(r"^== ", (FACTS / f"facts-{kernel}.txt").read_text(), flags=re.MULTILINE):
        title, *lines = section.splitlines() or [""]
        name, _, folder = title.partition(" /sys/devices/")
        if not folder:
            continue
        here = f"sys/devices/{folder}"
        links = dict(re.findall(r"^  link (\S+) -> /(\S+)$", "\n".join(lines), re.MULTILINE))
        if "device" in links:
            (root / links["device"]).mkdir(parents=True, exist_ok=True)
            tree.link(f"{here}/device", links["device"])
        for line in lines:
            at = {"queue": f"{here}/queue", "device": links.get("device")}.get(line.split(":")[0].strip(), here)
            for key, value in _FACT.findall(line):
                tree.write(f"{at}/{key}", value)
            queue = re.fullmatch(r"  mq (\d+) .* type (\w+)", line)
            if queue is not None:
                tree.write(f"sys/kernel/debug/block/{name}/hctx{queue[1]}/type", queue[2])
        if not name.startswith("/"):
            numbers[name] = f"200:{next(minors)}"
            tree.write(f"{here}/stat", STAT)
            tree.link(f"sys/block/{name}", here)
            if "hidden='1'" not in section:
                tree.write(f"{here}/dev", numbers[name])
                tree.link(f"sys/dev/block/{numbers[name]}", here)
    subsystems = root / "sys/devices/virtual/nvme-subsystem"
    for subsystem in subsystems.iterdir() if subsystems.is_dir() else ():
        # The kernel links a subsystem's controllers into its folder.
        for controller in (root / "sys/devices/virtual/nvme-fabrics/ctl").glob("nvme*"):
            tree.link(f"{subsystem.relative_to(root)}/{controller.name}", str(controller.relative_to(root)))
    return numbers


@pytest.fixture
def tree(tmp_path):
    return Tree(tmp_path / "root")


@pytest.fixture
def recorded(tmp_path):
    """Function: the recorded machine of a kernel; returns its root and the numbers of its block devices by name."""

    @cache
    def build(kernel):
        root = tmp_path / f"recorded-{kernel}"
        return root, recorded_tree(kernel, root)

    return build
