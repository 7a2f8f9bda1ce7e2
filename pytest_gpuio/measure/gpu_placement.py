"""Which GPUs lie near a target's devices and which far from them, by the PCI tree and the NUMA nodes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from pytest_gpuio.core.errors import CapabilityMissing
from pytest_gpuio.machine import DISTANCES, Placed, farthest, pci_distance
from pytest_gpuio.media import BlockDevice

#: What ``--gpuio-gpu`` may say instead of numbers: the nearest GPUs first, or those that are known to be far.
ORDERS: Final = ("near", "far")


def gpu_distance(bus_id: str, devices: Sequence[BlockDevice], root: str = "/") -> Placed:
    """How far a GPU is from the farthest of a target's devices.

    Args:
        bus_id: PCI address of the GPU.
        devices: physical ones.
        root: folder that holds ``sys``, so that machines can be faked.
    """
    for device in devices:
        if device.pci_address is None:
            return Placed("unknown", f"{device.name} tells no PCI address.")
    return farthest(pci_distance(bus_id, str(device.pci_address), root) for device in devices)


def ordered_gpus(
    order: str, bus_ids: Sequence[str], devices: Sequence[BlockDevice], root: str = "/"
) -> tuple[int, ...]:
    """Ordinals of the GPUs, the most wanted first.

    Args:
        order: of :data:`ORDERS`.
        bus_ids: PCI addresses in the order of the ordinals.
        devices: the target's physical ones.
        root: folder that holds ``sys``.

    Raises:
        CapabilityMissing: the distances are not known, or none is farther than another, so that far says nothing.
    """
    placed = [gpu_distance(bus_id, devices, root) for bus_id in bus_ids]
    known = [ordinal for ordinal, found in enumerate(placed) if found.distance != "unknown"]
    if not known:
        why = placed[0].evidence if placed else "there is no GPU."
        raise CapabilityMissing(
            f"--gpuio-gpu={order}: it is not known how far the GPUs are from the target ({why}) Name them by number."
        )
    distances = {placed[ordinal].distance for ordinal in known}
    if order == "far" and len(distances) == 1:
        raise CapabilityMissing(
            f"--gpuio-gpu=far: every GPU whose distance is known is as near as the others ({distances.pop()}), see "
            "gpuio probe TARGET."
        )
    ranked = sorted(known, key=lambda ordinal: DISTANCES.index(placed[ordinal].distance), reverse=order == "far")
    if order == "far":
        # Farthest first, but not past what is near: a cell of far GPUs must hold none that is not.
        nearest = min(DISTANCES.index(distance) for distance in distances)
        return tuple(ordinal for ordinal in ranked if DISTANCES.index(placed[ordinal].distance) > nearest)
    return (*ranked, *(ordinal for ordinal in range(len(placed)) if ordinal not in known))
