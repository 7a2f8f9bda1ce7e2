import base64
import math
import zlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_gpuio.core.errors import GpuioError
from pytest_gpuio.results import histogram

histograms = st.dictionaries(st.integers(0, histogram.BINS - 1), st.integers(1, 2**64 - 1), max_size=200)
latencies = st.one_of(st.integers(0, 200), st.integers(0, 2**42 - 1), st.integers(0, 42).map(lambda e: 2**e - 1))


def packed(*numbers):
    """A payload of single-byte numbers in the text form, made without the code under test."""
    return "gh1:" + base64.b64encode(zlib.compress(bytes(numbers))).decode()


@given(histograms)
def test_text_reads_back(bins):
    assert histogram.decode(histogram.encode(bins)) == bins


def test_the_text_form_is_the_documented_one():
    # Bin 3 twice; then bin 303, 300 steps on (0xac 0x02 in LEB128), once. Bin 7 is empty.
    text = histogram.encode({303: 1, 3: 2, 7: 0})
    assert text.startswith("gh1:")
    assert zlib.decompress(base64.b64decode(text[4:])) == bytes([3, 2, 0xAC, 0x02, 1])


def test_a_full_histogram_is_compact():
    # 200 neighbouring bins of a bell shape, as a real device gives.
    bins = {1300 + i: 1 + int(20_000 * math.exp(-(((i - 100) / 30) ** 2))) for i in range(200)}
    assert len(histogram.encode(bins)) < 1_000


@pytest.mark.parametrize(
    ("ns", "index", "low", "width"),
    [
        (0, 0, 0, 1),
        (63, 63, 63, 1),
        (64, 64, 64, 1),
        (127, 127, 127, 1),
        (128, 128, 128, 2),
        (129, 128, 128, 2),
        (130, 129, 130, 2),
        (2**20, (20 - 6 + 1) * 64, 2**20, 2**14),
        (2**42 - 1, 2367, 127 * 2**35, 2**35),
    ],
)
def test_bins_follow_the_layout_of_the_engine(ns, index, low, width):
    assert histogram.bin_of(ns) == index
    assert (histogram.bin_low(index), histogram.bin_width(index)) == (low, width)


def test_the_layout_ends_at_2_to_the_42():
    assert histogram.BINS == 2368
    assert histogram.bin_of(2**42) == histogram.BINS
    with pytest.raises(ValueError, match="-1 ns"):
        histogram.bin_of(-1)


@given(latencies)
def test_a_bin_holds_its_value(ns):
    index = histogram.bin_of(ns)
    assert histogram.bin_low(index) <= ns < histogram.bin_low(index) + histogram.bin_width(index)


@given(st.integers(0, histogram.BINS - 2))
def test_bins_leave_no_gap(index):
    assert histogram.bin_low(index) + histogram.bin_width(index) == histogram.bin_low(index + 1)


@given(
    st.lists(st.one_of(latencies, st.integers(2**42, 2**50)), min_size=1, max_size=300),
    st.sampled_from([0.0, 0.25, 0.5, 0.9, 0.95, 0.99, 0.999, 1.0]),
)
def test_quantiles_are_those_of_the_sorted_list(values, q):
    bins, overflow = {}, 0
    for value in values:
        index = histogram.bin_of(value)
        if index == histogram.BINS:
            overflow += 1
        else:
            bins[index] = bins.get(index, 0) + 1
    found = histogram.quantile(bins, q, min(values), max(values), overflow=overflow)
    exact = sorted(values)[max(math.ceil(q * len(values)), 1) - 1]
    if exact >= 2**42:
        assert found == max(values)
    else:
        assert abs(found - exact) <= exact / 128


@pytest.mark.parametrize("q", [-0.1, 1.1, float("nan")])
def test_a_quantile_outside_0_to_1_is_refused(q):
    with pytest.raises(ValueError, match=r"outside 0 \.\. 1"):
        histogram.quantile({0: 1}, q, 0, 0)


def test_an_empty_histogram_has_no_quantile():
    with pytest.raises(ValueError, match="empty"):
        histogram.quantile({}, 0.5, 0, 0)


@pytest.mark.parametrize("bins", [{-1: 1}, {2368: 1}, {0: -1}, {0: 2**64}])
def test_what_does_not_fit_is_not_written(bins):
    with pytest.raises(ValueError, match="does not fit"):
        histogram.encode(bins)


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("", "does not start with 'gh1:'"),
        ("gh2:eJwDAAAAAAE=", "does not start with 'gh1:'"),
        ("gh1:", "its length is wrong"),
        ("gh1:???", "damaged"),
        ("gh1:é", "damaged"),
        ("gh1:" + base64.b64encode(b"not deflated").decode(), "damaged"),
        (packed(3, 2)[:-8], "damaged"),
        (packed(3), "count 0 cannot be"),
        (packed(3, 0), "count 0 cannot be"),
        (packed(3, 1, 0, 1), "bin 3 with count 1 cannot be"),
        (packed(0xFF, 0x7F, 1), "bin 16383"),
        (packed(3, 0x80), "ends inside a number"),
        (packed(*[0xFF] * 11), "longer than 64 bits"),
        (packed(3, *[0xFF] * 9, 0x7F), "cannot be"),
        (packed(*[0] * 100_000), "its length is wrong"),
    ],
)
def test_a_damaged_text_is_refused(text, problem):
    with pytest.raises(GpuioError, match=problem):
        histogram.decode(text)


@given(st.binary(max_size=40))
def test_no_payload_ends_in_anything_but_a_histogram_or_a_named_error(payload):
    text = "gh1:" + base64.b64encode(zlib.compress(payload)).decode()
    try:
        bins = histogram.decode(text)
    except GpuioError:
        return
    assert histogram.decode(histogram.encode(bins)) == bins
