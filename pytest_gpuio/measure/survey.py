"""What this machine and a target can measure, and for all that is missing one sentence with the remedy."""

from __future__ import annotations

import os
import resource
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any, Final

from pytest_gpuio.capabilities import CAPABILITIES
from pytest_gpuio.core.cell import Cell
from pytest_gpuio.core.errors import ChildDied, GpuioError
from pytest_gpuio.core.spdk_address import spdk_address
from pytest_gpuio.datapaths import DATAPATHS, DataPath
from pytest_gpuio.datapaths.gds_forecast import TargetFacts, forecast
from pytest_gpuio.isolation import Children
from pytest_gpuio.machine import affinity, describe, gpu_storage, udev_knows
from pytest_gpuio.machine.reading import value_of
from pytest_gpuio.measure import perf
from pytest_gpuio.measure.effort import Effort
from pytest_gpuio.measure.families import CHILD_MODULE
from pytest_gpuio.measure.gpu_placement import gpu_distance
from pytest_gpuio.measure.prepare import choose_cpus, choose_poller_cpus
from pytest_gpuio.measure.session import Session
from pytest_gpuio.media import BlockDevice, Medium, classify
from pytest_gpuio.targets import direct_alignment, target_file

_DEADLINE_S: Final = 15.0
_TARGET: Final = "default"
#: Locked memory below which registered buffers of ordinary cells do not fit.
_LITTLE_LOCKED: Final = 64 << 20
_FEW_FILES: Final = 1024
#: Share of fs.aio-max-nr from which on a run of many jobs may not fit.
_AIO_FULL: Final = 0.5
_CAP_IPC_LOCK: Final = 14
_WORKLOAD: Final = "micro/randread"


def survey(target: Path | None, say: Callable[[str], None] = lambda _: None) -> dict[str, Any]:
    """Looks at everything; each probe runs in a child under a deadline and changes nothing.

    Args:
        target: folder, file or device; None = the machine alone.
        say: progress, one line.

    Returns:
        JSON-able map: ``machine``, ``cpus``, ``clock``, ``limits``, ``perf_events``, ``capabilities``, ``target``,
        ``datapaths``, ``gpus``, ``gpu_storage``, ``remedies``.

    Raises:
        TargetError: the target cannot be one at all.
    """
    if target is not None:
        target_file(target, writes=False)
    machine = describe()
    limits = _limits(machine)
    say("clock")
    clock = _clock()
    found: dict[str, Any] = {
        "machine": machine,
        "cpus": {"usable": list(affinity()), "online": os.cpu_count()},
        "clock": clock,
        "limits": limits,
        "perf_events": _perf_events(),
    }
    where = target if target is not None else Path.cwd()
    medium = classify(where)
    effort = Effort(
        profile="probe", region_bytes=1 << 20, precision=0.5, max_time=1.0, window_s=0.25, seed=1, verify="none"
    )
    with Session(effort, {_TARGET: where}, {_TARGET: medium}) as session:
        found["capabilities"] = []
        for capability in CAPABILITIES.values():
            if capability.per_target and target is None:
                continue
            say(capability.name)
            reason = session.available.capability(capability.name, _TARGET)
            found["capabilities"].append(
                {"name": capability.name, "title": capability.title, "available": reason is None, "reason": reason}
            )
        found["target"] = None if target is None else _target(target)
        found["datapaths"] = []
        for path in DATAPATHS.values():
            available, reason = _verdict(path, session, medium.name, whole=target is not None)
            found["datapaths"].append(
                {"name": path.name, "title": path.title, "available": available, "reason": reason}
            )
        say("cuFile")
        devices = medium.devices if target is not None else ()
        found["gpus"] = [dict(gpu) | _distance(str(gpu["bus_id"]), devices) for gpu in session.available.gpus()]
        found["gpu_storage"] = _gpu_storage(session, None if target is None else medium)
    found["remedies"] = remedies(machine, limits, clock)
    if target is not None and not machine["hypervisor"]:
        found["remedies"] += slow_links(medium.devices)
    return found


