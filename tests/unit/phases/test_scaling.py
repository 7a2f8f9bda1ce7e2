"""Less of the same: what thinning keeps, and draws by quantiles."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_gpuio.core.errors import ConfigError
from pytest_gpuio.phases import quantiles
from pytest_gpuio.phases.scaling import share, thin

LENGTHS = st.lists(st.integers(1, 5_000), min_size=1, max_size=80).map(lambda sizes: np.array(sizes, np.int64))


@given(LENGTHS, st.floats(0.001, 1.0), st.integers(1, 2_000))
def test_a_share_of_the_bytes_is_left_short_of_less_than_a_piece(lengths, scale, piece):
    left = thin(lengths, scale, piece)
    target = scale * lengths.sum()
    assert left.shape == lengths.shape
    assert (left >= 0).all()
    assert (left <= lengths).all()
    assert left.sum() > 0
    assert left.sum() > target - piece
    assert left.sum() <= max(target, min(piece, lengths.min()))


@given(LENGTHS, st.floats(0.001, 1.0), st.integers(1, 2_000))
def test_short_ones_stay_whole_or_go(lengths, scale, piece):
    left = thin(lengths, scale, piece)
    short = lengths <= piece
    assert set(np.unique(left[short] * (left[short] != lengths[short]))) <= {0}
    # A long one loses whole pieces; its last piece may be a shorter one.
    tail = (lengths - 1) % piece + 1
    rest = left % piece
    assert (np.isin(rest, [0]) | (rest == tail % piece)).all()


@given(LENGTHS, st.integers(1, 2_000))
def test_everything_is_left_of_the_whole(lengths, piece):
    assert np.array_equal(thin(lengths, 1.0, piece), lengths)


def test_the_mix_of_sizes_is_kept():
    lengths = np.array([8, 64, 512] * 10_000, np.int64)
    left = thin(lengths, 0.3, 1024)
    kept = [(left[lengths == size] > 0).mean() for size in (8, 64, 512)]
    assert kept == pytest.approx([0.3] * 3, abs=0.015)


@pytest.mark.parametrize("scale", [0.0, -1.0, 1.5, float("nan")])
def test_a_share_out_of_range(scale):
    with pytest.raises(ConfigError, match="use a number above 0 and up to 1"):
        thin(np.array([1]), scale)


def test_counts():
    assert [share(10, 0.26), share(10, 0.0001), share(10, 0.01, 4), share(10, 2.0)] == [3, 1, 4, 20]


def test_draws_have_the_quantiles_they_were_given():
    given = {0.0: 1.0, 0.5: 12.0, 0.9: 49.0, 0.99: 147.0, 1.0: 240.0}
    values = quantiles.draw(given, 200_000, np.random.default_rng(5))
    assert np.quantile(values, [0.5, 0.9, 0.99]) == pytest.approx([12, 49, 147], rel=0.02)
    assert values.min() >= 1
    assert values.max() <= 240


@pytest.mark.parametrize(
    "wrong", [{}, {0.0: 1.0}, {0.0: 0.0, 1.0: 2.0}, {0.1: 1.0, 1.0: 2.0}, {0.0: 2.0, 1.0: 1.0}, {0.0: 1.0, 0.9: 2.0}]
)
def test_quantiles_that_are_none(wrong):
    with pytest.raises(ConfigError, match="do not ascend"):
        quantiles.draw(wrong, 3, np.random.default_rng(1))
