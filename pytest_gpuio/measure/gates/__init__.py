"""Validity gates: is this number possible, and is it steady? Pure functions of what was observed."""

from __future__ import annotations

from typing import Final

from pytest_gpuio.measure.gates import impossible, physics, unsettled, warning
from pytest_gpuio.measure.gates.verdict import Finding, Gate, GateClass, GateResult, Observed, State

#: Order of reporting: the first failed impossible gate names the void.
GATES: Final = (
    Gate("no_errors", "impossible", impossible.no_errors),
    Gate("no_short_io", "impossible", impossible.no_short_io),
    Gate("enough_io", "impossible", impossible.enough_io),
    Gate("path_proved", "impossible", impossible.path_proved),
    Gate("device_bytes", "impossible", impossible.device_bytes),
    Gate("data_verified", "impossible", impossible.data_verified),
    Gate("depth_achieved", "impossible", impossible.depth_achieved),
    Gate("littles_law", "impossible", physics.littles_law),
    Gate("open_loop_lag", "impossible", physics.open_loop_lag),
    Gate("clock_sane", "impossible", physics.clock_sane),
    Gate("not_faster_than_link", "impossible", physics.not_faster_than_link),
    Gate("cpu_account", "impossible", physics.cpu_account),
    Gate("stable", "unsettled", unsettled.stable),
    Gate("cores_available", "unsettled", unsettled.cores_available),
    Gate("no_throttle", "unsettled", unsettled.no_throttle),
    Gate("no_steal", "unsettled", unsettled.no_steal),
    Gate("no_quota", "unsettled", unsettled.no_quota),
    Gate("tool_bound", "warning", warning.tool_bound),
    Gate("requests_whole", "warning", warning.requests_whole),
    Gate("physical_device", "warning", warning.physical_device),
    Gate("content_known", "warning", warning.content_known),
    Gate("numa_far", "warning", warning.numa_far),
)

__all__ = ["GATES", "Finding", "Gate", "GateClass", "GateResult", "Observed", "State", "check"]


def check(seen: Observed) -> tuple[GateResult, ...]:
    """Every gate's answer, in the order of :data:`GATES`."""
    results = []
    for gate in GATES:
        finding = gate.check(seen)
        results.append(GateResult(gate.name, gate.kind, finding.state, finding.detail))
    return tuple(results)
