"""Machines that no lab here has, as hand-made trees: a GPU server, striped NVMe, LVM on RAID, clouds, devdax."""

import pytest

from pytest_gpuio.machine import pci_distance
from pytest_gpuio.media import classify, device_counters

# Two sockets, each with two PCIe switches that carry two GPUs and two drives: 8 GPUs, 8 drives, as on HGX boards.
SWITCHES = [(socket, half) for socket in (0, 1) for half in (0, 1)]


class GpuServer:
    def __init__(self, tree):
        self.tree = tree
        self.disks, self.gpus = [], []
        for number, (socket, _half) in enumerate(SWITCHES):
            bus = (0x17, 0x3A, 0x97, 0xBA)[number]
            switch = f"sys/devices/pci0000:{bus - 2:02x}/0000:{bus - 2:02x}:01.0/0000:{bus - 1:02x}:00.0"
            for slot in range(4):
                port = f"{switch}/0000:{bus:02x}:{slot:02x}.0"
                pci = f"{port}/0000:{bus + 1 + slot:02x}:00.0"
                tree.write(f"{pci}/numa_node", socket)
                tree.link(f"sys/bus/pci/devices/{pci.rpartition('/')[2]}", pci)
                if slot < 2:
                    self.gpus.append(pci.rpartition("/")[2])
                else:
                    tree.link_of(port, "16.0 GT/s PCIe x4", "32.0 GT/s PCIe x16")
                    tree.link_of(pci, "16.0 GT/s PCIe x4", "32.0 GT/s PCIe x4")
                    self.disks.append(self._disk(pci, len(self.disks)))

    def _disk(self, pci, index):
        controller = f"{pci}/nvme/nvme{index}"
        facts = {"transport": "pcie", "model": "SAMSUNG MZWLO7T6HBLA-00A07", "firmware_rev": "OPPA4B5Q"}
        for key, value in facts.items():
            self.tree.write(f"{controller}/{key}", value)
        return self.tree.block(f"{controller}/nvme{index}n1", f"259:{index}", device=controller, io_poll=1)


@pytest.fixture
def server(tree):
    return GpuServer(tree)


def on(tree, number, kind="xfs", source="/dev/x", options="rw"):
    tree.mount("/data", kind, number, source, options)
    return classify("/data/set", root=str(tree.root))


def test_drives_near_and_far_from_each_gpu(server):
    root = str(server.tree.root)
    distances = []
    for index in range(8):
        (disk,) = classify(f"/dev/nvme{index}n1", root=root).devices
        distances.append([pci_distance(disk.pci_address, gpu, root).distance for gpu in server.gpus])
    for index, row in enumerate(distances):
        mine, socket = index // 2, index // 4
        expected = [
            "same_switch" if g // 2 == mine else "same_node" if g // 4 == socket else "other_node" for g in range(8)
        ]
        assert row == expected


def test_facts_of_a_drive_on_socket_1(server):
    (disk,) = classify("/dev/nvme7n1", root=str(server.tree.root)).devices
    assert (disk.numa_node, disk.pci_address, disk.model) == (1, "0000:be:00.0", "SAMSUNG MZWLO7T6HBLA-00A07")
    # A Gen5 drive that has negotiated Gen4; the port is wider than the drive.
    assert (disk.pci_link, disk.pci_link_max) == ("16.0 GT/s x4", "32.0 GT/s x4")
    assert disk.link_bytes_per_s == pytest.approx(7.877e9, rel=1e-3)


def test_raid_over_both_sockets(server):
    folder = server.tree.stacked("md0", "9:0", *server.disks)
    server.tree.write(f"{folder}/md/level", "raid0")
    medium = on(server.tree, "9:0")
    assert medium.name == "nvme_ssd"
    assert {disk.numa_node for disk in medium.devices} == {0, 1}
    assert len(medium.counted) == 8
    assert device_counters(medium, str(server.tree.root)).read_ios == 800
    assert "md0 (md raid0) stands on nvme0n1, nvme1n1" in medium.evidence[1]


