"""A lab in a virtual machine: the distribution's own kernel and drivers, over this machine's userland, with emulated disks."""

from vmlab.errors import LabBroken, LabUnavailable
from vmlab.kernel import Kernel, fetch_kernel
from vmlab.machine import Machine, Outcome, run_job

__all__ = ["Kernel", "LabBroken", "LabUnavailable", "Machine", "Outcome", "fetch_kernel", "run_job"]
