"""Fingerprint of the host: processors, memory, kernel settings and limits, read from /proc and /sys."""

from pytest_gpuio.machine.fingerprint import affinity, describe

__all__ = ["affinity", "describe"]
