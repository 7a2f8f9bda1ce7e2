"""Kernel settings and limits that decide what a run can do or what its CPU account holds."""

from __future__ import annotations

import zlib
from collections.abc import Callable
from pathlib import Path

from pytest_gpuio.machine.reading import read_text, value_of


def irq_time_accounting(root: Path, release: str | None) -> bool | None:
    """Whether interrupt time is kept out of task time (IRQ_TIME_ACCOUNTING); None without a configuration to read."""
    text = configuration(root, release)
    if text is None:
        return None
    return "CONFIG_IRQ_TIME_ACCOUNTING=y" in text.splitlines()


def memlock_limit(root: Path) -> int | str | None:
    """Soft limit of locked memory in bytes, or ``unlimited``."""
    for line in (read_text(root / "proc/self/limits") or "").splitlines():
        if line.startswith("Max locked memory"):
            soft = line.removeprefix("Max locked memory").split()[0]
            return int(soft) if soft.isdigit() else soft
    return None


def memory_bytes(root: Path, key: str = "MemTotal") -> int | None:
    """A line of /proc/meminfo in bytes."""
    value = (value_of(read_text(root / "proc/meminfo"), key) or "").split()
    return int(value[0]) * 1024 if value and value[0].isdigit() else None


def cpu_quota(root: Path) -> float | None:
    """CPUs that the process's control groups allow, the tightest of all levels; None when nothing limits it."""
    quotas: list[float] = []
    for line in (read_text(root / "proc/self/cgroup") or "").splitlines():
        _, _, rest = line.partition(":")
        controllers, _, path = rest.partition(":")
        if controllers == "":
            for mount in ("sys/fs/cgroup", "sys/fs/cgroup/unified"):
                quotas += _walk_up(root / mount, path, _quota_v2)
        elif "cpu" in controllers.split(","):
            for name in dict.fromkeys((controllers, "cpu", "cpu,cpuacct")):
                quotas += _walk_up(root / "sys/fs/cgroup" / name, path, _quota_v1)
    return min(quotas, default=None)


def _walk_up(mount: Path, path: str, quota: Callable[[Path], float | None]) -> list[float]:
    """Quotas of a group and of every group above it; groups that are not visible (containers) are passed over."""
    # A group outside the namespace's own root is shown as "/../..": of those only the mount itself can be read.
    folder = mount if ".." in path.split("/") else mount / path.strip("/")
    levels = [folder, *folder.parents]
    values = [quota(level) for level in levels[: levels.index(mount) + 1]]
    return [value for value in values if value is not None]


def _quota_v2(folder: Path) -> float | None:
    words = (read_text(folder / "cpu.max") or "").split()
    return _ratio(words[0], words[1]) if len(words) == 2 else None


def _quota_v1(folder: Path) -> float | None:
    return _ratio(read_text(folder / "cpu.cfs_quota_us") or "", read_text(folder / "cpu.cfs_period_us") or "")


def _ratio(quota: str, period: str) -> float | None:
    if not (quota.isdigit() and period.isdigit() and int(period) > 0):  # "max" and -1 are no limit
        return None
    return int(quota) / int(period)


def configuration(root: Path, release: str | None) -> str | None:
    """The configuration the kernel was built with, from /proc/config.gz or /boot; None without one to read."""
    import gzip  # only here: measuring children import this module and start faster without it

    try:
        return gzip.decompress((root / "proc/config.gz").read_bytes()).decode(errors="replace")
    except (OSError, EOFError, zlib.error):
        pass
    return read_text(root / f"boot/config-{release}") if release else None
