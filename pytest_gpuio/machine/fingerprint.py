"""The fingerprint of the host: what a result needs to be compared with another machine's, and no name of the host."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path

from pytest_gpuio.machine.kernel import cpu_quota, irq_time_accounting, memlock_limit, memory_bytes
from pytest_gpuio.machine.processors import Cpu, describe_cpu, hypervisor
from pytest_gpuio.machine.reading import bracketed, read_int, read_text

_GIB = 1 << 30


def describe(root: str = "/") -> dict[str, object]:
    """Facts of the machine as a JSON-able map; None where the machine does not say.

    Keys: ``id`` (16 hexadecimal digits, the same on every boot of the same hardware), ``kernel``, ``architecture``,
    ``cpu`` (see :class:`~pytest_gpuio.machine.processors.Cpu`), ``memory_bytes``, ``clocksource``, ``hypervisor``,
    ``io_uring_disabled`` (0, 1 or 2), ``aio_max_nr``, ``aio_nr``, ``memlock_limit`` (bytes or ``unlimited``),
    ``transparent_hugepage``, ``irq_time_accounting``, ``cpu_quota`` (CPUs), ``python``.

    Args:
        root: folder that holds ``proc``, ``sys`` and ``boot``, so that machines can be faked.
    """
    here = Path(root)
    cpu = describe_cpu(here)
    memory = memory_bytes(here)
    release = read_text(here / "proc/sys/kernel/osrelease")
    architecture = read_text(here / "proc/sys/kernel/arch") or os.uname().machine
    return {
        "id": _identity(cpu, memory, architecture, read_text(here / "sys/class/dmi/id/product_name")),
        "kernel": release,
        "architecture": architecture,
        "cpu": dict(cpu),
        "memory_bytes": memory,
        "clocksource": read_text(here / "sys/devices/system/clocksource/clocksource0/current_clocksource"),
        "hypervisor": hypervisor(here),
        "io_uring_disabled": read_int(here / "proc/sys/kernel/io_uring_disabled"),
        "aio_max_nr": read_int(here / "proc/sys/fs/aio-max-nr"),
        "aio_nr": read_int(here / "proc/sys/fs/aio-nr"),
        "memlock_limit": memlock_limit(here),
        "transparent_hugepage": bracketed(read_text(here / "sys/kernel/mm/transparent_hugepage/enabled")),
        "irq_time_accounting": irq_time_accounting(here, release),
        "cpu_quota": cpu_quota(here),
        "python": ".".join(map(str, sys.version_info[:3])),
    }


def affinity() -> tuple[int, ...]:
    """CPUs that this process may run on, in order."""
    return tuple(sorted(os.sched_getaffinity(0)))


def _identity(cpu: Cpu, memory: int | None, architecture: str, product: str | None) -> str:
    import hashlib  # only here: measuring children import this room and start faster without it

    # Whole GiB: the kernel's own share of the memory changes a little with every version.
    size = None if memory is None else round(memory / _GIB)
    facts = json.dumps([architecture, cpu["model"], cpu["cores"], size, product])
    return hashlib.sha256(facts.encode()).hexdigest()[:16]
