"""Fingerprint of the host: processors, memory, kernel settings and limits, read from /proc and /sys."""

from pytest_gpuio.machine.fingerprint import affinity, describe
from pytest_gpuio.machine.processors import hypervisor, numa_nodes

__all__ = ["affinity", "describe", "hypervisor", "numa_nodes"]
