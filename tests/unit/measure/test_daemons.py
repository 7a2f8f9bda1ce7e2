"""Daemons that serve a file system, in a made-up /proc."""

import pytest

from pytest_gpuio.measure.daemons import SERVED_BY, find_daemons


@pytest.fixture
def root(tmp_path):
    for pid, name in (("12", "hf3fs_fuse_main"), ("7", "bash"), ("3", "hf3fs_fuse_main"), ("self", "hf3fs_fuse_main")):
        (tmp_path / "proc" / pid).mkdir(parents=True)
        (tmp_path / "proc" / pid / "comm").write_text(f"{name}\n")
    (tmp_path / "proc/99").mkdir()  # it ended meanwhile
    return str(tmp_path)


def test_all_of_that_name_serve_it(root):
    assert find_daemons("fuse.hf3fs", root) == (3, 12)


@pytest.mark.parametrize("file_system", ["ext4", "fuse.sshfs", None])
def test_others_have_none(root, file_system):
    assert find_daemons(file_system, root) == ()


def test_names_fit_what_the_kernel_keeps():
    assert all(len(name) <= 15 for name in SERVED_BY.values())
