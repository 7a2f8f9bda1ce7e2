"""Laying out targets: what lies on the disk afterwards, and what is left alone."""

import errno
import fcntl
import hashlib
import json
import os
import resource
import shutil
import subprocess
import sys
import zlib
from contextlib import suppress
from pathlib import Path

import pytest

from pytest_gpuio.core.errors import Busy, ConfigError, TargetError
from pytest_gpuio.targets import HEADER_BYTES, LayoutStopped, holes, lay_out, resident_bytes, target_file
from pytest_gpuio.targets.header import Header, read_header

engine = pytest.importorskip("pytest_gpuio.engine")
MIB = 1 << 20
SECTOR = 512


def digest(path):
    return hashlib.sha256(Path(path).read_bytes()).hexdigest()


def names(folder):
    return sorted(entry.name for entry in Path(folder).iterdir())


def header_of(path):
    with Path(path).open("rb") as file:
        return read_header(file.fileno(), str(path))


def data_of(path):
    with Path(path).open("rb") as file:
        file.seek(HEADER_BYTES)
        return file.read()


def bad_sectors(path, seed):
    data = bytearray(data_of(path))
    return engine.pattern_check(data, HEADER_BYTES, seed)[0]


def test_a_new_target_is_complete_on_the_disk(tmp_path):
    path = tmp_path / "gpuio-read.dat"
    steps = []
    target = lay_out(path, 20 * MIB, progress=lambda done, total: steps.append((done, total)))
    assert (target.path, target.data_offset, target.data_bytes, target.reused) == (str(path), 2 * MIB, 20 * MIB, False)
    assert path.stat().st_size == 22 * MIB
    assert path.stat().st_blocks * 512 >= 20 * MIB
    assert steps == [(0, 20 * MIB), (8 * MIB, 20 * MIB), (16 * MIB, 20 * MIB), (20 * MIB, 20 * MIB)]
    fields = json.loads(path.read_bytes()[:4096].rstrip(b"\0"))
    assert (fields["state"], fields["data_bytes"], fields["pattern_seed"]) == (
        "complete",
        20 * MIB,
        target.pattern_seed,
    )
    with path.open("rb") as file:
        assert holes(file.fileno(), 0, 22 * MIB) == []
    data = data_of(path)
    assert len({data[at : at + SECTOR] for at in range(0, len(data), SECTOR)}) == 20 * MIB // SECTOR
    assert len(zlib.compress(data[: 2 * MIB], 1)) > 0.99 * 2 * MIB
    assert bad_sectors(path, target.pattern_seed) == 0
    assert bad_sectors(path, target.pattern_seed + 1) == 20 * MIB // SECTOR
    assert names(tmp_path) == ["gpuio-read.dat"]


def test_the_page_cache_is_not_filled(on_disk):
    path = on_disk / "f"
    lay_out(path, 16 * MIB)
    with path.open("rb") as file:
        assert resident_bytes(file.fileno(), HEADER_BYTES, 16 * MIB) == 0


def test_odd_sizes_are_rounded_up(tmp_path):
    target = lay_out(tmp_path / "f", 100_000)
    assert target.data_bytes == 131072
    assert (tmp_path / "f").stat().st_size == HEADER_BYTES + 131072
    assert bad_sectors(tmp_path / "f", target.pattern_seed) == 0


def test_a_fitting_target_is_reused_untouched(tmp_path):
    path = tmp_path / "f"
    first = lay_out(path, 4 * MIB)
    before = digest(path), path.stat().st_mtime_ns
    for asked in (4 * MIB, 4 * MIB - 1, MIB):
        again = lay_out(path, asked)
        assert again.reused
        assert (again.data_bytes, again.pattern_seed) == (4 * MIB, first.pattern_seed)
    assert (digest(path), path.stat().st_mtime_ns) == before


def test_two_targets_share_no_content(tmp_path):
    seeds = {lay_out(tmp_path / name, MIB).pattern_seed for name in ("a", "b")}
    assert len(seeds) == 2
    assert data_of(tmp_path / "a")[:SECTOR] != data_of(tmp_path / "b")[:SECTOR]


