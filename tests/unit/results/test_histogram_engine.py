from hypothesis import given
from hypothesis import strategies as st

from pytest_gpuio.engine import Histogram
from pytest_gpuio.results import build, histogram

values = st.lists(st.one_of(st.integers(0, 300), st.integers(0, 2**44)), min_size=1, max_size=100)


def counted(latencies):
    engine = Histogram.empty()
    for ns in latencies:
        engine.add(ns)
    return engine


def test_every_bin_lies_where_the_engine_has_it():
    for index in range(histogram.BINS):
        assert histogram.bin_low(index) == Histogram.bin_low(index)
        assert histogram.bin_width(index) == Histogram.bin_width(index)
    assert histogram.bin_of(2**42) == Histogram.bin_of(2**42) == histogram.BINS


@given(values)
def test_values_fall_into_the_engines_bins(latencies):
    assert [histogram.bin_of(ns) for ns in latencies] == [Histogram.bin_of(ns) for ns in latencies]


@given(values, st.floats(0.0, 1.0))
def test_quantiles_are_the_engines(latencies, q):
    engine = counted(latencies)
    mine = histogram.quantile(engine.bins(), q, engine.min_ns, engine.max_ns, overflow=engine.overflow)
    assert mine == engine.quantile(q)


@given(values)
def test_a_distribution_is_what_was_counted(latencies):
    engine = counted(latencies)
    made = build.distribution(
        count=engine.count,
        overflow=engine.overflow,
        min_ns=engine.min_ns,
        max_ns=engine.max_ns,
        sum_ns=engine.sum_ns,
        bins=engine.bins(),
    )
    assert (made["count"], made["min_ns"], made["max_ns"]) == (len(latencies), min(latencies), max(latencies))
    assert made["mean_ns"] == sum(latencies) / len(latencies)
    assert histogram.decode(made["histogram"]) == engine.bins()
    assert made["p50_ns"] <= made["p90_ns"] <= made["p95_ns"] <= made["p99_ns"] <= made["p999_ns"] <= made["max_ns"]
