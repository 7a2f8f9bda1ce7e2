"""The page cache and holes of real files, against fincore and against what the test did itself."""

import ctypes
import mmap
import os
import random
import shutil
import subprocess

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from pytest_gpuio.core.errors import TargetError
from pytest_gpuio.targets import cache, drop, holes, resident_bytes, warm

PAGE = mmap.PAGESIZE
MIB = 1 << 20


@pytest.fixture(params=["cachestat", "mincore"])
def counter(request, monkeypatch):
    """Each of the two system calls; both answer for real."""
    if request.param == "mincore":
        monkeypatch.setattr(cache, "_counted", lambda *_: None)
    elif ctypes.CDLL(None, use_errno=True).syscall(451, -1, None, None, 0) != 0 and ctypes.get_errno() == 38:
        pytest.skip("this kernel has no cachestat (Linux 6.5)")
    return request.param


def fincore(path):
    """Resident bytes as util-linux sees them."""
    if shutil.which("fincore") is None:
        pytest.skip("needs fincore (util-linux)")
    told = subprocess.run(["fincore", "-b", "-n", "-o", "RES", path], capture_output=True, text=True, check=True)
    return int(told.stdout)


def test_drop_and_warm_are_seen_by_fincore(file_of, on_disk):
    path, fd = file_of(4 * MIB)
    assert drop(fd, 0, 4 * MIB) == 0
    assert fincore(path) == 0
    assert resident_bytes(fd, 0, 4 * MIB) == 0
    # Up to the end of the file, so that no readahead is still on its way when the two observers look.
    assert warm(fd, 2 * MIB, 2 * MIB) == 2 * MIB
    assert resident_bytes(fd, 2 * MIB, 2 * MIB) == 2 * MIB
    assert resident_bytes(fd, 0, 4 * MIB) == fincore(path)
    assert drop(fd, 0, 4 * MIB) == 0
    assert fincore(path) == 0


def test_dirty_pages_are_written_before_they_are_dropped(file_of, on_disk):
    path, fd = file_of(MIB)
    fresh = os.urandom(MIB)
    os.pwrite(fd, fresh, 0)
    assert drop(fd, 0, MIB) == 0
    assert path.read_bytes() == fresh


def test_warm_works_on_a_direct_descriptor(file_of, on_disk):
    path, fd = file_of(MIB)
    try:
        direct = os.open(path, os.O_RDONLY | os.O_DIRECT)
    except OSError:
        pytest.skip("this file system refuses O_DIRECT")
    try:
        assert drop(fd, 0, MIB) == 0
        assert warm(direct, 0, MIB) == MIB
        assert resident_bytes(direct, 0, MIB) == MIB == fincore(path)
    finally:
        os.close(direct)


def test_warm_ends_at_the_end_of_the_file(file_of):
    _, fd = file_of(MIB + 100)
    assert warm(fd, MIB, 4 * MIB) == 100
    assert warm(fd, 8 * MIB, MIB) == 0
    assert warm(fd, 0, 0) == 0


def test_memory_file_systems_keep_everything(tmp_path_factory, request):
    try:
        folder = os.open("/dev/shm", os.O_RDONLY | os.O_DIRECTORY)
        os.close(folder)
        fd = os.open("/dev/shm", os.O_RDWR | os.O_TMPFILE, 0o600)
    except OSError:
        pytest.skip("no /dev/shm on this machine")
    try:
        os.pwrite(fd, b"x" * MIB, 0)
        assert drop(fd, 0, MIB) == MIB
    finally:
        os.close(fd)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=50, deadline=None)
@given(offset=st.integers(0, MIB + 9000), length=st.integers(0, MIB))
def test_a_resident_file_counts_exactly_the_bytes_of_the_range_inside_it(file_of, counter, offset, length):
    _, fd = file_of(MIB + 777)
    warm(fd, 0, MIB + 777)
    assert resident_bytes(fd, offset, length) == max(0, min(offset + length, MIB + 777) - offset)