def test_too_small_is_laid_out_again_in_place(tmp_path):
    path = tmp_path / "f"
    lay_out(path, MIB)
    inode = path.stat().st_ino
    target = lay_out(path, 4 * MIB)
    assert not target.reused
    assert path.stat().st_ino == inode
    assert bad_sectors(path, target.pattern_seed) == 0


def unfinished(path):
    header = header_of(path)
    with path.open("r+b") as file:
        file.write(Header("laying_out", header.data_bytes, header.pattern_seed, header.created).encode())


def longer_and_unfinished(path):
    unfinished(path)
    with path.open("ab") as file:
        file.write(bytes(MIB))


def truncated(path):
    os.truncate(path, HEADER_BYTES + MIB)


def sparse(path):
    os.truncate(path, HEADER_BYTES + MIB)
    os.truncate(path, HEADER_BYTES + 4 * MIB)


@pytest.mark.parametrize("damage", [unfinished, longer_and_unfinished, truncated, sparse])
def test_our_damaged_target_is_laid_out_again(tmp_path, damage):
    path = tmp_path / "f"
    lay_out(path, 4 * MIB)
    damage(path)
    target = lay_out(path, 4 * MIB)
    assert not target.reused
    assert path.stat().st_size == HEADER_BYTES + 4 * MIB
    assert header_of(path).state == "complete"
    assert bad_sectors(path, target.pattern_seed) == 0


@pytest.mark.parametrize(
    "content", [b"", b"precious\n" * 1000, bytes(3 * MIB), b'{"magic": "pytest-gpuio target" broken']
)
def test_b19_a_foreign_file_is_left_alone(tmp_path, content):
    path = tmp_path / "data.bin"
    path.write_bytes(content)
    path.chmod(0o644)
    before = path.stat()
    with pytest.raises(
        TargetError, match=r"data.bin (exists and was not made by gpuio: name another path|begins like)"
    ):
        lay_out(path, MIB)
    after = path.stat()
    assert path.read_bytes() == content
    assert (after.st_ino, after.st_mtime_ns, after.st_mode) == (before.st_ino, before.st_mtime_ns, before.st_mode)
    assert names(tmp_path) == ["data.bin"]


def test_a_file_exchanged_at_the_last_moment_is_left_alone(tmp_path, monkeypatch):
    path = tmp_path / "f"
    lay_out(path, MIB)
    real = fcntl.flock

    def exchange(fd, how):
        os.ftruncate(fd, 0)
        os.pwrite(fd, b"now it is somebody else's", 0)
        real(fd, how)

    monkeypatch.setattr("pytest_gpuio.targets.layout.fcntl.flock", exchange)
    with pytest.raises(TargetError, match="was not made by gpuio"):
        lay_out(path, 4 * MIB)
    assert path.read_bytes() == b"now it is somebody else's"


def test_symbolic_links_and_devices_are_refused(tmp_path):
    ours = tmp_path / "ours"
    lay_out(ours, MIB)
    before = digest(ours)
    (tmp_path / "link").symlink_to(ours)
    (tmp_path / "dangling").symlink_to(tmp_path / "new")
    os.mkfifo(tmp_path / "fifo")
    for name, message in (
        ("link", "symbolic link"),
        ("dangling", "symbolic link"),
        ("fifo", "neither"),
        (".", "directory"),
    ):
        with pytest.raises(TargetError, match=message):
            lay_out(tmp_path / name, 4 * MIB)
    assert digest(ours) == before
    assert not (tmp_path / "new").exists()


@pytest.mark.parametrize("size", [0, -1])
def test_zero_length_is_refused(tmp_path, size):
    with pytest.raises(ConfigError, match="must be above zero"):
        lay_out(tmp_path / "f", size)
    assert names(tmp_path) == []


def test_more_than_the_file_system_holds_is_refused_before_anything_is_made(tmp_path):
    free = shutil.disk_usage(tmp_path).free
    with pytest.raises(ConfigError, match=r"needs [\d,]+ bytes and [\d,]+ bytes \(5 % of the file system\) left free"):
        lay_out(tmp_path / "new" / "f", free)
    assert names(tmp_path) == []


