"""Gates that only tell: worth knowing, not wrong."""

from __future__ import annotations

from typing import Final

from pytest_gpuio.measure.gates.impossible import DEVICE_DEPTH, device_share
from pytest_gpuio.measure.gates.verdict import Finding, Observed, judge
from pytest_gpuio.targets.raw_device import ALLOW_OPTION

DEPTH_TOOL_BOUND: Final = 0.9


def tool_bound(seen: Observed) -> Finding:
    """Below the asked depth it may be the CPU that was measured."""
    if not seen.path.moves_data or seen.totals.in_flight is None or seen.plan.open_loop or seen.plan.replay:
        return Finding("exempt", "no depth to compare")
    share = seen.totals.in_flight / seen.plan.in_flight
    detail = f"{share:.0%} of the asked depth was in flight"
    flushes = seen.plan.dsync or seen.plan.sync != "none"
    if seen.plan.cache == "direct" and seen.plan.in_flight > 1 and not flushes and device_share(seen) < DEVICE_DEPTH:
        return Finding("failed", f"{detail}, {device_share(seen):.0%} at the device: submitting is the limit")
    return judge(share >= DEPTH_TOOL_BOUND, detail)


def requests_whole(seen: Observed) -> Finding:
    """Split requests cost more."""
    device = seen.totals.device
    if device is None or seen.plan.cache != "direct":
        return Finding("unknown", "no block-layer counters, or buffered")
    if seen.plan.replay is not None:
        return Finding("exempt", f"records of many sizes; the device saw {device.request_bytes:,.0f} bytes a request")
    good = device.request_bytes >= 0.9 * seen.plan.bs
    return judge(good, f"the device saw requests of {device.request_bytes:,.0f} bytes, block {seen.plan.bs:,}")


def physical_device(seen: Observed) -> Finding:
    """A host's cache answers for a virtual disk."""
    if not seen.path.moves_data:
        return Finding("exempt", "null: no device")
    good = seen.medium not in ("virtual", "unknown")
    return judge(good, "" if good else f"medium {seen.medium}: a cache of the host may answer")


def content_known(seen: Observed) -> Finding:
    """Blocks that were never written are answered without touching the medium."""
    if not seen.path.moves_data:
        return Finding("exempt", "null: no data")
    zeros = seen.plan.foreign_zeros
    if zeros is None:
        return Finding("passed", "laid out by us in full, with data that does not compress")
    return Finding(
        "failed",
        f"the device is read as it is: {zeros:.0%} of its sampled places hold only zeros (never written, or "
        f"discarded), and the rest may compress: {ALLOW_OPTION} lays out data that does not",
    )


def numa_far(seen: Observed) -> Finding:
    """Bytes that cross the sockets' link arrive later."""
    near = {device.numa_node for device in seen.devices}
    used = set(seen.nodes)
    if not near or None in near or not used:
        return Finding("unknown", "the NUMA node of the device or of the workers' CPUs is not known")
    detail = f"workers on node {_listed(used)}, device on node {_listed(near)}"
    return judge(
        used <= near,
        detail + ("" if used <= near else ": use --gpuio-numa=near, or a CPU set of that node"),
    )


def _listed(numbers: set[int] | set[int | None]) -> str:
    return ", ".join(str(number) for number in sorted(number for number in numbers if number is not None))
