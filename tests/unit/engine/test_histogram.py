from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_gpuio.core.errors import EngineError
from pytest_gpuio.engine import Histogram

BINS = 37 * 64
#: Latencies of all magnitudes, overflow included.
latencies = st.integers(0, 44).flatmap(lambda bits: st.integers(0, (1 << bits) - 1))


def filled(values: list[int]) -> Histogram:
    histogram = Histogram.empty()
    for value in values:
        histogram.add(value)
    return histogram


def contents(histogram: Histogram) -> tuple[object, ...]:
    return (
        histogram.count,
        histogram.overflow,
        histogram.sum_ns,
        histogram.min_ns,
        histogram.max_ns,
        histogram.bins(),
    )


@given(st.integers(0, (1 << 42) - 1))
def test_a_bin_holds_its_value_within_one_part_in_128(value):
    bin_ = Histogram.bin_of(value)
    low, width = Histogram.bin_low(bin_), Histogram.bin_width(bin_)
    assert low <= value < low + width
    assert abs(low + (width - 1) / 2 - value) <= value / 128


def test_bins_tile_the_range():
    edges = [Histogram.bin_low(bin_) for bin_ in range(BINS + 1)]
    assert edges[0] == 0
    assert edges[-1] == 1 << 42
    assert all(Histogram.bin_width(bin_) == edges[bin_ + 1] - edges[bin_] > 0 for bin_ in range(BINS))
    assert Histogram.bin_of(1 << 42) == BINS


@given(st.lists(latencies, min_size=1, max_size=300), st.floats(0, 1))
def test_quantile_against_sorting(values, q):
    exact = sorted(values)[max(math.ceil(q * len(values)), 1) - 1]
    got = filled(values).quantile(q)
    if exact < 1 << 42:
        assert abs(got - exact) <= exact / 128
    else:
        assert got == max(values)


@given(st.lists(latencies, max_size=200), st.lists(latencies, max_size=200))
def test_merging_is_counting_together(left, right):
    merged = filled(left)
    merged.merge(filled(right))
    assert contents(merged) == contents(filled(left + right))


@given(st.lists(latencies, max_size=200))
def test_sums_and_counts(values):
    histogram = filled(values)
    assert histogram.count == len(values)
    assert histogram.sum_ns == sum(values)
    assert histogram.overflow == sum(value >= 1 << 42 for value in values)
    assert histogram.min_ns == min(values, default=0)
    assert histogram.max_ns == max(values, default=0)
    assert sum(histogram.bins().values()) == len(values) - histogram.overflow


def test_empty():
    histogram = Histogram.empty()
    assert histogram.quantile(0.5) is None
    assert histogram.bins() == {}


@pytest.mark.parametrize("q", [-0.01, 1.01, math.nan])
def test_quantile_outside(q):
    with pytest.raises(EngineError, match="outside 0 to 1"):
        Histogram.empty().quantile(q)
