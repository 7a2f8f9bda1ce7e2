"""What gates look at and what they answer."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Literal

from pytest_gpuio.datapaths import DataPath, Proof
from pytest_gpuio.measure.plan import Plan
from pytest_gpuio.measure.totals import Totals
from pytest_gpuio.media import BlockDevice

GateClass = Literal["impossible", "unsettled", "warning"]
State = Literal["passed", "failed", "unknown", "exempt"]


@dataclass(frozen=True, slots=True)
class Observed:
    """What the gates look at.

    Attributes:
        plan, path, medium: what was asked of which data path on what.
        outcome: the child's observations. totals: sums over its windows. proof: the path really taken.
        devices: the physical devices under the target. nodes: NUMA nodes of the workers' CPUs; empty = unknown.
        virtual_machine: facts of hardware are a hypervisor's word.
    """

    plan: Plan
    path: DataPath
    medium: str
    outcome: Mapping[str, Any]
    totals: Totals
    proof: Proof
    devices: tuple[BlockDevice, ...] = ()
    nodes: tuple[int, ...] = ()
    virtual_machine: bool = False

    @property
    def surroundings(self) -> Mapping[str, Any]:
        """What :func:`pytest_gpuio.measure.surroundings.between` found; empty when nothing was read."""
        found: Mapping[str, Any] = self.outcome.get("surroundings") or {}
        return found


@dataclass(frozen=True, slots=True)
class Finding:
    """A gate's answer; ``detail`` is a sentence with the figures."""

    state: State
    detail: str


@dataclass(frozen=True, slots=True)
class Gate:
    """A named check. ``impossible`` voids the cell, ``unsettled`` flags it, ``warning`` only tells."""

    name: str
    kind: GateClass
    check: Callable[[Observed], Finding]


@dataclass(frozen=True, slots=True)
class GateResult:
    """A gate with its answer."""

    gate: str
    kind: GateClass
    state: State
    detail: str


def judge(good: bool, detail: str) -> Finding:
    """Passed or failed."""
    return Finding("passed" if good else "failed", detail)
