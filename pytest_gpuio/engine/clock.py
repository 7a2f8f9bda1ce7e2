"""The clock that stamps every request: TSC where it can be trusted, else CLOCK_MONOTONIC."""

from __future__ import annotations

from typing import Any, Final

from pytest_gpuio.core.errors import EngineError
from pytest_gpuio.engine.native import check, native, new_why

_SOURCES: Final = ("monotonic", "tsc")


class Clock:
    """A calibrated clock; make it with :meth:`calibrate`."""

    def __init__(self, pointer: Any) -> None:
        self.pointer = pointer

    @classmethod
    def calibrate(cls, force: str | None = None) -> Clock:
        """Choose and calibrate a clock; takes about 10 ms for the TSC.

        Args:
            force: ``"tsc"`` or ``"monotonic"``; None chooses.

        Raises:
            EngineError: unknown source, or a TSC that cannot be trusted was forced (errno ENOTSUP).
        """
        if force is not None and force not in _SOURCES:
            raise EngineError(f"clock source {force!r} is not known: use {' or '.join(_SOURCES)}")
        pointer = native().ffi.new("struct gpuio_clock *")
        why = new_why()
        source = -1 if force is None else _SOURCES.index(force)
        check(native().lib.gpuio_clock_init(pointer, source, why), why, "calibrating the clock")
        return cls(pointer)

    @property
    def source(self) -> str:
        """``tsc`` or ``monotonic``."""
        return _SOURCES[self.pointer.source]

    @property
    def ns_per_tick(self) -> float:
        """Nanoseconds per tick; 1.0 for CLOCK_MONOTONIC."""
        return float(self.pointer.ns_per_tick)

    @property
    def cost_ns(self) -> float:
        """Mean cost of one stamp."""
        return float(self.pointer.cost_ns)

    @property
    def resolution_ns(self) -> int:
        """Smallest step seen between two different stamps."""
        return int(self.pointer.resolution_ns)
