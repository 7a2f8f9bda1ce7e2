"""Whether files are mapped without page cache: real files here are not; sentences for those of other machines."""

import mmap
import os
from pathlib import Path

import pytest

from pytest_gpuio.media import BlockDevice, Medium
from pytest_gpuio.targets import dax, maps_synchronously, refuses_dax, says_dax

FSDAX = BlockDevice("pmem0", "259:0", dax=True, pmem_mode="fsdax")
RAW = BlockDevice("pmem1", "259:1", dax=False, pmem_mode="raw")


def on(device, kind="ext4", options="rw,relatime", name="pmem"):
    return Medium(name, (), file_system=kind, mount_point="/mnt", mount_options=options, devices=(device,))


def test_an_ordinary_file_is_none(file_of):
    path, fd = file_of(1 << 16)
    assert says_dax(fd) is False
    with mmap.mmap(fd, 1 << 16):
        assert not maps_synchronously(fd)
    for target in (path, path.parent, path.parent / "not/there/yet"):
        assert "which has no DAX" in refuses_dax(target)
    assert not list(path.parent.glob("*gpuio*"))


def test_memory_is_none_either():
    if not Path("/dev/shm").is_dir():
        pytest.skip("no /dev/shm on this machine")
    assert "lies on ram, which has no DAX" in refuses_dax("/dev/shm")


def test_a_block_device_is_none(loop_over_tmpfs):
    assert "is a block device, whose maps go through the page cache" in refuses_dax(loop_over_tmpfs(sector=512))


def test_a_real_mount_that_asks_for_dax_in_vain(loop_over_tmpfs, mounted, tmp_path):
    import subprocess

    device = loop_over_tmpfs(sector=4096, size=32 << 20)
    made = subprocess.run(["/sbin/mkfs.ext2", "-q", "-b", "4096", device], capture_output=True, text=True, check=False)
    if made.returncode:
        pytest.skip(f"needs mkfs.ext2: {made.stderr}")
    point = mounted("ext4", device)
    assert "lies on ram, which has no DAX" in refuses_dax(point)


# Logic only: no persistent memory here; the real thing is met in the virtual machine.
@pytest.mark.parametrize(
    ("medium", "words"),
    [
        (
            on(FSDAX),
            "lies on pmem0, which has DAX, but is mounted without it: unmount it, and mount it with -o dax=always",
        ),
        (on(FSDAX, options="rw,dax=never"), "is mounted without it"),
        (on(RAW, options="rw,dax=always"), "DAX off for /mnt/x: pmem1 (mode raw, queue/dax 0)"),
        (on(FSDAX, options="rw,dax"), "DAX off for /mnt/x: pmem0 (mode fsdax, queue/dax 1)"),
        (on(FSDAX, kind="btrfs"), "btrfs on pmem0 has no DAX: use ext4 or xfs"),
        (on(RAW, options="rw,dax=never"), "lies on pmem1 (mode raw, queue/dax 0): ndctl create-namespace"),
        (on(BlockDevice("nvme0n1", "259:0", dax=False), name="nvme_ssd"), "lies on nvme_ssd, which has no DAX"),
    ],
)
def test_each_reason_has_its_remedy(medium, words):
    assert words in dax.why_not(Path("/mnt/x"), medium)


def test_the_kernels_word_on_a_map_is_found_by_device_and_inode(tmp_path, monkeypatch):
    # Logic only: the smaps of a process with a synchronous map, as a 6.12 kernel shows it.
    path = tmp_path / "f"
    path.write_bytes(bytes(4096))
    status = path.stat()
    head = f"7f0000000000-7f0000001000 rw-s 00000000 {os.major(status.st_dev):02x}:{os.minor(status.st_dev):02x}"
    other = "7f0000002000-7f0000003000 rw-s 00000000 00:01 5  /x\nVmFlags: rd wr sh sf \n"
    (tmp_path / "smaps").write_text(f"{other}{head} {status.st_ino}  {path}\nSize: 4 kB\nVmFlags: rd wr sh mr sf hg \n")
    (tmp_path / "plain").write_text(f"{other}{head} {status.st_ino}  {path}\nSize: 4 kB\nVmFlags: rd wr sh mr hg \n")
    real = open
    with path.open("rb") as file:
        for name, expected in (("smaps", True), ("plain", False)):
            monkeypatch.setattr("builtins.open", lambda _path, name=name, **more: real(tmp_path / name, **more))
            assert maps_synchronously(file.fileno()) is expected
            monkeypatch.undo()
