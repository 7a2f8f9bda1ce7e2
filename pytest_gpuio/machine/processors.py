"""Processors of the host: model, number, frequency and idle-state policy, and whether they are virtual."""

from __future__ import annotations

import re
from collections.abc import Iterable
from pathlib import Path
from typing import TypedDict

from pytest_gpuio.machine.reading import parse_cpu_list, read_int, read_text, value_of

_HYPERVISORS = (
    ("amazon ec2", "Amazon EC2"),
    ("google", "Google Compute Engine"),
    ("microsoft corporation", "Hyper-V"),
    ("vmware", "VMware"),
    ("virtualbox", "VirtualBox"),
    ("qemu", "QEMU"),
    ("kvm", "KVM"),
    ("xen", "Xen"),
    ("openstack", "OpenStack"),
    ("firecracker", "Firecracker"),
)


class Cpu(TypedDict):
    """Facts that move storage figures; None where the machine does not say.

    Attributes:
        cores: logical CPUs that are online.
        smt: simultaneous multithreading is on.
        governor, scaling_driver: cpufreq policy; several are joined by commas.
        max_cstate: deepest idle state that is not switched off, ``C6``.
    """

    model: str | None
    cores: int | None
    smt: bool | None
    numa_nodes: int | None
    governor: str | None
    scaling_driver: str | None
    max_cstate: str | None


def describe_cpu(root: Path) -> Cpu:
    """The processors under ``root``."""
    system = root / "sys/devices/system"
    cpuinfo = read_text(root / "proc/cpuinfo")
    online = parse_cpu_list(read_text(system / "cpu/online"))
    cores = len(online) or len(re.findall(r"^processor[ \t]*:", cpuinfo or "", re.MULTILINE))
    smt = read_int(system / "cpu/smt/active")
    return Cpu(
        model=_model(cpuinfo, root),
        cores=cores or None,
        smt=None if smt is None else smt == 1,
        numa_nodes=len(parse_cpu_list(read_text(system / "node/online"))) or None,
        governor=_policy(system, "scaling_governor"),
        scaling_driver=_policy(system, "scaling_driver"),
        max_cstate=_deepest_idle_state(system, online[0] if online else 0),
    )


def numa_nodes(cpus: Iterable[int], root: str = "/") -> tuple[int, ...]:
    """NUMA nodes that hold any of these CPUs; empty when sysfs does not say."""
    wanted = set(cpus)
    found = []
    for folder in Path(root, "sys/devices/system/node").glob("node[0-9]*"):
        if wanted.intersection(parse_cpu_list(read_text(folder / "cpulist"))):
            found.append(int(folder.name.removeprefix("node")))
    return tuple(sorted(found))


def hypervisor(root: Path) -> str | None:
    """Name of the hypervisor, ``unknown`` when only its presence shows; None on a physical machine.

    The x86 CPU flag tells a virtual machine for certain; the names come from DMI. A bare-metal cloud machine has the
    cloud's name in DMI and no flag, so on x86 the flag decides; other architectures have only DMI.
    """
    kind = read_text(root / "sys/hypervisor/type")
    if kind is not None:
        return kind
    flags = value_of(read_text(root / "proc/cpuinfo"), "flags")
    if flags is not None and "hypervisor" not in flags.split():
        return None
    dmi = root / "sys/class/dmi/id"
    told = " ".join(read_text(dmi / name) or "" for name in ("sys_vendor", "product_name", "bios_vendor")).lower()
    for mark, name in _HYPERVISORS:
        if mark in told:
            return name
    return "unknown" if flags is not None else None


def _model(cpuinfo: str | None, root: Path) -> str | None:
    named = value_of(cpuinfo, "model name") or value_of(cpuinfo, "Model")
    if named is not None:
        return named
    part = value_of(cpuinfo, "CPU part")
    if part is not None:
        return f"implementer {value_of(cpuinfo, 'CPU implementer') or 'unknown'} part {part}"
    return read_text(root / "sys/firmware/devicetree/base/model")


def _policy(system: Path, name: str) -> str | None:
    values = {read_text(file) for file in system.glob(f"cpu/cpu[0-9]*/cpufreq/{name}")}
    return ",".join(sorted(value for value in values if value)) or None


def _deepest_idle_state(system: Path, cpu: int) -> str | None:
    deepest: tuple[int, str] | None = None
    for state in system.glob(f"cpu/cpu{cpu}/cpuidle/state[0-9]*"):
        number, name = state.name.removeprefix("state"), read_text(state / "name")
        if name is None or not number.isdigit() or read_int(state / "disable"):
            continue
        if deepest is None or int(number) > deepest[0]:
            deepest = int(number), name
    return deepest[1] if deepest else None
