"""Workload models of each phase: what an LLM's storage traffic looks like, as pure values."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
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

_ROOMS = {"Durability": "durability", "RecordModel": "model", "Parameter": "parameter"}
_ROOMS |= dict.fromkeys(("WORKLOADS", "AnyWorkload", "get", "match", "register", "with_parameters"), "registry")
_ROOMS |= dict.fromkeys(("Order", "Round", "Workload"), "workload")


def __getattr__(name: str) -> object:
    """Loaded when first used: a measuring child imports modules of this package and needs none of all its workloads."""
    from importlib import import_module

    if name not in _ROOMS:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = globals()[name] = getattr(import_module(f"{__name__}.{_ROOMS[name]}"), name)
    return value
