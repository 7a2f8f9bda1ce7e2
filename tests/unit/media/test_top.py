"""The device by which requests enter, on faked trees and on this machine."""

import os
from pathlib import Path

from pytest_gpuio.media import top_device


def top(tree, number):
    major, minor = number.split(":")
    return top_device("/anything", root=str(tree.root), device=(int(major), int(minor)))


def test_of_a_stack_it_is_the_uppermost(tree):
    disk = tree.block("sys/devices/virtual/block/nvme0n1", "259:0", io_poll=1)
    tree.stacked("md0", "9:0", disk)
    tree.loop(0, "/mnt/file")
    assert top(tree, "9:0").name == "md0"
    assert top(tree, "9:0").io_poll is False
    assert top(tree, "7:0").name == "loop0"
    assert top(tree, "259:0").io_poll is True


def test_of_a_partition_it_is_the_disk(tree):
    disk = tree.block("sys/devices/virtual/block/nvme0n1", "259:0", io_poll=1)
    tree.partition(disk, "nvme0n1p1", "259:1")
    assert top(tree, "259:1").name == "nvme0n1"


def test_what_sysfs_does_not_know_has_none(tree):
    assert top(tree, "0:37") is None
    assert top_device(tree.root / "absent") is None


def test_on_this_machine_the_number_decides(tmp_path):
    number = tmp_path.stat().st_dev
    node = Path(f"/sys/dev/block/{os.major(number)}:{os.minor(number)}")
    found = top_device(tmp_path)
    assert (found is None) == (not node.exists())
    if found is not None:
        assert (Path("/sys/block") / found.name).exists()
