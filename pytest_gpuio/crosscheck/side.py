"""What one run of one tool gave, in the same words for every tool."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any, Final

#: Percentiles that both sides report, by their name here and their share.
PERCENTILES: Final[Mapping[str, float]] = {"p50": 0.5, "p99": 0.99, "p999": 0.999}


@dataclass(frozen=True, slots=True)
class Observed:
    """CPU as an observer outside the tool saw it, over a stretch well inside its run; None = cannot be seen here.

    Attributes:
        seconds: length of the stretch.
        process_cores: CPU seconds per second of the tool's process with all its threads, kernel helpers of io_uring
            included (its CPU-time clock).
        host_cores: CPU seconds per second of the whole machine (idle complement of ``/proc/stat``).
        strangers: of that, what is neither the tool's, nor ours that observes, nor of kernel threads: those serve the
            target (a loop device's workers, soft interrupts).
    """

    seconds: float
    process_cores: float | None
    host_cores: float | None
    strangers: float | None = None


@dataclass(frozen=True, slots=True)
class Side:
    """One run.

    Attributes:
        tool: ``gpuio``, ``fio`` or ``bare``.
        ios, bytes: completed. seconds: over which.
        latency: total latency in nanoseconds: ``mean`` and :data:`PERCENTILES`; empty where the tool has none.
        cores_told: CPU seconds per second as the tool's own figures have it; None = it has none.
        observed: CPU as seen from outside; None = not observed.
        notes: what else is worth knowing of this run.
    """

    tool: str
    ios: int
    bytes: int
    seconds: float
    latency: Mapping[str, float]
    cores_told: float | None
    observed: Observed | None = None
    notes: Mapping[str, Any] | None = None

    @property
    def iops(self) -> float:
        """Completed requests per second."""
        return self.ios / self.seconds

    def figure(self, name: str) -> float | None:
        """A figure that sides are compared by; None where this run lacks it.

        Args:
            name: ``iops``, ``bytes_per_s``, ``lat_mean``, ``lat_p50`` (and the other percentiles; ns); CPU seconds per
                second ``cores_told`` (the tool's own figure), ``cores_process`` (its process's clock) and
                ``cores_host`` (all of the machine); the same per request: ``cpu_told``, ``cpu_process``, ``cpu_host``.
        """
        if name == "iops":
            return self.iops
        if name == "bytes_per_s":
            return self.bytes / self.seconds
        if name.startswith("lat_"):
            return self.latency.get(name.removeprefix("lat_"))
        kind, _, whose = name.partition("_")
        seen = self.observed
        cores = {
            "told": self.cores_told,
            "process": None if seen is None else seen.process_cores,
            "host": None if seen is None else seen.host_cores,
        }[whose]
        if cores is None or kind == "cores":
            return cores
        return cores / self.iops if self.iops else None

    def to_json(self) -> dict[str, Any]:
        """JSON-able values, raw units."""
        return asdict(self) | {"iops": self.iops}