def test_encrypted_lvm_on_raid_of_partitions(server):
    tree = server.tree
    parts = [tree.partition(disk, f"nvme{i}n1p2", f"259:{50 + i}") for i, disk in enumerate(server.disks[:2])]
    raid = tree.stacked("md127", "9:127", *parts)
    tree.write(f"{raid}/md/level", "raid1")
    volume = tree.stacked("dm-0", "253:0", raid)
    tree.write(f"{volume}/dm/name", "vg0-models")
    tree.write(f"{volume}/dm/uuid", "LVM-0123456789abcdef")
    crypt = tree.stacked("dm-1", "253:1", volume)
    tree.write(f"{crypt}/dm/name", "models")
    tree.write(f"{crypt}/dm/uuid", "CRYPT-LUKS2-0123456789abcdef-models")
    medium = on(tree, "253:1")
    assert (medium.name, medium.counted) == ("nvme_ssd", ("259:0", "259:1"))
    assert medium.evidence[1:5] == (
        "dm-1 (encrypted volume, dm-crypt models) stands on dm-0.",
        "dm-0 (LVM volume vg0-models) stands on md127.",
        "md127 (md raid1) stands on nvme0n1p2, nvme1n1p2.",
        "nvme0n1p2 is a partition of nvme0n1.",
    )


def test_bcache_of_a_disk_behind_a_drive_is_no_one_class(server):
    slow = server.tree.scsi("sda", "8:0", model="ST16000NM001G", rotational=1)
    folder = server.tree.stacked("bcache0", "252:0", slow, server.disks[0])
    server.tree.write(f"{folder}/bcache/cache_mode", "writethrough [writeback] writearound none")
    medium = on(server.tree, "252:0")
    assert medium.name == "unknown"
    assert medium.evidence[1] == "bcache0 (bcache, writeback) stands on nvme0n1, sda."
    assert "hdd, nvme_ssd" in medium.evidence[-1]
    assert set(medium.counted) == {"8:0", "259:0"}


def test_two_paths_to_one_remote_namespace(tree):
    tree.multipath("tcp")
    second = "sys/devices/virtual/nvme-fabrics/ctl/nvme3"
    tree.write(f"{second}/transport", "rdma")
    tree.write(f"{second}/model", "INTEL SSDPE21K375GA")
    tree.link("sys/devices/virtual/nvme-subsystem/nvme-subsys2/nvme3", second)
    tree.block(f"{second}/nvme2c3n1", None, device=second)
    medium = classify("/dev/nvme2n1", root=str(tree.root))
    assert (medium.name, [path.transport for path in medium.devices]) == ("nvmeof", ["tcp", "rdma"])
    assert medium.counted == ("nvme2c2n1", "nvme2c3n1")


def test_one_remote_path_beside_a_local_one_is_not_local(tree):
    tree.multipath("pcie")
    second = "sys/devices/virtual/nvme-fabrics/ctl/nvme3"
    tree.write(f"{second}/transport", "tcp")
    tree.link("sys/devices/virtual/nvme-subsystem/nvme-subsys2/nvme3", second)
    tree.block(f"{second}/nvme2c3n1", None, device=second)
    assert classify("/dev/nvme2n1", root=str(tree.root)).name == "unknown"


