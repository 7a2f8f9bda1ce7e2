"""The ways a lab ends without an answer."""


class LabUnavailable(Exception):
    """QEMU, a program or the kernel package cannot be had here; the text names the remedy. Suites skip."""


class LabBroken(Exception):
    """The virtual machine did not end its job: a crash, a hang, a job that was cut off. Suites fail."""


class LabLate(Exception):
    """The time that was given to all machines is over; the text says how much it was. Suites skip."""
