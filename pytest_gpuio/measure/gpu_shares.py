"""Child side: what each GPU's group of workers did in the measured windows."""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import Any

from pytest_gpuio.engine import Window, gpus


@dataclass
class _Share:
    workers: int
    ios: int = 0
    bytes: int = 0
    seconds: float = 0.0
    cpu_seconds: float = 0.0


class Shares:
    """Sums per GPU.

    Args:
        ordinals: the GPU of each worker; empty = host memory, and nothing is kept.
    """

    def __init__(self, ordinals: tuple[int, ...]) -> None:
        self._shares = {ordinal: _Share(ordinals.count(ordinal)) for ordinal in dict.fromkeys(ordinals)}

    def add(self, window: Window) -> None:
        """Count a window; a group's time is from its first worker's start to its last one's end."""
        for ordinal, share in self._shares.items():
            group = [worker for worker in window.workers if worker.gpu == ordinal]
            share.ios += sum(worker.ios for worker in group)
            share.bytes += sum(worker.bytes for worker in group)
            share.seconds += (max(w.end_ns for w in group) - min(w.start_ns for w in group)) / 1e9
            share.cpu_seconds += sum(worker.cpu_ns for worker in group) / 1e9

    def values(self) -> dict[str, Any]:
        """JSON-able: ``driver_version``, ``cores`` there are, and ``shares`` with each GPU's identity and sums."""
        known = {info.ordinal: info for info in gpus()}
        shares: list[dict[str, Any]] = [
            {
                "ordinal": ordinal,
                "name": known[ordinal].name,
                "uuid": known[ordinal].uuid,
                "bus_id": known[ordinal].bus_id,
                "workers": share.workers,
                "ios": share.ios,
                "bytes": share.bytes,
                "seconds": share.seconds,
                "cpu_seconds": share.cpu_seconds,
            }
            for ordinal, share in self._shares.items()
        ]
        return {
            "cores": len(os.sched_getaffinity(os.getppid())),
            "driver_version": known[next(iter(self._shares))].driver_version,
            "shares": shares,
        }
