"""What else went on around a measured stretch: throttling, quotas and waits for a CPU."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

from pytest_gpuio.machine.reading import parse_cpu_list, slurp


@dataclass(frozen=True, slots=True)
class Snapshot:
    """Readings at one moment; None where the machine does not tell.

    Attributes:
        cpu_throttles: times that a CPU or its package was slowed down for heat, summed.
        quota_stops: times that the scheduler stopped this process's groups because their CPU quota was used up.
        waits: name of each thread of this process and nanoseconds it was ready to run without a CPU, by thread id;
            empty where the kernel does not count them.
        temperatures: degrees Celsius by device. hot: devices that raise an alarm or are at their own warning limit.
    """

    cpu_throttles: int | None
    quota_stops: int | None
    waits: Mapping[int, tuple[str, int]]
    temperatures: Mapping[str, float]
    hot: tuple[str, ...]


def take(cpus: Sequence[int], devices: Sequence[str], root: str = "/") -> Snapshot:
    """Read everything once.

    Args:
        cpus: CPUs that matter; empty = all.
        devices: kernel names of the physical devices, ``nvme0n1``.
        root: folder that holds ``proc`` and ``sys``, so that trees can be faked.
    """
    base = root.rstrip("/")
    degrees, hot = temperatures(devices, root)
    return Snapshot(
        cpu_throttles=_cpu_throttles(base, cpus or parse_cpu_list(slurp(f"{base}/sys/devices/system/cpu/online"))),
        quota_stops=_quota_stops(base),
        waits=_waits(base),
        temperatures=degrees,
        hot=hot,
    )


def between(before: Snapshot, after: Snapshot) -> dict[str, Any]:
    """What happened between two snapshots, as JSON-able values.

    Returns:
        ``cpu_throttles``, ``quota_stops`` (None = unknown), ``longest_wait`` (``{"thread", "seconds"}`` of the thread
        that waited longest for a CPU, None = unknown), ``temperatures`` (``{"device", "before", "after"}`` each,
        degrees Celsius), ``hot`` (devices).
    """
    longest, waiter = max(_waited(before, after), default=(0.0, None))
    return {
        "cpu_throttles": _growth(before.cpu_throttles, after.cpu_throttles),
        "quota_stops": _growth(before.quota_stops, after.quota_stops),
        "longest_wait": None if waiter is None else {"thread": waiter, "seconds": longest},
        "temperatures": [
            {"device": name, "before": before.temperatures.get(name), "after": degrees}
            for name, degrees in after.temperatures.items()
        ],
        "hot": sorted({*before.hot, *after.hot}),
    }


def waited_seconds(before: Snapshot, after: Snapshot) -> float | None:
    """Seconds that threads of this process were ready and had no CPU, summed; None where the kernel does not count."""
    return sum(seconds for seconds, _ in _waited(before, after)) if after.waits else None


def _waited(before: Snapshot, after: Snapshot) -> list[tuple[float, str]]:
    """Seconds and name of each thread; one that was given an old thread's id has waited since its start."""
    found = []
    for tid, (name, now) in after.waits.items():
        then = before.waits[tid][1] if tid in before.waits else 0
        found.append(((now - then if now >= then else now) / 1e9, name))
    return found


def io_limits(counted: Sequence[str], root: str = "/") -> tuple[str, ...]:
    """Limits on I/O to the devices (``major:minor``) that this process's groups set, in words; empty = none."""
    if not counted:
        return ()
    found = []
    for folder, version in _groups(root.rstrip("/"), "blkio"):
        for file in ("io.max",) if version == 2 else _V1_LIMITS:
            for line in (slurp(f"{folder}/{file}") or "").splitlines():
                device, _, limits = line.partition(" ")
                wanted = " ".join(word for word in limits.split() if not word.endswith("=max"))
                if device in counted and wanted:
                    found.append(f"{file} of {Path(folder).name or '/'}: {device} {wanted}")
    return tuple(dict.fromkeys(found))


_V1_LIMITS = tuple(
    f"blkio.throttle.{direction}_{unit}_device" for direction in ("read", "write") for unit in ("bps", "iops")
)