@pytest.mark.parametrize(
    ("model", "expected"),
    [
        ("Amazon Elastic Block Store", "virtual"),
        ("Amazon EC2 NVMe Instance Storage", "nvme_ssd"),
        ("nvme_card-pd", "virtual"),
        ("nvme_card", "nvme_ssd"),
        ("MSFT NVMe Accelerator v1.0", "virtual"),
        ("Microsoft NVMe Direct Disk", "nvme_ssd"),
        ("Alibaba Cloud Elastic Block Storage", "virtual"),
        ("INTEL SSDPEK1A118GA", "nvme_optane"),
        ("INTEL HBRPEKNX0202AO", "nvme_optane"),
        ("INTEL HBRPEKNX0202A", "nvme_ssd"),
        ("SOLIDIGM SSDPF21Q016TB", "nvme_optane"),
        ("INTEL SSDPF2KX038TZ", "nvme_ssd"),
    ],
)
def test_models(tree, model, expected):
    tree.nvme(model=model)
    assert classify("/dev/nvme0n1", root=str(tree.root)).name == expected


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("nbd0", "network block device"),
        ("rbd3", "Ceph RADOS"),
        ("drbd1", "DRBD"),
        ("ublkb0", "served by a process"),
        ("zd16", "ZFS volume"),
        ("mmcblk0", "SD card"),
        ("floppy9", "no class here (driver unknown)"),
    ],
)
def test_kinds_without_a_class_say_what_they_are(tree, name, words):
    tree.block(f"sys/devices/virtual/block/{name}", "43:0")
    medium = classify(f"/dev/{name}", root=str(tree.root))
    assert medium.name == "unknown"
    assert words in medium.evidence[-1]


@pytest.mark.parametrize(
    "kind", ["nfs", "nfs4", "lustre", "beegfs", "wekafs", "gpfs", "ceph", "fuse.hf3fs", "fuse.dfuse", "cifs"]
)
def test_network_file_systems_say_that_nothing_counts(tree, kind):
    medium = on(tree, "0:99", kind, "server:/export")
    assert (medium.name, medium.devices, medium.counted) == ("network_fs", (), ())
    assert medium.evidence[-1] == "Device counters are unknown: no block device of this machine carries the traffic."
    assert f"{kind} is a network file system (from server:/export" in medium.evidence[-2]


def test_what_of_nfs_decides_its_speed(tree):
    options = "rw,vers=3,rsize=1048576,proto=rdma,nconnect=8,remoteports=10.0.0.1-10.0.0.8,spread_reads"
    medium = on(tree, "0:99", "nfs", "vast:/models", options)
    assert medium.evidence[-2].endswith(
        "(from vast:/models, vers 3, proto rdma, nconnect 8, rsize 1048576, VAST's client, by its option remoteports)."
    )


def devdax(tree, folder):
    tree.write(f"{folder}/dev", "252:0")
    tree.link("sys/dev/char/252:0", folder)
    return classify(f"/dev/{folder.rpartition('/')[2]}", root=str(tree.root))


def test_devdax(tree):
    region = "sys/devices/LNXSYSTM:00/LNXSYBUS:00/ACPI0012:00/ndbus0/region0"
    tree.write(f"{region}/persistence_domain", "memory_controller")
    tree.write(f"{region}/dax0.1/numa_node", 1)
    medium = devdax(tree, f"{region}/dax0.1/dax0.0")
    (device,) = medium.devices
    assert (medium.name, medium.file_system, medium.counted) == ("pmem", "devdax", ())
    assert (device.name, device.pmem_mode, device.dax, device.persistence_domain, device.numa_node) == (
        "dax0.0",
        "devdax",
        True,
        "memory_controller",
        1,
    )


def test_devdax_of_soft_reserved_memory_is_not_called_persistent(tree):
    medium = devdax(tree, "sys/devices/platform/hmem.0/dax0.0")
    assert medium.name == "unknown"
    assert "unknown persistence" in medium.evidence[0]


def test_a_sector_mode_namespace(tree):
    device = "sys/devices/LNXSYSTM:00/LNXSYBUS:00/ACPI0012:00/ndbus0/region0/btt0.0"
    tree.write(f"{device}/devtype", "nd_btt")
    tree.block(f"{device}/block/pmem0s", "259:3", device=device, iostats=0, dax=0)
    medium = classify("/dev/pmem0s", root=str(tree.root))
    assert (medium.name, medium.devices[0].pmem_mode) == ("pmem", "sector")