def test_both_system_calls_count_the_same_of_a_file_that_is_cached_in_parts(file_of, on_disk, monkeypatch):
    path, fd = file_of(4 * MIB + 777)
    assert drop(fd, 0, 4 * MIB + 777) == 0
    os.posix_fadvise(fd, 0, 0, os.POSIX_FADV_RANDOM)  # no readahead: what is read is what is cached
    dice = random.Random(7)
    for _ in range(60):
        os.pread(fd, 1, dice.randrange(4 * MIB + 777))
    ranges = [(dice.randrange(4 * MIB), dice.randrange(1, 2 * MIB)) for _ in range(300)]
    one = [resident_bytes(fd, offset, length) for offset, length in ranges]
    monkeypatch.setattr(cache, "_counted", lambda *_: None)
    assert [resident_bytes(fd, offset, length) for offset, length in ranges] == one
    assert len(set(one)) > 40
    assert fincore(path) >= 50 * PAGE


def test_somebody_else_s_file_is_left_to_mincore(tmp_path):
    if os.geteuid() != 0:
        pytest.skip("needs root, to become somebody else")
    path = tmp_path / "f"
    path.write_bytes(b"x" * (3 * PAGE))
    path.chmod(0o644)
    fd = os.open(path, os.O_RDONLY)
    os.seteuid(65534)
    try:  # the kernel tells strangers that all of it is there, cached or not (mincore), or nothing at all (cachestat)
        assert resident_bytes(fd, 0, 3 * PAGE) == 3 * PAGE
    finally:
        os.seteuid(0)
        os.close(fd)


def test_ranges_longer_than_one_mapping(tmp_path, monkeypatch):
    # The kernel's answers are real; only the length of a mapping is made small.
    monkeypatch.setattr(cache, "_counted", lambda *_: None)
    monkeypatch.setattr("pytest_gpuio.targets.cache._CHUNK", 4 * PAGE)
    path = tmp_path / "f"
    path.write_bytes(b"x" * (10 * PAGE + 5))
    fd = os.open(path, os.O_RDWR)
    try:
        warm(fd, 0, 11 * PAGE)
        assert resident_bytes(fd, 100, 20 * PAGE) == 10 * PAGE + 5 - 100
    finally:
        os.close(fd)


def test_what_cannot_be_mapped_or_written_is_named(tmp_path):
    fd = os.open(tmp_path, os.O_RDONLY | os.O_DIRECTORY)
    try:
        with pytest.raises(TargetError, match=r"cannot be mapped: E[A-Z]+ \("):
            resident_bytes(fd, 0, PAGE)
    finally:
        os.close(fd)
    reading, writing = os.pipe()
    try:
        with pytest.raises(TargetError, match="writing the target out failed: EINVAL"):
            drop(writing, 0, PAGE)
    finally:
        os.close(reading)
        os.close(writing)


def test_a18_holes_are_found(tmp_path):
    path = tmp_path / "sparse"
    fd = os.open(path, os.O_RDWR | os.O_CREAT, 0o644)
    try:
        os.ftruncate(fd, 8 * MIB)
        for at in (1, 2, 5):
            os.pwrite(fd, os.urandom(MIB), at * MIB)
        os.fsync(fd)
        if os.fstat(fd).st_blocks * 512 >= 8 * MIB:
            pytest.skip("this file system keeps no holes")
        assert holes(fd, 0, 8 * MIB) == [(0, MIB), (3 * MIB, 5 * MIB), (6 * MIB, 8 * MIB)]
        assert holes(fd, MIB, 2 * MIB) == []
        assert holes(fd, 4 * MIB, MIB // 2) == [(4 * MIB, 4 * MIB + MIB // 2)]
        # Past the end of the file there is no data either.
        assert holes(fd, 5 * MIB, 5 * MIB) == [(6 * MIB, 10 * MIB)]
        assert holes(fd, 9 * MIB, MIB) == [(9 * MIB, 10 * MIB)]
    finally:
        os.close(fd)


def test_a_full_file_has_no_holes(file_of):
    _, fd = file_of(MIB)
    assert holes(fd, 0, MIB) == []
    assert holes(fd, 0, MIB + 1) == [(MIB, MIB + 1)]
    assert holes(fd, 10, 0) == []


def test_pages_that_this_process_has_mapped_and_touched_are_dropped_too(file_of, on_disk):
    _, fd = file_of(MIB)
    with mmap.mmap(fd, 0) as mapped:
        content = bytes(mapped)
        assert resident_bytes(fd, 0, MIB) == MIB
        assert drop(fd, 0, MIB) == 0
        assert bytes(mapped) == content
