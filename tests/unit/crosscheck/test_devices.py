"""Devices made for one run: they are there, they are the size asked for, and they are gone afterwards."""

import os
from pathlib import Path

import pytest

from pytest_gpuio.core.errors import CapabilityMissing
from pytest_gpuio.crosscheck import devices

SIZE = 4 << 20


def block_devices():
    return {entry.name for entry in Path("/sys/block").iterdir()}


@pytest.fixture
def made():
    """Function: enters a context manager or skips with its reason."""

    def make(manager):
        try:
            return manager.__enter__()
        except CapabilityMissing as error:
            pytest.skip(str(error))

    return make


def size_of(device):
    return int(Path(f"/sys/block/{Path(device).name}/size").read_text()) * 512


def mounts_on(folder):
    return [line for line in Path("/proc/self/mountinfo").read_text().splitlines() if line.split()[4] == str(folder)]


def test_zram(made):
    before = block_devices()
    manager = devices.zram(SIZE)
    device = made(manager)
    try:
        assert size_of(device) == SIZE
        assert Path(device).name not in before
        assert Path(device).read_bytes()[:4096] == bytes(4096)  # never written
    finally:
        manager.__exit__(None, None, None)
    assert block_devices() == before


def test_loop(made):
    manager = devices.loop_over_tmpfs(SIZE)
    device = made(manager)
    backing = Path(f"/sys/block/{Path(device).name}/loop/backing_file")
    try:
        assert size_of(device) == SIZE
        image = Path(backing.read_text().strip())
        assert image.stat().st_blocks * 512 >= SIZE  # no holes
        if Path("/sys/kernel/mm/transparent_hugepage").exists():
            assert image.parent.is_mount()  # its own tmpfs
            assert "huge=always" in mounts_on(image.parent)[-1]
    finally:
        manager.__exit__(None, None, None)
    assert not image.exists()
    assert not mounts_on(image.parent)
    assert not image.parent.exists()
    assert not backing.exists() or backing.read_text().strip() != str(image)


def test_loop_where_no_tmpfs_can_be_mounted(made, tmp_path, monkeypatch):
    mount = tmp_path / "mount"
    mount.write_text("#!/bin/sh\nexit 32\n")
    mount.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    manager = devices.loop_over_tmpfs(SIZE)
    device = made(manager)
    try:
        image = Path(Path(f"/sys/block/{Path(device).name}/loop/backing_file").read_text().strip())
        assert not mounts_on(image.parent)
        assert size_of(device) == SIZE
    finally:
        manager.__exit__(None, None, None)
    assert not image.parent.exists()


def test_tmpfs_folder(made):
    manager = devices.tmpfs_folder(SIZE)
    folder = made(manager)
    (folder / "x").write_bytes(b"x")
    manager.__exit__(None, None, None)
    assert not folder.exists()


@pytest.mark.parametrize("kind", [devices.zram, devices.loop_over_tmpfs])
def test_everything_is_gone_after_an_error_too(kind):
    before, device = block_devices(), None

    def use():
        nonlocal device
        with kind(SIZE) as device:
            raise RuntimeError("inside")

    try:
        with pytest.raises(RuntimeError, match="inside"):
            use()
    except CapabilityMissing as error:
        pytest.skip(str(error))
    backing = Path(f"/sys/block/{Path(device).name}/loop/backing_file")
    assert not backing.exists() or "gpuio-crosscheck" not in backing.read_text()
    assert block_devices() == before


def test_a_tmpfs_that_is_too_small_is_a_reason():
    with pytest.raises(CapabilityMissing, match="bytes free"), devices.tmpfs_folder(1 << 60):
        pass


@pytest.mark.parametrize("kind", [devices.zram, devices.loop_over_tmpfs])
def test_without_root_it_is_a_reason(kind, monkeypatch):
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    with pytest.raises(CapabilityMissing, match="needs root, to make"), kind(SIZE):
        pass
