"""The host-wide lock against real second processes and against what others may have left in its place."""

import fcntl
import json
import os
import stat
import tempfile
from pathlib import Path

import pytest

from pytest_gpuio.core.errors import Busy, ConfigError
from pytest_gpuio.isolation.lock import HostLock, lock_folders

HOLD = """
import sys, time
from pathlib import Path
from pytest_gpuio.isolation.lock import HostLock
with HostLock(0, folders=[Path({folder!r})]):
    print("held", flush=True)
    time.sleep({seconds})
"""


@pytest.fixture
def folder(tmp_path):
    return tmp_path / "gpuio"


def hold(middle, folder, seconds=60):
    process = middle(HOLD.format(folder=str(folder), seconds=seconds))
    assert process.stdout.readline() == "held\n"
    return process


def test_everyone_may_use_what_it_makes(folder):
    old = os.umask(0o077)
    try:
        with HostLock(0, folders=[folder]) as lock:
            assert lock.path == folder / "host.lock"
    finally:
        os.umask(old)
    assert stat.S_IMODE(folder.stat().st_mode) == 0o1777
    assert stat.S_IMODE(lock.path.stat().st_mode) == 0o666


def test_the_file_names_its_holder_while_it_is_held(folder):
    with HostLock(0, folders=[folder]) as lock:
        holder = json.loads(lock.path.read_text())
        assert holder["pid"] == os.getpid()
        assert holder["command"]
        assert holder["since"][:2] == "20"
    assert lock.path.read_text() == ""


def test_another_process_holds_it(middle, folder):
    process = hold(middle, folder)
    who = rf"another gpuio run \(pid {process.pid}, `.*python.*`, since 20.*\) holds"
    with pytest.raises(Busy, match=rf"{who} .*host.lock: wait for it, or wait longer with --gpuio-lock-timeout"):
        HostLock(0.1, folders=[folder]).acquire()


def test_a_waiter_gets_it_when_the_holder_ends(middle, folder):
    hold(middle, folder, seconds=0.3)
    with HostLock(30, folders=[folder]) as lock:
        assert json.loads(lock.path.read_text())["pid"] == os.getpid()


def test_death_of_the_holder_releases_it(middle, folder):
    process = hold(middle, folder)
    process.kill()
    process.wait(10)
    assert json.loads((folder / "host.lock").read_text())["pid"] == process.pid  # stale, and no hindrance
    with HostLock(0, folders=[folder]) as lock:
        assert json.loads(lock.path.read_text())["pid"] == os.getpid()


def test_this_process_holds_it_already(folder):
    with HostLock(0, folders=[folder]) as lock:
        with pytest.raises(Busy, match=rf"this process \(pid {os.getpid()}\) already holds"):
            HostLock(30, folders=[folder]).acquire()
        with pytest.raises(Busy, match="already holds"):
            lock.acquire()
        assert json.loads(lock.path.read_text())["pid"] == os.getpid()
    lock.release()
    with lock:  # and it can be taken again
        pass


def test_a_fork_gives_nothing_back(middle, folder):
    process = middle(
        f"""
import os, sys
from pathlib import Path
from pytest_gpuio.isolation.lock import HostLock
lock = HostLock(0, folders=[Path({str(folder)!r})])
lock.acquire()
if os.fork() == 0:
    lock.release()
    sys.exit(0)
os.wait()
print("forked", flush=True)
sys.stdin.readline()
"""
    )
    assert process.stdout.readline() == "forked\n"
    assert json.loads((folder / "host.lock").read_text())["pid"] == process.pid
    with pytest.raises(Busy, match=f"pid {process.pid}"):
        HostLock(0, folders=[folder]).acquire()


def test_a_removed_file_is_made_again(folder, monkeypatch):
    """The file vanishes between being opened and being locked: the lock must end on the file that is there."""
    real, removed = fcntl.flock, []

    def flock(fd, how):
        if not removed:
            removed.append((folder / "host.lock").unlink())
        return real(fd, how)

    monkeypatch.setattr(fcntl, "flock", flock)
    with HostLock(0, folders=[folder]) as lock:
        assert removed
        assert json.loads(lock.path.read_text())["pid"] == os.getpid()


def test_a_file_that_is_removed_for_ever_is_an_error(folder, monkeypatch):
    monkeypatch.setattr(fcntl, "flock", lambda *_: (folder / "host.lock").unlink())
    with pytest.raises(ConfigError, match="removed as fast as it is made"):
        HostLock(0, folders=[folder]).acquire()


