"""The projected queue against one that is served group by group."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pytest_gpuio.core.errors import ConfigError
from pytest_gpuio.phases.kv_cache.projection import completion_ns

GROUPS = st.lists(st.tuples(st.integers(0, 10**10), st.integers(0, 10**9)), min_size=1, max_size=40)


@given(GROUPS, st.integers(1, 10), st.integers(0, 1000))
@settings(deadline=None)
def test_first_come_first_served(groups, gb_per_s, latency_us):
    groups = sorted(groups)
    free, expected = 0.0, []
    for arrival, size in groups:
        free = max(free, arrival) + size / gb_per_s
        expected.append(free - arrival + latency_us * 1000)
    times, sizes = (np.array(column, dtype=np.int64) for column in zip(*groups, strict=True))
    took = completion_ns(times, sizes, gb_per_s * 1e9, latency_us / 1e6)
    assert took.tolist() == pytest.approx(expected, abs=10)


@pytest.mark.parametrize(("speed", "latency"), [(0.0, 0.0), (-1.0, 0.0), (1.0, -1.0), (float("nan"), 0.0)])
def test_speeds_that_cannot_be(speed, latency):
    with pytest.raises(ConfigError, match="cannot be projected"):
        completion_ns(np.zeros(1, dtype=np.int64), np.ones(1, dtype=np.int64), speed, latency)
