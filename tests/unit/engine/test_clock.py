from __future__ import annotations

import errno
from pathlib import Path

import pytest

from pytest_gpuio.core.errors import EngineError
from pytest_gpuio.engine import Clock


def test_chooses_a_clock_that_can_measure():
    clock = Clock.calibrate()
    assert clock.source in ("tsc", "monotonic")
    assert clock.ns_per_tick > 0
    assert clock.cost_ns > 0
    assert clock.resolution_ns >= 1


def test_monotonic_can_be_forced():
    clock = Clock.calibrate("monotonic")
    assert clock.source == "monotonic"
    assert clock.ns_per_tick == 1.0


def test_tsc_only_where_the_kernel_itself_uses_it():
    source = Path("/sys/devices/system/clocksource/clocksource0/current_clocksource")
    kernel = source.read_text().strip() if source.exists() else "unknown"
    if kernel == "tsc":
        assert Clock.calibrate("tsc").source == "tsc"
    else:
        with pytest.raises(EngineError, match="TSC cannot be trusted") as raised:
            Clock.calibrate("tsc")
        assert raised.value.errno == errno.ENOTSUP


def test_unknown_source():
    with pytest.raises(EngineError, match="'sundial' is not known"):
        Clock.calibrate("sundial")
