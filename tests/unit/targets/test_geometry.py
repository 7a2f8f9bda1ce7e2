"""Alignment and geometry; what the kernel itself accepts is the oracle."""

import mmap
import os
import shutil
import subprocess

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from pytest_gpuio.core.errors import ConfigError, TargetError
from pytest_gpuio.targets import Alignment, check_geometry, direct_alignment
from pytest_gpuio.targets.geometry import round_up

MIB = 1 << 20
STATX_512 = Alignment(512, 512, "statx")


def check(**changed):
    """A geometry that holds, but for what is changed."""
    geometry = {
        "block": 4096,
        "depth": 8,
        "jobs": 2,
        "region_offset": 2 * MIB,
        "region_bytes": 64 * MIB,
        "direct": True,
        "alignment": STATX_512,
    }
    check_geometry("/mnt/x/f", **(geometry | changed))


def machine(tmp_path, *, available=1 << 30, aio_max=65536, aio_used=0):
    (tmp_path / "proc/sys/fs").mkdir(parents=True)
    (tmp_path / "proc/meminfo").write_text(f"MemTotal: 1 kB\nMemAvailable:   {available // 1024} kB\n")
    (tmp_path / "proc/sys/fs/aio-max-nr").write_text(f"{aio_max}\n")
    (tmp_path / "proc/sys/fs/aio-nr").write_text(f"{aio_used}\n")
    return str(tmp_path)


def test_a_sound_geometry_passes():
    check()
    check(alignment=None, block=1000, region_bytes=10**6)
    check(direct=False, block=1000, region_offset=32)
    check(aio=True)


def test_a1_unaligned_offset_is_refused_with_the_numbers():
    with pytest.raises(
        ConfigError,
        match=r"^offset 32 is not a multiple of the 512-byte direct-I/O alignment of /mnt/x/f \(statx\): use 512,",
    ):
        check(region_offset=32)


def test_unaligned_block_is_refused_with_the_nearest_that_fits():
    with pytest.raises(
        ConfigError,
        match=r"^block size 1000 bytes is not a multiple of the 512-byte direct-I/O alignment of /mnt/x/f \(statx\): "
        r"use --gpuio-bs=1k",
    ):
        check(block=1000)


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"block": 0}, "block size of 0 bytes: it must be above zero"),
        ({"block": -4096}, "block size of -4096 bytes"),
        ({"region_bytes": 0}, "region of 0 bytes: it must be above zero"),
        ({"region_bytes": -1}, "region of -1 bytes"),
        ({"depth": 0}, "queue depth 0: it must be above zero"),
        ({"jobs": 0}, "jobs 0: it must be above zero"),
        ({"jobs": -1}, "jobs -1"),
        ({"region_offset": -512}, "offset -512 is below zero"),
        ({"jobs": 4097, "depth": 1}, r"jobs 4,097 is above the limit of 4,096"),
        ({"depth": 65537, "jobs": 1}, r"queue depth 65,537 is above the limit of 65,536"),
        ({"block": 2 * MIB, "region_bytes": MIB}, r"2m \(2,097,152 bytes\) is larger than the region of 1m"),
        ({"block": 1 << 31, "region_bytes": 1 << 40}, "more than Linux moves in one request"),
        (
            {"block": MIB, "region_bytes": 15 * MIB},
            r"holds 15 blocks .* fewer than the 16 requests in flight \(2 jobs x queue depth 8\): raise --gpuio-size "
            r"to at least 16m",
        ),
    ],
)
def test_refusals(changed, message):
    with pytest.raises(ConfigError, match=message):
        check(**changed)


def test_the_limits_themselves_pass(tmp_path):
    root = machine(tmp_path, available=1 << 40)
    check(jobs=4096, depth=1, root=root)
    check(jobs=1, depth=65536, block=512, root=root)
    check(block=MIB, region_bytes=16 * MIB, root=root)


def test_buffers_over_half_of_the_memory_are_refused(tmp_path):
    root = machine(tmp_path, available=32 * MIB)
    check(block=MIB, root=root)  # 2 x 8 x 1 MiB is just half
    with pytest.raises(
        ConfigError, match=r"need 18,874,368 bytes, over half of the 33,554,432 bytes of memory available"
    ):
        check(block=MIB, depth=9, root=root)
    # Slots are whole pages: 512-byte blocks need as much memory as 4 KiB ones.
    with pytest.raises(ConfigError, match=r"need 16,781,312 bytes"):
        check(block=512, depth=4097, jobs=1, root=root)


