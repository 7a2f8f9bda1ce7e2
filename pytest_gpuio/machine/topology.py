"""How far apart devices and CPUs are: PCI Express switches, root complexes and NUMA nodes, as sysfs shows them."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Literal

from pytest_gpuio.machine.reading import parse_cpu_list, read_int, read_text

Distance = Literal["same_switch", "same_root_complex", "same_node", "other_node", "unknown"]

#: Every distance, nearest first; ``unknown`` counts as farther than all that is known.
DISTANCES: Final[tuple[Distance, ...]] = ("same_switch", "same_root_complex", "same_node", "other_node", "unknown")

_PCI: Final = re.compile(r"[0-9a-f]{4,8}:[0-9a-f]{2}:[0-9a-f]{2}\.[0-7]")
_HOST_BRIDGE: Final = re.compile(r"pci[0-9a-f]{4,8}:[0-9a-f]{2}")


@dataclass(frozen=True, slots=True)
class Placed:
    """A distance and what it was told from.

    Attributes:
        distance: one of :data:`DISTANCES`.
        evidence: one sentence.
    """

    distance: Distance
    evidence: str


def pci_distance(first: str, second: str, root: str = "/") -> Placed:
    """How far two PCI devices are from each other.

    Two devices below one bridge meet in a switch and their traffic need not reach the CPU; below one host bridge they
    meet in the root complex; else the NUMA nodes tell. (The terms of ``nvidia-smi topo``: PIX and PXB are
    ``same_switch``, PHB is ``same_root_complex``, NODE is ``same_node``, SYS is ``other_node``.) In a virtual machine
    the tree is the hypervisor's, and need not be the hardware's.

    Args:
        first: PCI address, ``0000:17:00.0``; the domain may be left out or have eight digits, as CUDA writes it.
        second: likewise.
        root: folder that holds ``sys``, so that machines can be faked.
    """
    one, other = normal_address(first), normal_address(second)
    paths = []
    for named, address in ((first, one), (second, other)):
        path = None if address is None else _pci_path(address, root)
        if path is None:
            return Placed("unknown", f"sysfs has no PCI device {named}.")
        paths.append(path)
    shared = _shared(*paths)
    meeting = next((name for name in reversed(shared) if _PCI.fullmatch(name) or _HOST_BRIDGE.fullmatch(name)), None)
    if meeting is not None and one != other and _PCI.fullmatch(meeting):
        return Placed("same_switch", f"{one} and {other} meet below the PCI bridge {meeting}.")
    if meeting is not None:
        return Placed("same_root_complex", f"{one} and {other} meet in the root complex {meeting}.")
    nodes = pci_node(first, root), pci_node(second, root)
    if nodes[0] is None or nodes[1] is None:
        which = one if nodes[0] is None else other
        return Placed("unknown", f"{one} and {other} hang on different root complexes; {which} tells no NUMA node.")
    told = f"{one} hangs on node {nodes[0]}, {other} on node {nodes[1]}."
    return Placed("same_node" if nodes[0] == nodes[1] else "other_node", told)


def cpu_distance(node: int | None, cpus: Iterable[int], root: str = "/") -> Placed:
    """How far a device is from the CPUs that serve it: ``same_node`` only when all of them are near.

    Args:
        node: the device's NUMA node; None = unknown.
        cpus: CPU numbers.
        root: folder that holds ``sys``.
    """
    if node is None or node < 0:
        return Placed("unknown", "the device tells no NUMA node.")
    used = sorted(set(cpus))
    near = set(node_cpus(node, root))
    if not used or not near:
        return Placed("unknown", f"the CPUs of node {node} are not known." if used else "the CPUs are not pinned.")
    far = [cpu for cpu in used if cpu not in near]
    if far:
        return Placed("other_node", f"the device hangs on node {node}, and CPUs {_listed(far)} do not belong to it.")
    return Placed("same_node", f"device and CPUs {_listed(used)} belong to node {node}.")


def farthest(distances: Iterable[Placed]) -> Placed:
    """Of several devices the one that is farthest: what a stripe over them waits for. Unknown when there is none."""
    listed = list(distances)
    if not listed:
        return Placed("unknown", "there is no device to measure a distance to.")
    return max(listed, key=lambda placed: DISTANCES.index(placed.distance))


def pci_node(address: str, root: str = "/") -> int | None:
    """NUMA node of a PCI device; None when firmware names none (-1), or the device is not there."""
    normal = normal_address(address)
    path = None if normal is None else _pci_path(normal, root)
    node = None if path is None else read_int(path / "numa_node")
    return None if node is None or node < 0 else node


def node_cpus(node: int, root: str = "/") -> tuple[int, ...]:
    """CPUs of a NUMA node, in order; empty when sysfs does not say (or the node has memory only)."""
    return parse_cpu_list(read_text(Path(root, f"sys/devices/system/node/node{node}/cpulist")))


def online_nodes(root: str = "/") -> tuple[int, ...]:
    """NUMA nodes that are online; empty when sysfs does not say."""
    return parse_cpu_list(read_text(Path(root, "sys/devices/system/node/online")))


def normal_address(text: str) -> str | None:
    """An address as sysfs writes it, ``0000:17:00.0``, of ``00000000:17:00.0`` or ``17:00``; None if it is none."""
    match = re.fullmatch(r"(?:([0-9a-f]{1,8}):)?([0-9a-f]{2}:[0-9a-f]{2})(\.[0-7])?", text.strip().lower())
    if match is None:
        return None
    return f"{int(match[1] or '0', 16):04x}:{match[2]}{match[3] or '.0'}"


def _pci_path(address: str, root: str) -> Path | None:
    try:
        return Path(root, "sys/bus/pci/devices", address).resolve(strict=True)
    except (OSError, RuntimeError):
        return None


def _shared(first: Path, second: Path) -> list[str]:
    """Names of the folders above both."""
    shared = []
    for one, other in zip(first.parent.parts, second.parent.parts, strict=False):
        if one != other:
            break
        shared.append(one)
    return shared


def _listed(numbers: Iterable[int]) -> str:
    return ", ".join(map(str, numbers))
