"""Classes of media, on faked trees and on this machine."""

import os
import subprocess
from pathlib import Path

import pytest

from pytest_gpuio.core.cell import MEDIA
from pytest_gpuio.media import classify, device_counters, logical_block_size


def on(tree, number, kind="ext4"):
    tree.mount("/data", kind, number, "/dev/x")
    return classify("/data/not/there/yet", root=str(tree.root))


def test_local_nvme(tree):
    tree.nvme()
    medium = on(tree, "259:0")
    assert medium.name == "nvme_ssd"
    assert (medium.file_system, medium.mount_point, medium.mount_source) == ("ext4", "/data", "/dev/x")
    assert medium.mount_options == "rw,relatime"
    (device,) = medium.devices
    assert (device.name, device.dev, device.model, device.firmware) == ("nvme0n1", "259:0", "QEMU NVMe Ctrl", "7.2.22")
    assert (device.transport, device.rotational, device.scheduler) == ("pcie", False, "none")
    assert (device.logical_block, device.physical_block, device.max_sectors_kb, device.max_segments) == (
        512,
        512,
        512,
        128,
    )
    assert (device.nr_requests, device.write_cache, device.io_poll, device.numa_node) == (
        1023,
        "write back",
        True,
        None,
    )
    assert "QEMU" in " ".join(medium.evidence)


def test_no_serial_number_leaves_the_machine(tree):
    tree.nvme()
    assert "LABNVME0" not in repr(on(tree, "259:0"))


@pytest.mark.parametrize(
    ("model", "transport", "expected"),
    [
        ("Samsung SSD 990 PRO 2TB", "pcie", "nvme_ssd"),
        ("Amazon EC2 NVMe Instance Storage", "pcie", "nvme_ssd"),
        ("Amazon Elastic Block Store", "pcie", "virtual"),
        ("nvme_card-pd", "pcie", "virtual"),
        ("nvme_card", "pcie", "nvme_ssd"),
        ("MSFT NVMe Accelerator v1.0", "pcie", "virtual"),
        ("INTEL SSDPE21K375GA", "pcie", "nvme_optane"),
        ("INTEL SSDPED1D280GA", "pcie", "nvme_optane"),
        ("INTEL SSDPF21Q400GB", "pcie", "nvme_optane"),
        ("Intel Optane SSD DC P5800X", "pcie", "nvme_optane"),
        ("INTEL SSDPE2KX010T8", "pcie", "nvme_ssd"),
        ("Samsung SSD 990 PRO 2TB", "rdma", "nvmeof"),
        ("INTEL SSDPE21K375GA", "fc", "nvmeof"),
        ("INTEL SSDPE21K375GA", "loop", "nvmeof"),
    ],
)
def test_nvme_models_and_transports(tree, model, transport, expected):
    tree.nvme(model=model, transport=transport)
    assert on(tree, "259:0").name == expected


def test_nvme_over_tcp_is_seen_through_the_multipath_head(tree):
    tree.multipath("tcp")
    medium = on(tree, "259:7")
    assert medium.name == "nvmeof"
    assert [device.name for device in medium.devices] == ["nvme2c2n1"]
    assert medium.devices[0].transport == "tcp"
    assert medium.counted == ("nvme2c2n1",)
    assert device_counters(medium, str(tree.root)).read_ios == 100


def test_local_multipath_is_local(tree):
    tree.multipath("pcie")
    assert on(tree, "259:7").name == "nvme_optane"


def test_multipath_head_without_paths_is_not_called_local(tree):
    tree.multipath()
    (tree.root / "sys/devices/virtual/nvme-subsystem/nvme-subsys2/nvme2").unlink()
    assert on(tree, "259:7").name == "unknown"


@pytest.mark.parametrize(
    ("facts", "expected"),
    [
        ({}, "sata_ssd"),
        ({"model": "ST1000NM0033", "rotational": 1}, "hdd"),
        ({"model": "QEMU HARDDISK", "rotational": 1}, "virtual"),
        ({"vendor": "VMware", "model": "Virtual disk", "where": "0000:00:10.0/host2"}, "virtual"),
        ({"vendor": "QEMU", "model": "QEMU HARDDISK", "where": "0000:00:04.0/virtio0/host0"}, "virtual"),
        ({"where": "0000:01:00.0/host0/port-0:0/end_device-0:0"}, "sata_ssd"),  # SATA behind a SAS adapter
        ({"vendor": "SEAGATE", "model": "XS960", "where": "0000:01:00.0/host0/port-0:0/end_device-0:0"}, "unknown"),
        ({"vendor": "SEAGATE", "rotational": 1, "where": "0000:01:00.0/host0/port-0:0/end_device-0:0"}, "hdd"),
        ({"vendor": "LIO-ORG", "where": "host3/session1"}, "unknown"),
        ({"vendor": "Linux", "model": "scsi_debug"}, "ram"),
    ],
)
def test_scsi_disks(tree, facts, expected):
    tree.scsi("sda", "8:0", **facts)
    medium = on(tree, "8:0")
    assert medium.name == expected
    assert "sda" in medium.evidence[-1]


