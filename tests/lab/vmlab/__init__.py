"""A lab in a virtual machine: the distribution's kernel and drivers, this machine's userland, emulated disks."""

from vmlab.errors import LabBroken, LabLate, LabUnavailable
from vmlab.kernel import Kernel, fetch_kernel
from vmlab.machine import Machine, Outcome, run_job
from vmlab.pool import Pool, machines_at_once

__all__ = [
    "Kernel",
    "LabBroken",
    "LabLate",
    "LabUnavailable",
    "Machine",
    "Outcome",
    "Pool",
    "fetch_kernel",
    "machines_at_once",
    "run_job",
]