def test_refused_growth_keeps_the_old_target(tmp_path):
    path = tmp_path / "f"
    first = lay_out(path, MIB)
    with pytest.raises(ConfigError, match="lower --gpuio-size"):
        lay_out(path, shutil.disk_usage(tmp_path).free)
    assert lay_out(path, MIB).reused
    assert header_of(path).pattern_seed == first.pattern_seed


def test_memory_file_systems_are_not_filled_over_half_of_the_memory(monkeypatch):
    if not Path("/dev/shm").is_dir():
        pytest.skip("no /dev/shm on this machine")
    monkeypatch.setattr("pytest_gpuio.targets.layout.memory_bytes", lambda *_: 4 * MIB)
    path = Path(f"/dev/shm/gpuio-test-{os.getpid()}")
    with pytest.raises(ConfigError, match="takes that much memory"):
        lay_out(path, MIB)
    assert not path.exists()


def test_b18_a_file_system_that_fills_up_half_way(mounted):
    folder = mounted("tmpfs", options="size=40m")
    path, filler = folder / "f", folder / "somebody-elses"

    def fill(done, total):
        if done == 8 * MIB:
            filler.touch()
            with filler.open("r+b") as file, suppress(OSError):
                while True:
                    file.write(bytes(MIB))
                    file.flush()

    with pytest.raises(TargetError, match=r"failed after 8,388,608 of 25,165,824 bytes: ENOSPC .*the file is removed"):
        lay_out(path, 24 * MIB, progress=fill)
    assert names(folder) == ["somebody-elses"]


def test_b18_a_limit_on_file_size(tmp_path):
    path = tmp_path / "f"
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (12 * MIB, hard))
    try:
        with pytest.raises(TargetError, match=r"failed after 8,388,608 of 20,971,520 bytes: EFBIG"):
            lay_out(path, 20 * MIB)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert names(tmp_path) == []


def test_stop_removes_the_partial_file(tmp_path):
    path = tmp_path / "f"
    asked = []
    with pytest.raises(LayoutStopped, match=r"stopped after 8,388,608 of 33,554,432 bytes"):
        lay_out(path, 32 * MIB, stop=lambda: asked.append(1) or len(asked) == 2)
    assert names(tmp_path) == []


def test_stop_in_the_middle_of_growing_removes_our_file(tmp_path):
    path = tmp_path / "f"
    lay_out(path, MIB)
    with pytest.raises(LayoutStopped):
        lay_out(path, 32 * MIB, stop=lambda: True)
    assert names(tmp_path) == []


def test_a_keyboard_interrupt_leaves_no_stray_file_and_no_open_descriptor(tmp_path):
    before = len(names("/proc/self/fd"))

    def interrupt(done, total):
        if done:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        lay_out(tmp_path / "f", 32 * MIB, progress=interrupt)
    assert names(tmp_path) == []
    assert len(names("/proc/self/fd")) == before


def test_a_file_put_in_place_of_ours_is_not_removed(tmp_path):
    path = tmp_path / "f"

    def exchange(done, total):
        path.unlink()
        path.write_bytes(b"somebody else's")
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        lay_out(path, MIB, progress=exchange)
    assert path.read_bytes() == b"somebody else's"


def test_a_killed_laying_out_is_known_as_ours_and_repeated(tmp_path):
    path = tmp_path / "f"
    code = (
        "import os, sys; from pytest_gpuio.targets import lay_out\n"
        "lay_out(sys.argv[1], 32 << 20, progress=lambda done, _: os._exit(9) if done else None)"
    )
    killed = subprocess.run([sys.executable, "-c", code, path], timeout=60, check=False, capture_output=True)
    assert killed.returncode == 9, killed.stderr
    assert header_of(path).state == "laying_out"
    target = lay_out(path, MIB)
    assert not target.reused
    assert path.stat().st_size == HEADER_BYTES + MIB
    assert bad_sectors(path, target.pattern_seed) == 0


def test_two_at_a_time_are_refused(tmp_path):
    path = tmp_path / "f"
    lay_out(path, MIB)
    with path.open("rb") as other:
        fcntl.flock(other, fcntl.LOCK_EX)
        with pytest.raises(Busy, match="being laid out by another process"):
            lay_out(path, 4 * MIB)
    assert lay_out(path, MIB).reused