@pytest.mark.parametrize("text", ["precious\n", '{"mine": 1}', "{}"])
def test_a_file_of_somebody_else_is_left_alone(folder, text):
    folder.mkdir()
    (folder / "host.lock").write_text(text)
    with pytest.raises(ConfigError, match="not a lock file of gpuio"):
        HostLock(0, folders=[folder]).acquire()
    assert (folder / "host.lock").read_text() == text


def test_a_hard_link_is_not_followed(folder, tmp_path):
    folder.mkdir()
    (tmp_path / "empty").touch()
    (folder / "host.lock").hardlink_to(tmp_path / "empty")
    with pytest.raises(ConfigError, match="not a lock file of gpuio"):
        HostLock(0, folders=[folder]).acquire()
    assert (tmp_path / "empty").read_text() == ""


def test_links_fifos_and_folders_in_its_place_are_refused(folder, tmp_path):
    lock = folder / "host.lock"
    folder.mkdir()
    (tmp_path / "target").touch()
    lock.symlink_to(tmp_path / "target")
    with pytest.raises(ConfigError, match="ELOOP"):
        HostLock(0, folders=[folder]).acquire()
    lock.unlink()
    os.mkfifo(lock)
    with pytest.raises(ConfigError, match="not a lock file of gpuio"):
        HostLock(0, folders=[folder]).acquire()
    lock.unlink()
    lock.mkdir()
    with pytest.raises(ConfigError, match="EISDIR"):
        HostLock(0, folders=[folder]).acquire()


def test_a_folder_that_is_a_link_is_refused(folder, tmp_path):
    (tmp_path / "elsewhere").mkdir()
    folder.symlink_to(tmp_path / "elsewhere")
    with pytest.raises(ConfigError, match="Something that gpuio did not make"):
        HostLock(0, folders=[folder]).acquire()
    assert not list((tmp_path / "elsewhere").iterdir())


def test_the_next_folder_is_taken_when_the_first_cannot_be_made(folder, tmp_path):
    with HostLock(0, folders=[tmp_path / "missing" / "gpuio", folder]) as lock:
        assert lock.path == folder / "host.lock"
    with pytest.raises(ConfigError, match=r"Make one of these folders writable: .*missing/gpuio: ENOENT"):
        HostLock(0, folders=[tmp_path / "missing" / "gpuio"]).acquire()


def test_a_holder_that_lies_is_quoted_harmlessly(folder):
    folder.mkdir()
    lock = folder / "host.lock"
    for text, shown in (
        (
            '{"gpuio_host_lock": 1, "pid": 7, "command": "\\u001b[2Jboo", "since": "now"}',
            r"pid 7, `\?\[2Jboo`, since now",
        ),
        ('{"gpuio_host_lock": 1, "pid": "x"}', "it does not say which"),
        ('{"gpuio_host', "it does not say which"),
        ("", "it does not say which"),
    ):
        lock.write_text(text)
        with lock.open() as other:
            fcntl.flock(other, fcntl.LOCK_EX)
            with pytest.raises(Busy, match=rf"another gpuio run \({shown}\)"):
                HostLock(0, folders=[folder]).acquire()


def test_waiting_ends_at_the_timeout_and_leaves_no_descriptor(middle, folder, descriptors):
    hold(middle, folder)
    before = descriptors()
    with pytest.raises(Busy):
        HostLock(0.2, folders=[folder]).acquire()
    assert descriptors() == before


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can act as two users")
def test_users_share_it(middle):
    """Made by one user, used by another and by root, in a folder with the sticky bit."""
    with tempfile.TemporaryDirectory() as name:  # pytest's own folders are closed to other users
        shared = Path(name)
        shared.chmod(0o1777)
        script = (
            "import os; from pathlib import Path; from pytest_gpuio.isolation.lock import HostLock\n"
            "os.setgid({uid}); os.setuid({uid})\n"
            f"with HostLock(0, folders=[Path({name!r}) / 'gpuio']) as lock: print(lock.path.read_text(), flush=True)\n"
        )
        for uid in (12_345, 23_456):
            process = middle(script.format(uid=uid))
            assert json.loads(process.stdout.readline())["pid"] == process.pid
            assert process.wait(10) == 0
        with HostLock(0, folders=[shared / "gpuio"]) as lock:
            assert lock.path.stat().st_uid == 12_345
            assert json.loads(lock.path.read_text())["pid"] == os.getpid()


def test_the_usual_places(monkeypatch, tmp_path):
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    assert lock_folders() == (Path("/run/lock/gpuio"), tmp_path / "gpuio")