def slow_links(devices: Iterable[BlockDevice]) -> list[str]:
    """One sentence for each device whose PCI Express link runs below what it and its port could."""
    return [
        f"{device.name} hangs on a link of {device.pci_link} that could run at {device.pci_link_max}: another slot, or "
        "look for errors of the link (lspci -vv, LnkSta; dmesg for AER)."
        for device in devices
        if device.pci_link is not None and device.pci_link_max is not None and device.pci_link != device.pci_link_max
    ]


def _distance(bus_id: str, devices: Sequence[BlockDevice]) -> dict[str, str]:
    """How far a GPU is from the target's devices; nothing without devices."""
    if not devices:
        return {}
    placed = gpu_distance(bus_id, devices)
    return {"distance": placed.distance, "evidence": placed.evidence}


def _gpu_storage(session: Session, medium: Medium | None) -> dict[str, Any]:
    """What cuFile would do for files of a target, with everything that decides it."""
    name = None if medium is None else _TARGET
    kernel = gpu_storage().to_json()
    strict, compat = session.available.cufile("strict", name), session.available.cufile("compat", name)
    facts = None
    if medium is not None:
        devices = tuple((device.name, device.transport, udev_knows(device.dev)) for device in medium.devices)
        facts = TargetFacts(medium.file_system, medium.mount_options, devices)
    return {
        "kernel": kernel,
        "strict": dict(strict),
        "compat": dict(compat),
        "target_udev": None if facts is None else {device: known for device, _, known in facts.devices},
        "forecast": asdict(forecast(strict, compat, kernel, facts)),
    }


def _verdict(path: DataPath, session: Session, medium: str, *, whole: bool) -> tuple[bool | None, str | None]:
    """Whether cells of a path can be measured, and why not; None = only a target (``whole``) can tell."""
    cell = Cell(
        suite="probe",
        datapath=path.name,
        medium=medium,
        target=_TARGET,
        workload=_WORKLOAD,
        bs=4096,
        qd=1,
        jobs=1,
        cache=path.caches[0],
        destination=path.destinations[0],
        gpus=int(path.destinations[0] == "gpu"),
    )
    names = session.available.needs(cell, path)
    for name in names:
        if CAPABILITIES[name].per_target and not whole:
            continue
        reason = session.available.capability(name, _TARGET)
        if reason is not None:
            return False, f"needs {name}: {reason}"
    try:
        choose_poller_cpus(path, choose_cpus(1, affinity()), affinity())
    except GpuioError as error:
        return False, str(error)
    if not whole and any(CAPABILITIES[name].per_target and name in path.needs for name in names):
        return None, "depends on the target: gpuio probe TARGET"
    return True, None


def _target(target: Path) -> dict[str, Any]:
    medium = classify(target)
    existing = target.absolute()
    while not existing.exists():
        existing = existing.parent
    alignment = direct_alignment(existing) if spdk_address(target) is None else None
    return {
        "path": str(target),
        "medium": medium.name,
        "evidence": list(medium.evidence),
        "file_system": medium.file_system or None,
        "mount_point": medium.mount_point or None,
        "mount_options": medium.mount_options or None,
        "devices": [asdict(device) for device in medium.devices],
        "counted": list(medium.counted),
        "alignment": None if alignment is None else {"asked": str(existing), **asdict(alignment)},
    }


def _clock() -> dict[str, Any]:
    """The clock of per-request stamps, calibrated in a child as a cell does it."""
    unknown: dict[str, Any] = {"source": None, "cost_ns": None, "resolution_ns": None}
    with Children(CHILD_MODULE) as children:
        try:
            told = children.get("probe").request("clock", {}, deadline_s=_DEADLINE_S)
        except (ChildDied, GpuioError) as error:
            return unknown | {"reason": str(error)}
    return dict(told) | {"reason": None}


