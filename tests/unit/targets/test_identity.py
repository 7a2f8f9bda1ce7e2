"""Targets that become something else during a run."""

import os

import pytest

from pytest_gpuio.core.errors import TargetError
from pytest_gpuio.targets import check_unchanged, identify, target_file


def test_folders_and_files_that_are_made_later_are_the_same(tmp_path):
    folder, file = tmp_path / "folder", tmp_path / "file.bin"
    before = {path: identify(path) for path in (folder, file, tmp_path)}
    folder.mkdir()
    file.write_bytes(b"x")
    for path, was in before.items():
        check_unchanged(path, was)


def test_what_could_never_be_looked_at_is_not_judged(tmp_path):
    with pytest.raises(OSError, match="No such file"):
        identify(tmp_path / "no" / "folder")
    check_unchanged(tmp_path / "no" / "folder", None)


def test_a_file_system_mounted_over_it_is_another(tmp_path, mounted):
    point = tmp_path / "mount0"
    point.mkdir()
    before = identify(point)
    point.rmdir()
    assert mounted("tmpfs", options="size=1m") == point
    with pytest.raises(TargetError, match="lies on another file system than when the run began"):
        check_unchanged(point, before)


def test_a_folder_that_is_gone_with_its_parent(tmp_path):
    folder = tmp_path / "a" / "b"
    folder.mkdir(parents=True)
    before = identify(folder)
    folder.rmdir()
    folder.parent.rmdir()
    with pytest.raises(TargetError, match="is gone since the run began"):
        check_unchanged(folder, before)


def test_a_device_node_that_is_gone_or_another(tmp_path, loop_over_tmpfs):
    """Nodes of our own for real devices: what udev does when a drive is pulled out."""
    first, second = (os.stat(loop_over_tmpfs(512)) for _ in range(2))  # noqa: PTH116
    node = tmp_path / "disk"
    os.mknod(node, first.st_mode, first.st_rdev)
    before = identify(node)
    check_unchanged(node, before)
    node.unlink()
    with pytest.raises(TargetError, match="no device any more since the run began: it was pulled out"):
        check_unchanged(node, before)
    os.mknod(node, second.st_mode, second.st_rdev)
    with pytest.raises(TargetError, match="is another device since the run began"):
        check_unchanged(node, before)


@pytest.mark.parametrize("name", ["/dev/nvme99n1", "/dev/no-such.disk"])
def test_a_drive_that_is_not_there_does_not_become_a_file_in_memory(name):
    with pytest.raises(TargetError, match=f"there is no device {name}"):
        target_file(name, writes=False)


def test_memory_below_dev_is_no_folder_of_devices():
    assert target_file("/dev/shm/gpuio-new", writes=False).parent.name == "gpuio-new"
