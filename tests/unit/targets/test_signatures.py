"""What a device's first and last bytes say about it; marks are made by the formats' own tools where these are there."""

import os
import shutil
import struct
import subprocess

import pytest

from pytest_gpuio.engine import pattern_fill
from pytest_gpuio.targets.header import HEADER_BYTES, Header
from pytest_gpuio.targets.signatures import EDGE_BYTES, Content, recognize

SIZE = 64 << 20
PATH = f"{os.environ.get('PATH', '')}:/usr/sbin:/sbin"


@pytest.fixture
def image(tmp_path):
    path = tmp_path / "disk.img"
    path.touch()
    os.truncate(path, SIZE)
    return path


def content_of(image):
    with image.open("rb") as file:
        head = file.read(EDGE_BYTES)
        file.seek(-EDGE_BYTES, os.SEEK_END)
        return recognize(head, file.read(), image.stat().st_size)


def run(image, *command, feed=None):
    program = shutil.which(command[0], path=PATH)
    if program is None:
        pytest.skip(f"needs {command[0]}")
    subprocess.run(
        [program, *command[1:], str(image)], input=feed, capture_output=True, check=True, text=True, timeout=60
    )


@pytest.mark.parametrize(
    ("command", "what"),
    [
        (("mkfs.ext4", "-q", "-F"), "ext2, ext3 or ext4 file system"),
        (("mkfs.ext2", "-q", "-F"), "ext2, ext3 or ext4 file system"),
        (("mkfs.btrfs", "-q", "-M"), "btrfs file system"),
        (("mkfs.f2fs", "-q"), "F2FS file system"),
        (("mkfs.fat", "-F", "16"), "FAT file system"),
        (("mkfs.fat", "-F", "32"), "FAT file system"),
        (("mkfs.ntfs", "-q", "-F", "-f"), "NTFS file system"),
        (("mkswap",), "swap space"),
    ],
    ids=lambda value: "_".join(value) if isinstance(value, tuple) else None,
)
def test_file_systems_made_by_their_own_tools(image, command, what):
    run(image, *command)
    assert content_of(image) == Content(other=what)


@pytest.mark.parametrize(("label", "kind"), [("gpt", "GPT"), ("dos", "MBR")])
def test_partition_tables_made_by_sfdisk(image, label, kind):
    run(image, "sfdisk", "--quiet", feed=f"label: {label}\n,16M,L\n")
    assert content_of(image).partitions == kind


def test_the_second_copy_of_a_gpt_is_found_when_the_first_was_cleared(image):
    run(image, "sfdisk", "--quiet", feed="label: gpt\n,16M,L\n")
    with image.open("r+b") as file:
        file.write(bytes(1 << 20))
    assert content_of(image).partitions == "GPT (its second copy, at the end)"


def test_a_gpt_with_large_sectors(image):
    with image.open("r+b") as file:
        file.seek(4096)
        file.write(b"EFI PART")
    assert content_of(image).partitions == "GPT"


def _zfs(big):
    def write(file):
        file.seek((256 << 10) + (128 << 10) + 7 * 1024)
        file.write(struct.pack(">Q" if big else "<Q", 0x00BAB10C))

    return write


def _at(offset, mark):
    def write(file):
        file.seek(offset, os.SEEK_SET if offset >= 0 else os.SEEK_END)
        file.write(mark)

    return write


MD = struct.pack("<I", 0xA92B4EFC)


@pytest.mark.parametrize(
    ("write", "what"),
    [
        (_at(512, b"LABELONE"), "LVM physical volume"),  # lvm2: the label lies in one of the first four sectors
        (_at(0, MD), "md RAID member"),  # md(4): 1.1 at the start, 1.2 after 4 KiB, 1.0 8 KiB before the end,
        (_at(4096, MD), "md RAID member"),
        (_at(-8192, MD), "md RAID member"),
        (_at(-65536, MD), "md RAID member"),  # and 0.90 in the last 64 KiB
        (_zfs(big=False), "ZFS pool member"),
        (_zfs(big=True), "ZFS pool member"),
        (_at(0, b"bluestore block device\n"), "Ceph BlueStore device"),
    ],
    ids=["lvm", "md_1_1", "md_1_2", "md_1_0", "md_0_90", "zfs_little_endian", "zfs_big_endian", "bluestore"],
)
def test_parts_of_volumes_and_pools(image, write, what):
    with image.open("r+b") as file:
        write(file)
    assert content_of(image).member == what


def test_md_of_a_device_that_is_no_whole_number_of_64_kib(image):
    size = SIZE + 12288 + 512
    os.truncate(image, size)
    with image.open("r+b") as file:
        file.seek((size - 8192) // 4096 * 4096)
        file.write(MD)
    assert content_of(image).member == "md RAID member"


def test_zeros_noise_and_what_is_ours_are_nobodys(image):
    assert content_of(image) == Content()
    with image.open("r+b") as file:
        file.seek(-100, os.SEEK_END)
        file.write(b"x")
    assert content_of(image) == Content(other="unknown data")
    data = bytearray(SIZE - HEADER_BYTES)
    pattern_fill(data, HEADER_BYTES, 7)
    with image.open("r+b") as file:
        file.write(Header("complete", len(data), 7, "now").encode().ljust(HEADER_BYTES, b"\0") + data)
    assert content_of(image) == Content(other="unknown data")


def test_less_than_a_sector(tmp_path):
    assert recognize(b"", b"", 0) == Content()
    assert recognize(b"x", b"x", 1) == Content(other="unknown data")
