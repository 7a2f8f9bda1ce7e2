"""Capabilities of this machine and target, each probed lazily, once, under a deadline, with a remedy when missing."""

from pytest_gpuio.capabilities.probes import CAPABILITIES
from pytest_gpuio.capabilities.resolver import Resolver

__all__ = ["CAPABILITIES", "Resolver"]
