"""The page cache of what a cell works on: brought into the state that was asked for, and asked what it holds."""

from __future__ import annotations

from pytest_gpuio.core.errors import CellVoid
from pytest_gpuio.measure.plan import Plan
from pytest_gpuio.targets import drop, resident_bytes, warm


class PageCache:
    """The regions that a cell works on.

    Args:
        plan: of the cell; ``cache`` is the state asked for.
        regions: descriptor, first byte and bytes of each; empty where the target has no page cache, as commands to an
            NVMe generic device go past it.
    """

    def __init__(self, plan: Plan, regions: list[tuple[int, int, int]]) -> None:
        self._plan = plan
        self._regions = regions

    def resident(self) -> int | None:
        """Bytes of the region in the page cache."""
        if not self._regions:
            return None
        return sum(resident_bytes(*region) for region in self._regions)

    def prepare(self) -> int | None:
        """Brings the page cache into the state that was asked for; bytes of the region that are in it then."""
        plan = self._plan
        if not self._regions:
            return None
        if plan.cache == "hot":
            for region in self._regions:
                warm(*region)
            return self.resident()
        left = sum(drop(*region, flush=plan.foreign_zeros is None) for region in self._regions)
        # Under O_DIRECT leftovers of another process only matter if they grow (gate device_bytes); for a cold
        # cache they are the thing itself.
        if plan.cache == "cold" and left:
            raise CellVoid(
                "cold_cache",
                f"{left:,} bytes of {plan.path} stay in the page cache after fdatasync and POSIX_FADV_DONTNEED "
                "(cachestat, mincore): another process maps or reads the file, or its file system keeps pages (tmpfs).",
            )
        return left
