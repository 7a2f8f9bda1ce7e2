"""Workload models of each phase: what an LLM's storage traffic looks like, as pure values."""

from __future__ import annotations

from pytest_gpuio.phases.durability import Durability
from pytest_gpuio.phases.model import RecordModel
from pytest_gpuio.phases.parameter import Parameter
from pytest_gpuio.phases.registry import WORKLOADS, AnyWorkload, get, match, register, with_parameters
from pytest_gpuio.phases.workload import Order, Round, Workload

__all__ = [
    "WORKLOADS",
    "AnyWorkload",
    "Durability",
    "Order",
    "Parameter",
    "RecordModel",
    "Round",
    "Workload",
    "get",
    "match",
    "register",
    "with_parameters",
]
