"""Opening targets."""

import errno
import fcntl
import os
from pathlib import Path

import pytest

from pytest_gpuio.core.errors import CapabilityMissing, TargetError
from pytest_gpuio.targets import Alignment, open_target, refuses_direct
from pytest_gpuio.targets.header import Header


@pytest.fixture
def ours(tmp_path):
    path = tmp_path / "ours.dat"
    path.write_bytes(Header("complete", 65536, 7, "now").encode() + bytes(65536))
    return path


def flags_of(fd):
    try:
        return fcntl.fcntl(fd, fcntl.F_GETFL), fcntl.fcntl(fd, fcntl.F_GETFD)
    finally:
        os.close(fd)


def test_flags_are_those_asked_for(ours):
    status, descriptor = flags_of(open_target(ours, writable=False, direct=False))
    assert status & os.O_ACCMODE == os.O_RDONLY
    assert not status & (os.O_DIRECT | os.O_DSYNC)
    assert descriptor & fcntl.FD_CLOEXEC
    status, _ = flags_of(open_target(ours, writable=True, direct=False, dsync=True))
    assert status & os.O_ACCMODE == os.O_RDWR
    assert status & os.O_DSYNC
    try:
        os.close(os.open(ours, os.O_RDONLY | os.O_DIRECT))
    except OSError:
        return
    status, _ = flags_of(open_target(ours, writable=True, direct=True))
    assert status & os.O_DIRECT


def test_b22_refused_direct_io_is_a_missing_capability():
    path = "/proc/self/status"  # procfs has no direct I/O
    with pytest.raises(OSError, match="Invalid argument"):
        os.open(path, os.O_RDONLY | os.O_DIRECT)
    with pytest.raises(
        CapabilityMissing, match=r"^/proc/self/status: this file system \(proc\) refuses O_DIRECT: .*--gpuio-cache=cold"
    ):
        open_target(path, writable=False, direct=True)


def test_b22_ramfs_refuses_direct_io(mounted):
    path = mounted("ramfs") / "f"
    path.write_bytes(bytes(65536))
    try:
        os.close(os.open(path, os.O_RDONLY | os.O_DIRECT))
    except OSError:
        with pytest.raises(CapabilityMissing, match=r"\(ramfs\).*--gpuio-cache=hot"):
            open_target(path, writable=False, direct=True)
    else:
        os.close(open_target(path, writable=False, direct=True))
    os.close(open_target(path, writable=False, direct=False))


def test_a_file_system_that_takes_the_flag_but_not_the_io_is_refused(ours, monkeypatch):
    # Logic only: statx says 0 for such a file (ext4 data=journal, encryption), and none can be made here.
    monkeypatch.setattr("pytest_gpuio.targets.open.direct_alignment", lambda _: Alignment(0, 0, "statx"))
    before = len(list(Path("/proc/self/fd").iterdir()))
    with pytest.raises(CapabilityMissing, match="refuses O_DIRECT"):
        open_target(ours, writable=False, direct=True)
    assert len(list(Path("/proc/self/fd").iterdir())) == before


def test_refused_direct_io_is_foretold_without_leaving_anything(tmp_path, ours):
    try:
        os.close(os.open(ours, os.O_RDONLY | os.O_DIRECT))
    except OSError:
        pytest.skip("the temporary directory's file system refuses O_DIRECT")
    before = sorted(tmp_path.rglob("*"))
    for target in (tmp_path, ours, tmp_path / "new" / "deeper.bin"):
        assert refuses_direct(target) is None
    assert sorted(tmp_path.rglob("*")) == before
    assert "(proc) refuses O_DIRECT" in refuses_direct("/proc/self/status")
    assert refuses_direct("/dev/null") is None


def test_b22_ramfs_is_foretold_to_refuse(mounted):
    ram = mounted("ramfs")
    with pytest.raises(OSError, match="Invalid argument"):
        os.open(ram, os.O_TMPFILE | os.O_RDWR | os.O_DIRECT)
    assert "(ramfs) refuses O_DIRECT" in refuses_direct(ram / "later")
    assert list(ram.iterdir()) == []


def test_the_probe_of_direct_io_without_nameless_files(tmp_path, ours, monkeypatch):
    # Logic only: every file system here has O_TMPFILE.
    real = os.open

    def no_nameless_files(path, flags, *rest):
        if flags & os.O_TMPFILE == os.O_TMPFILE:
            raise OSError(errno.EOPNOTSUPP, "Operation not supported")
        return real(path, flags, *rest)

    expected = refuses_direct(tmp_path)
    monkeypatch.setattr("pytest_gpuio.targets.direct.os.open", no_nameless_files)
    assert refuses_direct(tmp_path) == expected
    assert [path.name for path in tmp_path.iterdir()] == ["ours.dat"]


def test_a_foreign_file_is_never_opened_for_writing(tmp_path):
    path = tmp_path / "precious"
    path.write_bytes(b"precious" * 1000)
    with pytest.raises(TargetError, match=r"precious exists and was not made by gpuio: name another path"):
        open_target(path, writable=True, direct=False)
    os.close(open_target(path, writable=False, direct=False))


def test_what_is_no_regular_file(tmp_path, ours):
    link = tmp_path / "link"
    link.symlink_to(ours)
    with pytest.raises(TargetError, match=r"link is a symbolic link: name what it points to \(.*ours.dat\)"):
        open_target(link, writable=True, direct=False)
    with pytest.raises(TargetError, match="is a directory"):
        open_target(tmp_path, writable=False, direct=False)
    with pytest.raises(TargetError, match="ENOENT"):
        open_target(tmp_path / "nothing", writable=False, direct=False)
    os.mkfifo(tmp_path / "fifo")
    with pytest.raises(TargetError, match="neither a file nor a directory"):
        open_target(tmp_path / "fifo", writable=False, direct=False)
    with pytest.raises(TargetError, match="/dev/null is a character device, and not an NVMe generic one"):
        open_target("/dev/null", writable=True, direct=False)


def test_a_foreign_raw_device_is_never_opened_for_writing(loop_over_tmpfs):
    device = loop_over_tmpfs(sector=512)
    with pytest.raises(TargetError, match="was not made by gpuio"):
        open_target(device, writable=True, direct=True)
    status, _ = flags_of(open_target(device, writable=False, direct=True))  # reading harms nothing
    assert status & os.O_ACCMODE == os.O_RDONLY
    assert status & os.O_DIRECT


def test_somebody_elses_file_is_opened_without_noatime(ours, monkeypatch):
    if os.geteuid() != 0:
        pytest.skip("needs root: another user's file")
    # Standing in the folder: those above it may be closed to others.
    ours.parent.chmod(0o755)
    monkeypatch.chdir(ours.parent)
    os.seteuid(65534)
    try:
        with pytest.raises(PermissionError):
            os.open(ours.name, os.O_RDONLY | os.O_NOATIME)
        status, _ = flags_of(open_target(ours.name, writable=False, direct=False))
    finally:
        os.seteuid(0)
    assert not status & os.O_NOATIME