@pytest.mark.parametrize("refused_at", ["open", "write"])
def test_without_direct_io_it_is_written_through_the_page_cache_and_dropped(on_disk, monkeypatch, refused_at):
    # Logic only: the file system under the tests takes O_DIRECT.
    if refused_at == "open":
        monkeypatch.setattr("pytest_gpuio.targets.layout._open_direct", lambda _: None)
    else:
        real = os.pwrite

        def refuse_direct(fd, data, offset):
            if fcntl.fcntl(fd, fcntl.F_GETFL) & os.O_DIRECT:
                raise OSError(errno.EINVAL, "Invalid argument")
            return real(fd, data, offset)

        monkeypatch.setattr("pytest_gpuio.targets.layout.os.pwrite", refuse_direct)
    monkeypatch.setattr("pytest_gpuio.targets.layout._FLUSH_EVERY", 8 * MIB)
    path = on_disk / "f"
    target = lay_out(path, 20 * MIB)
    with path.open("rb") as file:
        assert resident_bytes(file.fileno(), 0, 22 * MIB) == 0
    assert bad_sectors(path, target.pattern_seed) == 0


def test_only_the_last_directory_is_made_and_the_default_one_hides_from_git(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    lay_out(".gpuio/gpuio-read.dat", MIB)
    assert (tmp_path / ".gpuio/.gitignore").read_text() == "*\n"
    lay_out(tmp_path / "other" / "f", MIB)
    assert names(tmp_path / "other") == ["f"]
    with pytest.raises(TargetError, match=r"missing does not exist: create it, or name another --gpuio-target"):
        lay_out(tmp_path / "missing" / "deeper" / "f", MIB)
    (tmp_path / "file").write_text("")
    with pytest.raises(TargetError, match=r"cannot be"):
        lay_out(tmp_path / "file" / "f", MIB)


def test_no_permission_is_named(tmp_path):
    if os.geteuid() == 0:
        pytest.skip("root may do everything")
    tmp_path.chmod(0o555)
    try:
        with pytest.raises(TargetError, match="EACCES"):
            lay_out(tmp_path / "f", MIB)
    finally:
        tmp_path.chmod(0o755)


# From what the user named to a file ---------------------------------------------------------------------------------


def test_target_file_of_directories_and_files(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert target_file(tmp_path, writes=False) == tmp_path / "gpuio-read.dat"
    assert target_file(str(tmp_path), writes=True) == tmp_path / "gpuio-write.dat"
    assert target_file(".gpuio", writes=False) == Path(".gpuio/gpuio-read.dat")
    assert target_file("bench", writes=True) == Path("bench/gpuio-write.dat")
    assert target_file("new.bin", writes=True) == Path("new.bin")
    (tmp_path / "there").write_text("x")
    assert target_file("there", writes=False) == Path("there")
    (tmp_path / "linked").symlink_to(tmp_path, target_is_directory=True)
    assert target_file("linked", writes=False) == Path("linked/gpuio-read.dat")
    assert names(tmp_path) == ["linked", "there"]


def test_target_file_refuses_what_cannot_work(tmp_path):
    (tmp_path / "there.bin").write_text("x")
    (tmp_path / "link.bin").symlink_to("there.bin")
    (tmp_path / "dangling").symlink_to("nothing")
    for name, message in (
        ("missing/deeper.bin", "its parent directory does not exist"),
        ("link.bin", "symbolic link"),
        ("dangling", "symbolic link"),
        ("there.bin/below", "ENOTDIR"),
    ):
        with pytest.raises(TargetError, match=message):
            target_file(tmp_path / name, writes=False)


def test_a_raw_device_is_no_file_to_lay_out(loop_over_tmpfs):
    device = loop_over_tmpfs(sector=512)
    assert target_file(device, writes=True) == target_file(device, writes=False) == Path(device)
    with pytest.raises(TargetError, match="is a block device: a regular file is needed here"):
        lay_out(device, 1 << 20)
