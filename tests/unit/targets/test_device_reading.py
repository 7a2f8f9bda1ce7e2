"""Raw devices that are only read: no permission, no byte written, whoever else uses them."""

import hashlib
import mmap
import os
import subprocess
from pathlib import Path

import pytest

from pytest_gpuio.core.errors import ConfigError, TargetError
from pytest_gpuio.targets import (
    FoundContent,
    TargetFile,
    drop,
    held,
    lay_out_device,
    look_at_device,
    open_target,
    raw_device,
)

SIZE = 8 << 20


@pytest.fixture
def device(loop_over_tmpfs):
    return loop_over_tmpfs(sector=512)


def look(device, size=SIZE, allowed=()):
    return look_at_device(raw_device(device), size, allowed=allowed)


def counters(device):
    """What the block layer counted of writes, discards and flushes since the device appeared."""
    fields = Path(f"/sys/block/{Path(device).name}/stat").read_text().split()
    return fields[4:8] + fields[11:16]


def test_content_is_taken_as_it_is_and_zeros_are_told(device):
    with Path(device).open("r+b") as file:
        file.write(os.urandom(SIZE // 2))
    os.sync()
    before, digest = counters(device), hashlib.sha256(Path(device).read_bytes()).hexdigest()
    found = look(device)
    assert isinstance(found, FoundContent)
    assert (found.path, found.data_offset, found.data_bytes, found.used) == (device, 0, SIZE, False)
    assert found.zero_share == pytest.approx(0.5, abs=0.02)
    with held(device, shared=True):
        fd = open_target(device, writable=False, direct=True)
        try:
            with mmap.mmap(-1, 1 << 20) as buffer:
                assert os.preadv(fd, [buffer], 0) == 1 << 20
            drop(fd, 0, SIZE, flush=False)
        finally:
            os.close(fd)
    assert counters(device) == before
    assert hashlib.sha256(Path(device).read_bytes()).hexdigest() == digest


def test_a_read_only_device_can_be_read(device):
    subprocess.run(["/sbin/blockdev", "--setro", device], check=True)
    try:
        assert look(device).zero_share == 1.0
    finally:
        subprocess.run(["/sbin/blockdev", "--setrw", device], check=True)


def test_a_mounted_device_can_be_read_and_it_is_told(device, mounted):
    made = subprocess.run(["/sbin/mkfs.ext4", "-q", device], capture_output=True, check=False)
    if made.returncode:
        pytest.skip("needs mkfs.ext4")
    mounted("ext4", device)
    found = look(device)
    assert found.used
    assert found.zero_share > 0.5
    with held(device, shared=True) as same:
        assert same.node == device


def test_a_layout_of_ours_is_recognized_so_that_data_can_be_checked(device):
    made = lay_out_device(raw_device(device), SIZE, allowed=[device])
    found = look(device)
    assert isinstance(found, TargetFile)
    assert (found.pattern_seed, found.data_offset, found.reused) == (made.pattern_seed, made.data_offset, True)
    with Path(device).open("r+b") as file:
        file.seek(made.data_offset)
        file.write(b"stranger")
    assert isinstance(look(device), FoundContent)
    assert isinstance(look(device, 12 << 20), FoundContent)


def test_what_cannot_be(device):
    with pytest.raises(ConfigError, match=r"has 16,777,216 bytes, and 32m .* are to be read: use --gpuio-size=16384K"):
        look(device, 32 << 20)
    with pytest.raises(ConfigError, match="above zero"):
        look(device, 0)
    with pytest.raises(ConfigError, match="may be overwritten"):
        look(device, allowed=[device])
    with pytest.raises(TargetError, match="was not made by gpuio"):
        open_target(device, writable=True, direct=True)
