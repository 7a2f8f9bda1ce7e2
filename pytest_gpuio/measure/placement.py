"""Workers and buffers beside the device: which CPUs come first, which node memory is taken from, and where it ended."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from itertools import zip_longest
from pathlib import Path
from typing import Final

from pytest_gpuio.core.errors import ConfigError
from pytest_gpuio.machine import Placed, cpu_distance, farthest, node_cpus, online_nodes
from pytest_gpuio.media import BlockDevice

#: Policies of ``--gpuio-numa`` beside the number of a node.
NEAR: Final = "near"
ANY: Final = "any"


def device_nodes(devices: Iterable[BlockDevice]) -> tuple[int, ...] | None:
    """NUMA nodes of a target's devices; None when there are none or any of them tells no node."""
    nodes = {device.numa_node for device in devices}
    known = {node for node in nodes if node is not None}
    return tuple(sorted(known)) if known and known == nodes else None


def wanted_nodes(policy: str, devices: Iterable[BlockDevice], root: str = "/") -> tuple[int, ...]:
    """Nodes that workers and buffers are to lie on; empty = wherever the process may run.

    Args:
        policy: ``near``, ``any``, or the number of a node.
        devices: the target's physical devices.
        root: folder that holds ``sys``.

    Raises:
        ConfigError: no such node.
    """
    if policy == ANY:
        return ()
    if policy == NEAR:
        return device_nodes(devices) or ()
    there = online_nodes(root)
    if int(policy) not in there:
        listed = ", ".join(map(str, there)) or "none that sysfs shows"
        raise ConfigError(f"--gpuio-numa={policy}: this machine has no such NUMA node; it has {listed}.")
    return (int(policy),)


def ordered_cpus(available: Sequence[int], nodes: Iterable[int], root: str = "/") -> tuple[int, ...]:
    """CPUs with the most wanted ones last: those of the nodes, of several nodes in turn, then all others.

    Args:
        available: that this process may run on, in order; high numbers are wanted more, since CPU 0 takes the
            housekeeping.
        nodes: of :func:`wanted_nodes`.
        root: folder that holds ``sys``.
    """
    allowed = set(available)
    columns = [sorted(allowed.intersection(node_cpus(node, root)), reverse=True) for node in dict.fromkeys(nodes)]
    near = [cpu for row in zip_longest(*columns) for cpu in row if cpu is not None]
    far = [cpu for cpu in reversed(available) if cpu not in set(near)]
    return tuple(reversed([*near, *far]))


def buffer_node(nodes: Sequence[int], root: str = "/") -> int | None:
    """The node that all buffers are to lie on; None where there is only one anyway, or several are wanted."""
    return nodes[0] if len(nodes) == 1 and len(online_nodes(root)) > 1 else None


@contextmanager
def running_on(node: int, root: str = "/") -> Iterator[None]:
    """Runs this thread on a node's CPUs, so that memory it touches first comes from there; where that is allowed."""
    with running_among(node_cpus(node, root)):
        yield


@contextmanager
def running_among(cpus: Iterable[int]) -> Iterator[None]:
    """Runs this thread on those of its CPUs that are among these, where there are any and that is allowed."""
    before = os.sched_getaffinity(0)
    near = before.intersection(cpus)
    if not near:
        yield
        return
    with suppress(OSError):
        os.sched_setaffinity(0, near)
    try:
        yield
    finally:
        os.sched_setaffinity(0, before)


def memory_nodes(address: int, maps: Path = Path("/proc/self/numa_maps")) -> tuple[int, ...] | None:
    """NUMA nodes that hold pages of the mapping at an address; None where the kernel does not tell.

    Args:
        address: inside the mapping.
        maps: the kernel's list, by ascending address.
    """
    found: tuple[int, ...] | None = None
    try:
        lines = maps.read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        return None
    for line in lines:
        start = line.partition(" ")[0]
        if not re.fullmatch(r"[0-9a-f]+", start) or int(start, 16) > address:
            break
        nodes = re.findall(r" N(\d+)=[1-9]", line)
        found = tuple(sorted(int(node) for node in nodes)) or None
    return found


def buffer_nodes(address: int, root: str = "/") -> tuple[int, ...] | None:
    """NUMA nodes that hold the buffers at an address; None where the kernel does not tell.

    Where there is only one nobody is asked: the kernel walks every page of the process to answer, which takes ms.
    """
    nodes = online_nodes(root)
    return nodes if len(nodes) == 1 else memory_nodes(address)


def worker_distance(devices: Sequence[BlockDevice], cpus: Sequence[int], root: str = "/") -> Placed:
    """How far the workers' CPUs are from the farthest of the target's devices; unknown where either is not known."""
    if -1 in cpus:
        return Placed("unknown", "the workers are not pinned to CPUs.")
    return farthest(cpu_distance(device.numa_node, cpus, root) for device in devices)