def test_sata_facts(tree):
    tree.scsi("sda", "8:0")
    (device,) = on(tree, "8:0").devices
    assert (device.transport, device.firmware, device.scheduler, device.nr_requests) == (
        "sata",
        "2.5+",
        "mq-deadline",
        64,
    )


def test_virtio_is_virtual_though_it_claims_to_rotate(tree):
    tree.virtio()
    medium = on(tree, "254:0")
    assert medium.name == "virtual"
    assert medium.devices[0].rotational is True


def test_partition_is_looked_through(tree):
    tree.partition(tree.nvme(), "nvme0n1p1", "259:1")
    medium = on(tree, "259:1")
    assert medium.name == "nvme_ssd"
    assert [device.name for device in medium.devices] == ["nvme0n1"]
    assert medium.counted == ("259:0",)
    assert any("nvme0n1p1 is a partition of nvme0n1" in sentence for sentence in medium.evidence)


def test_dm_over_a_partition(tree):
    folder = tree.stacked("dm-0", "252:0", tree.partition(tree.nvme(), "nvme0n1p2", "259:2"))
    tree.write(f"{folder}/dm/name", "vg0-scratch")
    medium = on(tree, "252:0", "xfs")
    assert medium.name == "nvme_ssd"
    assert medium.counted == ("259:0",)
    assert any("vg0-scratch" in sentence for sentence in medium.evidence)


def test_md_over_two_equal_disks_sums_both(tree):
    folder = tree.stacked("md0", "9:0", tree.nvme(0, "259:0"), tree.nvme(1, "259:1"))
    tree.write(f"{folder}/md/level", "raid0")
    medium = on(tree, "9:0", "xfs")
    assert medium.name == "nvme_ssd"
    assert medium.counted == ("259:0", "259:1")
    counters = device_counters(medium, str(tree.root))
    assert (counters.read_ios, counters.read_bytes) == (200, 2 * 2048 * 512)


def test_md_over_different_classes_is_unknown_and_says_which(tree):
    tree.stacked("md0", "9:0", tree.nvme(), tree.scsi("sda", "8:0"))
    medium = on(tree, "9:0")
    assert medium.name == "unknown"
    assert "nvme_ssd, sata_ssd" in medium.evidence[-1]
    assert len(medium.devices) == 2


def test_two_partitions_of_one_disk_count_it_once(tree):
    disk = tree.nvme()
    tree.stacked(
        "dm-0", "252:0", tree.partition(disk, "nvme0n1p1", "259:1"), tree.partition(disk, "nvme0n1p2", "259:2")
    )
    medium = on(tree, "252:0")
    assert medium.counted == ("259:0",)
    assert len(medium.devices) == 1


def test_loop_over_a_file_on_nvme(tree):
    tree.nvme()
    tree.mount("/images", "ext4", "259:0", "/dev/nvme0n1")
    tree.loop(0, "/images/disk.img")
    medium = on(tree, "7:0")
    assert medium.name == "nvme_ssd"
    assert medium.counted == ("259:0",)
    assert "loop0 is a loop device over /images/disk.img." in medium.evidence


def test_loop_over_tmpfs_is_ram_and_counts_itself(tree):
    tree.mount("/dev/shm", "tmpfs", "0:23")
    tree.loop(0, "/dev/shm/disk.img (deleted)")
    medium = on(tree, "7:0")
    assert medium.name == "ram"
    assert [device.name for device in medium.devices] == ["loop0"]
    assert medium.counted == ("7:0",)
    assert device_counters(medium, str(tree.root)).write_bytes == 4096 * 512


