"""The host: a fingerprint of processors, memory, kernel settings and limits, and how far its parts are apart."""

from pytest_gpuio.machine.fingerprint import affinity, describe
from pytest_gpuio.machine.gpu_storage import GpuStorage, NvidiaFs, gpu_storage, nvidia_fs, udev_knows
from pytest_gpuio.machine.processors import hypervisor, numa_nodes
from pytest_gpuio.machine.topology import (
    DISTANCES,
    Distance,
    Placed,
    cpu_distance,
    farthest,
    node_cpus,
    online_nodes,
    pci_distance,
    pci_node,
)

__all__ = [
    "DISTANCES",
    "Distance",
    "GpuStorage",
    "NvidiaFs",
    "Placed",
    "affinity",
    "cpu_distance",
    "describe",
    "farthest",
    "gpu_storage",
    "hypervisor",
    "node_cpus",
    "numa_nodes",
    "nvidia_fs",
    "online_nodes",
    "pci_distance",
    "pci_node",
    "udev_knows",
]