def _perf_events() -> dict[str, Any]:
    counters = perf.Counters()
    reason = counters.reason
    counters.close()
    return {"available": reason is None, "reason": reason}


def _limits(machine: Mapping[str, Any]) -> dict[str, Any]:
    soft, hard = (None if limit == resource.RLIM_INFINITY else limit for limit in _nofile())
    names = ("memlock_limit", "aio_max_nr", "aio_nr", "io_uring_disabled", "transparent_hugepage", "cpu_quota")
    return {name: machine[name] for name in names} | {
        "open_files_soft": soft,
        "open_files_hard": hard,
        "may_lock_all": _may_lock_all(),
    }


def _may_lock_all(root: str = "/") -> bool:
    """Whether this process has CAP_IPC_LOCK: limits of locked memory then mean nothing."""
    try:
        effective = value_of(Path(root, "proc/self/status").read_text(), "CapEff")
        return bool(int(effective or "0", 16) >> _CAP_IPC_LOCK & 1)
    except (OSError, ValueError):
        return False


def _nofile() -> tuple[int, int]:
    return resource.getrlimit(resource.RLIMIT_NOFILE)


def remedies(machine: Mapping[str, Any], limits: Mapping[str, Any], clock: Mapping[str, Any]) -> list[str]:
    """One sentence for each setting that costs figures or cells, with what to do about it.

    Args:
        machine: of :func:`pytest_gpuio.machine.describe`.
        limits: of :func:`survey`.
        clock: of :func:`survey`.
    """
    found = []
    disabled = limits["io_uring_disabled"]
    if disabled:
        who = "everybody" if disabled == 2 else "all but the group kernel.io_uring_group and CAP_SYS_ADMIN"
        found.append(
            f"kernel.io_uring_disabled is {disabled}, io_uring is off for {who}: sysctl -w kernel.io_uring_disabled=0."
        )
    locked = limits["memlock_limit"]
    if isinstance(locked, int) and locked < _LITTLE_LOCKED and not limits["may_lock_all"]:
        found.append(
            f"locked memory is limited to {locked:,} bytes, and CAP_IPC_LOCK is missing: larger registered buffers of "
            "io_uring are refused (and recorded as off): ulimit -l unlimited, or limits.conf."
        )
    files = limits["open_files_soft"]
    if files is not None and files < _FEW_FILES:
        found.append(f"only {files:,} files may be open: ulimit -n {_FEW_FILES}.")
    most, used = limits["aio_max_nr"], limits["aio_nr"]
    if most and used is not None and used > _AIO_FULL * most:
        found.append(
            f"{used:,} of {most:,} requests of fs.aio-max-nr are taken: libaio at depth may not get its share: "
            f"sysctl -w fs.aio-max-nr={2 * most}."
        )
    if limits["transparent_hugepage"] == "never":
        found.append(
            "transparent huge pages are off, so buffers lie on 4 KiB pages and large requests are split: echo madvise "
            "> /sys/kernel/mm/transparent_hugepage/enabled."
        )
    if limits["cpu_quota"] is not None:
        found.append(
            f"a control group allows {limits['cpu_quota']:g} CPUs: whenever they are used up, everything stops for a "
            "while (gate no_quota)."
        )
    if clock["source"] == "monotonic":
        found.append(
            f"stamps are taken with CLOCK_MONOTONIC ({clock['cost_ns']:.0f} ns each): the kernel's clocksource is "
            f"{machine['clocksource']}, a stable TSC would be cheaper."
        )
    governor = machine["cpu"]["governor"]
    if governor and governor != "performance":
        found.append(
            f"the CPUs' governor is {governor}: figures move with the frequency; cpupower frequency-set -g performance."
        )
    if machine["hypervisor"]:
        found.append(
            f"this is a virtual machine ({machine['hypervisor']}): caches of the host may answer, and it may take "
            "CPUs away."
        )
    return found