def test_loop_cycle_ends(tree):
    tree.mount("/a", "ext4", "7:1")
    tree.mount("/b", "ext4", "7:0")
    tree.loop(0, "/a/image")
    tree.loop(1, "/b/image")
    medium = on(tree, "7:0")
    assert medium.name == "unknown"
    assert any("stands on itself" in sentence for sentence in medium.evidence)


def test_unbound_loop(tree):
    tree.block("sys/devices/virtual/block/loop3", "7:3")
    assert on(tree, "7:3").name == "unknown"


def test_zram_counts_itself_though_iostats_is_off(tree):
    tree.block("sys/devices/virtual/block/zram0", "253:0", iostats=0, logical_block_size=4096)
    medium = on(tree, "253:0")
    assert medium.name == "ram"
    assert medium.counted == ("253:0",)


def test_brd_and_null_blk(tree):
    tree.block("sys/devices/virtual/block/ram0", "1:0")
    tree.block("sys/devices/virtual/block/nullb0", "251:0", io_poll=1)
    assert on(tree, "1:0").name == "ram"
    assert on(tree, "251:0").name == "null_blk"


def test_pmem_has_no_counters(tree):
    tree.pmem()
    medium = on(tree, "259:3")
    assert medium.name == "pmem"
    assert medium.devices[0].numa_node == 0
    assert medium.devices[0].transport == "nvdimm"
    assert medium.counted == ()
    assert device_counters(medium, str(tree.root)) is None


def test_virtio_pmem_is_virtual(tree):
    device = "sys/devices/pci0000:00/0000:00:06.0/virtio3/ndbus1/region2/namespace2.0"
    tree.block(f"{device}/block/pmem2", "259:5", device=device, iostats=0)
    assert on(tree, "259:5").name == "virtual"


def test_raid_over_a_device_without_counters_counts_the_raid(tree):
    tree.stacked("dm-0", "252:0", tree.nvme(), tree.pmem())
    assert on(tree, "252:0").counted == ("252:0",)


@pytest.mark.parametrize(
    ("kind", "expected"),
    [
        ("tmpfs", "ram"),
        ("ramfs", "ram"),
        ("nfs4", "network_fs"),
        ("lustre", "network_fs"),
        ("beegfs", "network_fs"),
        ("wekafs", "network_fs"),
        ("gpfs", "network_fs"),
        ("ceph", "network_fs"),
        ("cifs", "network_fs"),
        ("9p", "network_fs"),
        ("fuse.hf3fs", "network_fs"),
        ("virtiofs", "virtual"),
        ("fuse.unheard-of", "unknown"),
        ("zfs", "unknown"),
        ("btrfs", "unknown"),
        ("proc", "unknown"),
    ],
)
def test_file_systems_without_a_device(tree, kind, expected):
    medium = on(tree, "0:99", kind)
    assert medium.name == expected
    assert medium.name in MEDIA
    assert len(medium.evidence) >= 2
    assert device_counters(medium, str(tree.root)) is None


def test_btrfs_over_two_disks(tree):
    for disk in (tree.nvme(0, "259:0"), tree.nvme(1, "259:1")):
        tree.link(f"sys/fs/btrfs/11111111-2222/devices/{Path(disk).name}", disk)
    tree.write("dev/nvme1n1", "")
    tree.mount("/data", "btrfs", "0:44", "/dev/nvme1n1")
    medium = classify("/data/file", root=str(tree.root), device=(0, 45))
    assert medium.name == "nvme_ssd"
    assert medium.counted == ("259:0", "259:1")


def test_overlay_is_followed_to_its_upper_directory(tree):
    tree.nvme()
    tree.mount("/", "overlay", "0:50", "overlay", "rw,lowerdir=/l,upperdir=/disk/upper,workdir=/disk/work")
    tree.mount("/disk", "ext4", "259:0", "/dev/nvme0n1")
    (tree.root / "disk/upper").mkdir()
    medium = classify("/srv", root=str(tree.root))
    assert (medium.name, medium.file_system, medium.counted) == ("nvme_ssd", "overlay", ("259:0",))


@pytest.mark.parametrize("options", ["rw,lowerdir=/l", "rw,upperdir=/var/lib/docker/overlay2/abc/diff"])
def test_overlay_whose_upper_directory_cannot_be_seen(tree, options):
    tree.mount("/", "overlay", "0:50", "overlay", options)
    medium = classify("/srv", root=str(tree.root))
    assert medium.name == "unknown"
    assert "another target" in medium.evidence[-1]


