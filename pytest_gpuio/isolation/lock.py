"""The host-wide lock: two runs on one machine never disturb each other's numbers."""

from __future__ import annotations

import contextlib
import datetime
import errno
import fcntl
import json
import os
import shlex
import stat
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Final, Self

from pytest_gpuio.core.errors import Busy, ConfigError, errno_text

_POLL_S: Final = 0.05
#: Tries on a file that others keep removing.
_ATTEMPTS: Final = 100
_FILE: Final = "host.lock"
#: First key of what is written into the file: a file that holds anything else is not ours and is not written.
_MARK: Final = "gpuio_host_lock"
_READ: Final = 4_096
_COMMAND_LIMIT: Final = 200
#: Locks that this process holds, by device and inode, with the process's id: a fork holds none.
_held: dict[tuple[int, int], int] = {}


def lock_folders() -> tuple[Path, ...]:
    """Where the lock may lie, best first: the machine's folder for locks, then the one for temporary files."""
    return (Path("/run/lock/gpuio"), Path(tempfile.gettempdir()) / "gpuio")


class HostLock:
    """An flock on one file of the machine; the kernel releases it when the holder dies.

    The file is shared by all users and stays where it is. Its text names the holder.

    Args:
        timeout_s: seconds to wait for another holder; 0 = one try.
        folders: where the file may lie; the first folder that exists or can be made is used.
    """

    def __init__(self, timeout_s: float, *, folders: Sequence[Path] | None = None) -> None:
        self._timeout_s = timeout_s
        self._folders = tuple(folders) if folders is not None else lock_folders()
        self._fd: int | None = None
        self._key: tuple[int, int] | None = None
        self.path: Path | None = None

    def __enter__(self) -> Self:
        self.acquire()
        return self

    def __exit__(self, *_: object) -> None:
        self.release()

    def acquire(self) -> None:
        """Takes the lock, waiting up to the timeout.

        Raises:
            Busy: another run holds it, or this process does.
            ConfigError: the lock file cannot be made, or something that is not ours is in its place.
        """
        until = time.monotonic() + self._timeout_s
        for _ in range(_ATTEMPTS):
            path, fd = self._open()
            try:
                if self._try(path, fd, until):
                    self.path, self._fd = path, fd
                    return
            except BaseException:
                os.close(fd)
                raise
            os.close(fd)  # somebody removed the file meanwhile: a lock on it would exclude nobody
        raise ConfigError(f"the host-wide lock {path} is removed as fast as it is made: find out by whom.")

    def release(self) -> None:
        """Gives the lock back; does nothing when it is not held."""
        if self._fd is None or self._key is None:
            return
        fd, self._fd = self._fd, None
        if _held.pop(self._key, None) == os.getpid():
            with contextlib.suppress(OSError):
                os.ftruncate(fd, 0)
        os.close(fd)

    def _open(self) -> tuple[Path, int]:
        problems = []
        for folder in self._folders:
            try:
                return folder / _FILE, _open_in(folder)
            except OSError as error:
                if error.errno not in (errno.ENOENT, errno.EACCES, errno.EPERM, errno.EROFS):
                    raise ConfigError(
                        f"the host-wide lock {folder / _FILE} cannot be opened: {errno_text(error.errno or 0)}. "
                        "Something that gpuio did not make is in its place: remove it."
                    ) from error
                problems.append(f"{folder}: {errno_text(error.errno)}")
        raise ConfigError(
            f"the host-wide lock cannot be made. Make one of these folders writable: {'; '.join(problems)}."
        )

    def _try(self, path: Path, fd: int, until: float) -> bool:
        """True when the lock is held and its file is still the one at ``path``; False when it has been replaced."""
        status = os.fstat(fd)
        self._key = (status.st_dev, status.st_ino)
        if not stat.S_ISREG(status.st_mode) or status.st_nlink > 1 or not _is_ours(_read(fd)):
            raise ConfigError(f"{path} is not a lock file of gpuio; it is left as it is. Move it away.")
        if _held.get(self._key) == os.getpid():
            raise Busy(f"this process (pid {os.getpid()}) already holds {path}: release it first.")
        while True:
            try:
                fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except BlockingIOError:
                if time.monotonic() >= until:
                    raise Busy(
                        f"another gpuio run ({_holder(_read(fd))}) holds {path}: wait for it, or wait longer with "
                        "--gpuio-lock-timeout."
                    ) from None
            time.sleep(min(_POLL_S, max(0.0, until - time.monotonic())))
        try:
            there = path.lstat()
        except FileNotFoundError:
            return False
        if (there.st_dev, there.st_ino) != self._key:
            return False
        with contextlib.suppress(OSError):  # another user's file may be read-only; the lock holds all the same
            os.ftruncate(fd, 0)
            os.pwrite(fd, _describe(), 0)
        _held[self._key] = os.getpid()
        return True


def _open_in(folder: Path) -> int:
    """A descriptor of the lock file in ``folder``, made when it is missing; follows no link on the last two steps."""
    made = False
    try:
        folder.mkdir(mode=0o700)
        made = True
    except FileExistsError:
        pass
    directory = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
    try:
        if made:
            os.fchmod(directory, 0o1777)  # mkdir's own mode is cut by the umask
        # An existing file is opened without O_CREAT: with it, fs.protected_regular refuses other users' files here.
        flags = os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK
        for _ in range(_ATTEMPTS):
            try:
                return os.open(_FILE, os.O_RDWR | flags, dir_fd=directory)
            except PermissionError:
                return os.open(_FILE, os.O_RDONLY | flags, dir_fd=directory)  # enough for flock
            except FileNotFoundError:
                pass
            try:
                fd = os.open(_FILE, os.O_RDWR | os.O_CREAT | os.O_EXCL | flags, 0o666, dir_fd=directory)
            except FileExistsError:
                continue
            os.fchmod(fd, 0o666)
            return fd
        raise OSError(errno.EBUSY, "the lock file is removed as fast as it is made")
    finally:
        os.close(directory)


def _describe() -> bytes:
    since = datetime.datetime.now().astimezone().isoformat(timespec="seconds")
    command = shlex.join(sys.orig_argv)[:_COMMAND_LIMIT]
    return json.dumps({_MARK: 1, "pid": os.getpid(), "command": command, "since": since}).encode() + b"\n"


def _read(fd: int) -> bytes:
    return os.pread(fd, _READ, 0)


def _is_ours(text: bytes) -> bool:
    """Empty, or the beginning of what :func:`_describe` writes (a holder may be killed, or read, while it writes)."""
    start = f'{{"{_MARK}"'.encode()
    return text.startswith(start) or start.startswith(text)


def _holder(text: bytes) -> str:
    """The holder as it describes itself; every user can write the file, so only printable characters are shown."""
    try:
        holder = json.loads(text)
        pid, command, since = int(holder["pid"]), str(holder["command"]), str(holder["since"])
    except (ValueError, KeyError, TypeError):
        return "it does not say which"
    shown = "".join(character if character.isprintable() else "?" for character in f"`{command}`, since {since}")
    return f"pid {pid}, {shown[: _COMMAND_LIMIT + 50]}"
