"""A child as the kernel sees it: started with its pipes, killed with its group, reaped, given up when it is stuck."""

from __future__ import annotations

import contextlib
import fcntl
import os
import select
import signal
import subprocess
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Final

from pytest_gpuio.core.errors import ChildDied, errno_text
from pytest_gpuio.isolation.serve import ARGUMENT

if TYPE_CHECKING:
    import resource

#: How long a killed process is waited for, in seconds; one that is stuck in the kernel outlives SIGKILL.
KILL_WAIT_S: Final = 2.0
#: Bytes kept of what a child prints.
OUTPUT_LIMIT: Final = 65_536

_CHUNK: Final = 65_536
#: Killed and still there: kept so that they are reaped once the kernel lets go of them.
_given_up: list[Process] = []


class Process:
    """One started child, its process group and the parent's ends of its pipes.

    What it prints comes through a pipe of its own and not through a file: nothing may be written to a disk that is
    being measured. Only the last :data:`OUTPUT_LIMIT` bytes are kept.

    Args:
        module: run with ``python -P -m``.
        name: second argument of the child; seen in ``ps``.
        env: variables added to this process's environment.
        word: descriptor of the stop word's memory.

    Attributes:
        pid: process id, and id of the process group and session.
        pidfd: readable once it has ended.
        requests: write end of the request pipe. replies, prints: read ends. All are non-blocking.
        returncode: exit status, negative number of the signal, None while it is not reaped.
        usage: rusage of the whole life (the process and its reaped children), None while it is not reaped.
        output: the last bytes it printed.

    Raises:
        ChildDied: the system refused to start it.
    """

    def __init__(self, module: str, *, name: str, env: Mapping[str, str] | None, word: int) -> None:
        reap_given_up()
        self.returncode: int | None = None
        self.usage: resource.struct_rusage | None = None
        self.output = bytearray()
        self._killed = False
        self._stuck = False
        self._status_lost = False
        with contextlib.ExitStack() as on_failure, contextlib.ExitStack() as childs:
            request_r, self.requests = _pipe(on_failure, childs, parent_writes=True)
            reply_w, self.replies = _pipe(on_failure, childs, parent_writes=False)
            print_w, self.prints = _pipe(on_failure, childs, parent_writes=False)
            fds = (request_r, reply_w, word)
            argument = ",".join(str(number) for number in (*fds, os.getpid()))
            try:
                self._popen = subprocess.Popen(
                    [sys.executable, "-P", "-m", module, ARGUMENT, name, argument],
                    stdin=subprocess.DEVNULL,
                    stdout=print_w,
                    stderr=print_w,
                    pass_fds=fds,
                    start_new_session=True,
                    env={**os.environ, **(env or {})},
                )
            except OSError as error:
                reason = errno_text(error.errno or 0)
                raise ChildDied(f"measuring child {name!r}: {sys.executable} cannot be started: {reason}.") from error
            self.pid = self._popen.pid
            self.pidfd = os.pidfd_open(self.pid)
            on_failure.pop_all()
        self._owner = os.getpid()
        self._fds = [self.requests, self.replies, self.prints, self.pidfd]

    @property
    def mine(self) -> bool:
        """Whether this process started it; false in a fork of that process."""
        return os.getpid() == self._owner

    @property
    def ended(self) -> bool:
        """It runs no more (reaped or not)."""
        return self.returncode is not None or _readable(self.pidfd, 0.0)

    def read_output(self) -> bytes | None:
        """Takes in one piece of what it printed and returns it: None when nothing is there, empty at end-of-file."""
        data = read_some(self.prints)
        if data:
            self.output += data
            del self.output[:-OUTPUT_LIMIT]
        return data

    def kill(self) -> bool:
        """SIGKILL to its whole group; whether it was reaped within :data:`KILL_WAIT_S` (waited for once only)."""
        if self._stuck:
            return self.wait(0.0)
        if self.returncode is None:
            self._killed = not self.ended
            kill_group(self.pid)
        self._stuck = not self.wait(KILL_WAIT_S)
        return not self._stuck

    def wait(self, timeout_s: float) -> bool:
        """Waits at most ``timeout_s`` seconds for its end, kills what it left behind in its group, and reaps it."""
        until = time.monotonic() + timeout_s
        if self.returncode is not None:
            return True
        if not _readable(self.pidfd, timeout_s):
            return False
        # Not reaped yet, so the number of its group cannot belong to somebody else.
        kill_group(self.pid)
        while not self._reap():
            # It has ended, but a debugger or strace holds it back.
            if time.monotonic() >= until:
                return False
            time.sleep(0.001)
        return True

    def destroy(self) -> None:
        """Kills it when it still runs and closes the pipes; a process that forked off this one only closes them."""
        if not self._fds:
            return
        fds, self._fds = self._fds, []
        if self.mine and not self.kill():
            fds.remove(self.pidfd)
            _given_up.append(self)
        for fd in fds:
            os.close(fd)
        if not self.mine:
            self._popen.returncode = 0  # else subprocess warns of a child that is not this process's

    def describe_end(self) -> str:
        """How it ended, in words: ``was killed by SIGSEGV (Segmentation fault)``."""
        code = self.returncode
        if code is None:
            state = _state(self.pid)
            if state == "D":
                return f"is in uninterruptible sleep (D) and outlives SIGKILL: given up, pid {self.pid}"
            if state == "Z":
                return f"has ended but is held back by a debugger or strace: given up, pid {self.pid}"
            return f"outlives SIGKILL (state {state}): given up, pid {self.pid}"
        if self._status_lost:
            return "ended, but something else in this process took its exit status"
        if code >= 0:
            return f"exited with status {code}"
        try:
            text = f"was killed by {signal.Signals(-code).name} ({signal.strsignal(-code)})"
        except ValueError:
            text = f"was killed by signal {-code}"
        if -code == signal.SIGKILL and not self._killed:
            text += "; if nobody did that, the kernel's out-of-memory killer may have: see dmesg"
        return text

    def _reap(self) -> bool:
        try:
            pid, status, usage = os.wait4(self.pid, os.WNOHANG)
        except ChildProcessError:  # somebody ignores SIGCHLD, or waits for any child: the status is lost
            self._status_lost = True
            self.returncode = self._popen.returncode = 0
            return True
        if pid == 0:
            return False
        self.returncode = self._popen.returncode = os.waitstatus_to_exitcode(status)
        self.usage = usage
        return True


