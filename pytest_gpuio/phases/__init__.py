"""Workload models of each phase: what an LLM's storage traffic looks like, as pure values."""

from __future__ import annotations

from pytest_gpuio.phases.durability import Durability
from pytest_gpuio.phases.registry import WORKLOADS, get, match, register
from pytest_gpuio.phases.workload import Order, Round, Workload

__all__ = ["WORKLOADS", "Durability", "Order", "Round", "Workload", "get", "match", "register"]
