"""A lab in a virtual machine: the distribution's kernel and drivers, this machine's userland, emulated disks."""

from vmlab.errors import LabBroken, LabUnavailable
from vmlab.kernel import Kernel, fetch_kernel
from vmlab.machine import Machine, Outcome, run_job

__all__ = ["Kernel", "LabBroken", "LabUnavailable", "Machine", "Outcome", "fetch_kernel", "run_job"]