def test_overlay_on_itself_ends(tree):
    tree.mount("/", "overlay", "0:50", "overlay", "rw,upperdir=/up")
    (tree.root / "up").mkdir()
    assert classify("/srv", root=str(tree.root)).name == "unknown"


def test_a_device_that_sysfs_does_not_know(tree):
    medium = on(tree, "8:77")
    assert medium.name == "unknown"
    assert "8:77" in medium.evidence[-1]


def test_dangling_slave_and_garbage_do_not_crash(tree):
    folder = tree.stacked("dm-0", "252:0")
    (tree.root / folder / "slaves/gone").symlink_to("../../nowhere")
    tree.write(f"{folder}/queue/rotational", "maybe")
    assert on(tree, "252:0").name == "unknown"


def test_empty_root(tmp_path):
    medium = classify("/x", root=str(tmp_path), device=(8, 0))
    assert medium.name == "unknown"
    assert "mount table" in medium.evidence[0]


def test_logical_block_size_is_that_of_the_top_device(tree):
    tree.nvme()
    tree.mount("/images", "ext4", "259:0")
    tree.write(f"{tree.loop(0, '/images/x')}/queue/logical_block_size", 4096)
    assert logical_block_size((7, 0), str(tree.root)) == 4096
    assert logical_block_size((259, 0), str(tree.root)) == 512
    assert logical_block_size((1, 1), str(tree.root)) is None


def test_partition_has_its_disks_logical_block_size(tree):
    tree.write(f"{tree.nvme()}/queue/logical_block_size", 4096)
    tree.partition("sys/devices/pci0000:00/0000:00:03.0/nvme/nvme0/nvme0n1", "nvme0n1p1", "259:1")
    assert logical_block_size((259, 1), str(tree.root)) == 4096


# This machine ---------------------------------------------------------------------------------------------------------


def test_without_a_mount_entry_the_device_number_tells(tree):
    # What a chroot sees: its own root is not in its mount table.
    tree.nvme(0, "259:0")
    tree.mount("/elsewhere", "ext4", "8:1", "/dev/sda1")
    medium = classify("/data", root=str(tree.root), device=(259, 0))
    assert "has no file system for" in medium.evidence[0]
    assert [device.name for device in medium.devices] == ["nvme0n1"]
    assert medium.counted == ("259:0",)
    assert classify("/data", root=str(tree.root), device=(0, 30)).name == "unknown"


def test_this_machines_root():
    if not any(line.split()[4] == "/" for line in Path("/proc/self/mountinfo").read_text().splitlines()):
        pytest.skip("this root is not in its own mount table: a chroot")
    medium = classify("/")
    assert medium.name in MEDIA
    assert medium.mount_point == "/"
    assert medium.file_system == subprocess.run(
        ["stat", "-f", "-c", "%T", "/"], capture_output=True, text=True, check=True
    ).stdout.strip().replace("ext2/ext3", "ext4").replace("overlayfs", "overlay")
    assert len(medium.evidence) >= 2


def test_this_machines_shared_memory(tmp_path):
    if not Path("/dev/shm").is_dir():
        pytest.skip("no /dev/shm on this machine")
    (tmp_path / "link").symlink_to("/dev/shm")
    for path in ("/dev/shm", "/dev/shm/not/there", tmp_path / "link", "/dev/../dev/shm"):
        medium = classify(path)
        assert (medium.name, medium.file_system, medium.mount_point) == ("ram", "tmpfs", "/dev/shm")


def test_real_loop_device_over_tmpfs(loop_over_tmpfs):
    device = loop_over_tmpfs(sector=512)
    medium = classify(device)
    assert medium.name == "ram"
    assert medium.file_system == "block device"
    assert [found.name for found in medium.devices] == [Path(device).name]
    before = device_counters(medium)
    command = ["dd", f"if={device}", "of=/dev/null", "bs=64k", "count=16", "iflag=direct"]
    subprocess.run(command, check=True, capture_output=True)
    grown = device_counters(medium) - before
    assert grown.read_bytes == 16 * 65536
    assert grown.write_bytes == 0
    number = Path(device).stat().st_rdev
    assert logical_block_size((os.major(number), os.minor(number))) == 512


def test_a_null_blk_of_configfs_has_any_name(tree):
    tree.block("sys/devices/virtual/block/labnull", "251:1", io_poll=1)
    assert on(tree, "251:1").name == "unknown"
    (tree.root / "sys/kernel/config/nullb/labnull").mkdir(parents=True)
    assert on(tree, "251:1").name == "null_blk"