def read_some(fd: int) -> bytes | None:
    """One read from a non-blocking pipe: None when nothing is there, empty at end-of-file."""
    try:
        return os.read(fd, _CHUNK)
    except BlockingIOError:
        return None


def kill_group(pid: int) -> None:
    """SIGKILL to a process group; one that is gone is fine."""
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(pid, signal.SIGKILL)


def reap_given_up() -> int:
    """Reaps children that were given up and have ended since; the number of those still there."""
    for process in list(_given_up):
        if process.wait(0.0):
            os.close(process.pidfd)
            _given_up.remove(process)
    return len(_given_up)


def given_up() -> frozenset[int]:
    """Process ids of children that were given up and are still there."""
    reap_given_up()
    return frozenset(process.pid for process in _given_up)


def _pipe(on_failure: contextlib.ExitStack, childs: contextlib.ExitStack, *, parent_writes: bool) -> tuple[int, int]:
    """The child's end and the parent's, both above the three standard streams, which the child gets anew."""
    ends = [fcntl.fcntl(fd, fcntl.F_DUPFD_CLOEXEC, 3) if fd < 3 else fd for fd in os.pipe()]
    child, parent = ends if parent_writes else reversed(ends)
    childs.callback(os.close, child)
    on_failure.callback(os.close, parent)
    os.set_blocking(parent, False)
    return child, parent


def _readable(fd: int, timeout_s: float) -> bool:
    poll = select.poll()
    poll.register(fd, select.POLLIN)
    return bool(poll.poll(max(0.0, timeout_s) * 1000))


def _state(pid: int) -> str:
    """The state's letter in /proc/PID/stat, ``?`` when it cannot be read."""
    try:
        return Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace").rpartition(")")[2].split()[0]
    except (OSError, IndexError):
        return "?"