def test_libaio_events_are_counted_before_anything_starts(tmp_path):
    root = machine(tmp_path, aio_max=100, aio_used=85)
    with pytest.raises(
        ConfigError,
        match=r"needs 16 events \(2 jobs x queue depth 8\), but only 15 of fs.aio-max-nr=100 are free: run sysctl -w "
        r"fs.aio-max-nr=101",
    ):
        check(aio=True, root=root)
    check(aio=False, root=root)
    check(aio=True, depth=7, root=root)


def test_unknown_machine_limits_demand_nothing(tmp_path):
    check(aio=True, root=str(tmp_path))


def test_a_file_that_refuses_direct_io_is_not_a_question_of_geometry():
    check(block=1000, region_bytes=10**6, alignment=Alignment(0, 0, "statx"))


@given(st.integers(1, 10**12), st.integers(1, 10**6))
def test_round_up(value, multiple):
    up = round_up(value, multiple)
    assert up % multiple == 0
    assert value <= up < value + multiple


@given(st.integers(2, 45 * 1024))  # the sizes of axboe/fio#1235
@example(32)
@example(512)
def test_a2_a_block_is_refused_just_when_it_is_no_multiple(block):
    if block in range(512, 45 * 1024 + 1, 512):
        check(block=block)
    else:
        with pytest.raises(ConfigError, match=f"^block size {block} bytes is not a multiple of the 512-byte"):
            check(block=block)


# This machine ---------------------------------------------------------------------------------------------------------


def accepted_by_the_kernel(fd, offset, length):
    """Whether a direct read with a page-aligned buffer is taken."""
    with mmap.mmap(-1, round_up(length, mmap.PAGESIZE)) as buffer, memoryview(buffer) as view, view[:length] as part:
        try:
            return os.preadv(fd, [part], offset) == length
        except OSError:
            return False


def test_the_kernel_agrees_with_the_alignment(file_of):
    path, fd = file_of(256 * 1024)
    alignment = direct_alignment(path)
    assert alignment == direct_alignment(fd)
    if alignment is None or alignment.offset == 0:
        pytest.skip("this file system tells no direct-I/O alignment")
    direct = os.open(path, os.O_RDONLY | os.O_DIRECT)
    try:
        step = alignment.offset
        for offset, length in ((0, step), (step, 3 * step), (8 * step, 65536), (0, 131072)):
            check(block=length, region_offset=offset, alignment=alignment)
            assert accepted_by_the_kernel(direct, offset, length)
        for offset, length in ((0, step // 2), (32, step), (0, step + 1)):
            with pytest.raises(ConfigError, match="alignment"):
                check(block=length, region_offset=offset, alignment=alignment)
            assert not accepted_by_the_kernel(direct, offset, length)
    finally:
        os.close(direct)


def test_without_statx_the_block_device_is_asked(file_of, monkeypatch):
    path, _ = file_of(4096)
    told = direct_alignment(path)
    monkeypatch.setattr("pytest_gpuio.targets.alignment._statx", lambda: None)
    fallen_back = direct_alignment(path)
    if fallen_back is None:
        pytest.skip("the temporary directory has no block device")
    device = path.stat().st_dev
    assert fallen_back.source == f"logical block size of {os.major(device)}:{os.minor(device)}"
    assert fallen_back.offset in (512, 1024, 2048, 4096, 8192, 16384, 65536)
    if told is not None and told.source == "statx":
        assert fallen_back.offset <= told.offset


def test_alignment_of_what_is_not_there(tmp_path):
    with pytest.raises(TargetError, match=r"nothing cannot be looked at: ENOENT"):
        direct_alignment(tmp_path / "nothing")


def test_a9_a_disk_of_4096_byte_sectors(loop_over_tmpfs, mounted):
    device = loop_over_tmpfs(sector=4096, size=32 * MIB)
    mkfs = shutil.which("mkfs.ext4", path="/usr/sbin:/sbin:/usr/bin")
    if mkfs is None:
        pytest.skip("needs mkfs.ext4")
    made = subprocess.run([mkfs, "-q", "-F", device], capture_output=True, text=True, timeout=60, check=False)
    if made.returncode:
        pytest.skip(f"mkfs.ext4 failed: {made.stderr}")
    path = mounted("ext4", device) / "f"
    path.write_bytes(os.urandom(65536))
    alignment = direct_alignment(path)
    assert alignment is not None
    assert alignment.offset == 4096
    with pytest.raises(ConfigError, match=r"512 bytes is not a multiple of the 4096-byte"):
        check(block=512, alignment=alignment)
    direct = os.open(path, os.O_RDONLY | os.O_DIRECT)
    try:
        assert not accepted_by_the_kernel(direct, 0, 512)
        assert accepted_by_the_kernel(direct, 4096, 4096)
    finally:
        os.close(direct)
