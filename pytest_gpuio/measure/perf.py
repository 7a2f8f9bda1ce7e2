"""Cycles and instructions of the measuring child, from the processor's own counters (perf events)."""

from __future__ import annotations

import ctypes
import errno
import os
import struct
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any, Final

from pytest_gpuio.core.errors import errno_text

_HARDWARE, _SOFTWARE = 0, 1  # enum perf_type_id
#: (type, config) of what is counted: enum perf_hw_id.
HARDWARE: Final = {"cycles": (_HARDWARE, 0), "instructions": (_HARDWARE, 1)}
#: CPU time as a perf event (PERF_COUNT_SW_TASK_CLOCK, nanoseconds): exists on every machine with perf events.
TASK_CLOCK: Final = {"task_clock": (_SOFTWARE, 1)}

#: Number of the system call; other architectures use the generic table.
_CALLS: Final = {"x86_64": 298, "ppc64le": 319, "s390x": 331}
_GENERIC_CALL: Final = 241
_CLOEXEC: Final = 8
_INHERIT: Final = 1 << 1
#: PERF_FORMAT_TOTAL_TIME_ENABLED | PERF_FORMAT_TOTAL_TIME_RUNNING
_WITH_TIMES: Final = 3
#: PERF_ATTR_SIZE_VER0: every kernel takes it.
_ATTR: Final = struct.Struct("=IIQQQQQIIQ")


class Counters:
    """Counts for the calling thread and every thread that it starts from now on, kernel helpers included.

    Nothing is excluded: user, kernel and hypervisor time. Counting costs time at each switch of threads, so it is for
    windows that are discarded.

    Args:
        events: name -> (type, config) of perf events.

    Attributes:
        reason: why nothing is counted, with the remedy; None when it is.
    """

    def __init__(self, events: Mapping[str, tuple[int, int]] = HARDWARE) -> None:
        self.reason: str | None = None
        self._fds: dict[str, int] = {}
        for name, (kind, config) in events.items():
            fd = _open(kind, config)
            if fd < 0:
                self.reason = _why(-fd)
                self.close()
                return
            self._fds[name] = fd

    def read(self) -> dict[str, tuple[int, int, int]] | None:
        """Value, and nanoseconds enabled and really counted, of each event so far; None when nothing is counted."""
        if not self._fds:
            return None
        found: dict[str, tuple[int, int, int]] = {}
        for name, fd in self._fds.items():
            value, enabled, running = struct.unpack("=QQQ", os.read(fd, 24))
            found[name] = value, enabled, running
        return found

    def close(self) -> None:
        """Stop counting; closing twice does nothing."""
        while self._fds:
            os.close(self._fds.popitem()[1])


def growth(
    before: Mapping[str, tuple[int, int, int]] | None, after: Mapping[str, tuple[int, int, int]] | None
) -> dict[str, float] | None:
    """What was counted between two reads, scaled up where events shared a counter; None if one never had one."""
    if before is None or after is None:
        return None
    grown: dict[str, float] = {}
    for name, now in after.items():
        value, enabled, running = (new - old for new, old in zip(now, before[name], strict=True))
        if running <= 0:
            return None
        grown[name] = value * enabled / running
    return grown


def _open(kind: int, config: int) -> int:
    """File descriptor of a counting event of this thread on any CPU, or -errno."""
    attr = ctypes.create_string_buffer(
        _ATTR.pack(kind, _ATTR.size, config, 0, 0, _WITH_TIMES, _INHERIT, 0, 0, 0), _ATTR.size
    )
    number = ctypes.c_long(_CALLS.get(os.uname().machine, _GENERIC_CALL))
    this_thread, any_cpu, no_group = ctypes.c_long(0), ctypes.c_long(-1), ctypes.c_long(-1)
    fd = int(_libc().syscall(number, attr, this_thread, any_cpu, no_group, ctypes.c_ulong(_CLOEXEC)))
    return fd if fd >= 0 else -ctypes.get_errno()


@cache
def _libc() -> Any:
    return ctypes.CDLL(None, use_errno=True)


def _why(code: int) -> str:
    if code in (errno.ENOENT, errno.EOPNOTSUPP, errno.ENODEV, errno.ENXIO):
        return f"the processor's counters are not there ({errno_text(code)}): usual in virtual machines"
    if code in (errno.EACCES, errno.EPERM):
        try:
            level = Path("/proc/sys/kernel/perf_event_paranoid").read_text().strip()
        except OSError:
            level = "unknown"
        return (
            f"perf_event_open is refused ({errno_text(code)}; kernel.perf_event_paranoid = {level}): set it to 1 or "
            "lower, or grant CAP_PERFMON"
        )
    if code == errno.ENOSYS:
        return "the kernel has no perf events (CONFIG_PERF_EVENTS), or seccomp hides them"
    return f"perf_event_open failed: {errno_text(code)}"