def _growth(before: int | None, after: int | None) -> int | None:
    return None if before is None or after is None else after - before


def _number(path: str) -> int | None:
    try:
        return int(slurp(path) or "")
    except ValueError:
        return None


def _cpu_throttles(base: str, cpus: Iterable[int]) -> int | None:
    total = None
    for cpu in cpus:
        for name in ("core_throttle_count", "package_throttle_count"):
            count = _number(f"{base}/sys/devices/system/cpu/cpu{cpu}/thermal_throttle/{name}")
            if count is not None:
                total = count + (total or 0)
    return total


def _quota_stops(base: str) -> int | None:
    total = None
    for folder, _ in _groups(base, "cpu"):
        for line in (slurp(f"{folder}/cpu.stat") or "").splitlines():
            name, _, value = line.partition(" ")
            if name == "nr_throttled" and value.isdigit():
                total = int(value) + (total or 0)
    return total


def _groups(base: str, controller: str) -> tuple[tuple[str, int], ...]:
    """Folders of this process's control group and those above it: version 2, and version 1's of a controller.

    Each with its version. Only the usual mount points are looked at. In a container the group's own name is hidden or
    leads nowhere: then the mount point itself is the group.
    """
    return _folders(base, controller, slurp(f"{base}/proc/self/cgroup") or "")


@lru_cache(maxsize=64)
def _folders(base: str, controller: str, groups: str) -> tuple[tuple[str, int], ...]:
    """Groups keep their folders for as long as this process is in them: they are looked for once."""
    found: list[tuple[str, int]] = []
    for line in groups.splitlines():
        number, _, rest = line.partition(":")
        controllers, _, name = rest.partition(":")
        version = 2 if number == "0" else 1
        if version == 2:
            mounts = ["sys/fs/cgroup", "sys/fs/cgroup/unified"]
        elif controller in controllers.split(","):
            mounts = [f"sys/fs/cgroup/{controllers}", f"sys/fs/cgroup/{controller}"]
        else:
            continue
        for mount in mounts:
            top = Path(base or "/", mount)
            # The root of a mixed hierarchy is a plain tmpfs.
            if version == 2 and not (top / "cgroup.controllers").exists():
                continue
            if not top.is_dir():
                continue
            here = top / name.strip("/")
            above = (folder for folder in (here, *here.parents) if folder.is_relative_to(top) and folder.is_dir())
            found += [(str(folder), version) for folder in above]
            break
    return tuple(found)


def _waits(base: str) -> dict[int, tuple[str, int]]:
    found = {}
    folder = f"{base}/proc/self/task"
    try:
        tids = os.listdir(folder)  # noqa: PTH208 - names only
    except OSError:
        return {}
    for tid in tids:
        words = (slurp(f"{folder}/{tid}/schedstat") or "").split()
        # "0 0 0" is what a kernel says that does not count.
        if len(words) == 3 and words[1].isdigit() and words[2] != "0":
            found[int(tid)] = (slurp(f"{folder}/{tid}/comm") or "").strip() or "?", int(words[1])
    return found


def temperatures(devices: Sequence[str], root: str = "/") -> tuple[dict[str, float], tuple[str, ...]]:
    """Degrees Celsius by device, and the devices that are too hot, from the kernel's hwmon of the drive."""
    base = root.rstrip("/")
    found: dict[str, float] = {}
    hot = []
    for device in devices:
        folder = f"{base}/sys/block/{device.replace('/', '!')}/device"
        for sensor in (*_sensors(folder), *_sensors(f"{folder}/hwmon")):
            now, limit = _number(f"{sensor}/temp1_input"), _number(f"{sensor}/temp1_max")
            if now is None:
                continue
            found[device] = now / 1000
            if _number(f"{sensor}/temp1_alarm") or (limit is not None and now >= limit):
                hot.append(device)
            break
    return found, tuple(hot)


def _sensors(folder: str) -> list[str]:
    try:
        names = os.listdir(folder)  # noqa: PTH208 - names only
    except OSError:
        return []
    return [f"{folder}/{name}" for name in names if name.startswith("hwmon") and name[5:].isdigit()]
