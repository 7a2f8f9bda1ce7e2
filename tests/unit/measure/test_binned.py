"""Histograms as text between child and parent."""

import json

from hypothesis import given
from hypothesis import strategies as st

from pytest_gpuio.engine import Histogram
from pytest_gpuio.measure.binned import histogram_values, pack, unpack
from pytest_gpuio.results.histogram import bin_of


@given(st.dictionaries(st.integers(0, 2**12), st.integers(1, 2**64 - 1)))
def test_what_is_packed_comes_back(bins):
    assert unpack(json.loads(json.dumps(pack(bins)))) == bins


def test_a_histogram_as_values():
    histogram = Histogram.empty()
    for ns in (5, 5, 1_000_000):
        histogram.add(ns)
    values = histogram_values(histogram)
    assert unpack(values.pop("bins")) == {5: 2, bin_of(1_000_000): 1}
    assert values == {"count": 3, "overflow": 0, "sum_ns": 1_000_010, "min_ns": 5, "max_ns": 1_000_000}
    assert unpack(histogram_values(Histogram.empty())["bins"]) == {}
