import itertools
import statistics

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_gpuio.core.errors import ConfigError
from pytest_gpuio.phases.arrivals import Arrivals, read_timestamps

RATES = st.floats(0.1, 1e6)
SEEDS = st.integers(0, 2**63)


@given(st.sampled_from(["fixed", "poisson", "gamma"]), RATES, st.floats(0.05, 20.0), SEEDS)
def test_a_schedule_ascends_starts_at_zero_and_is_reproducible(kind, rate, cv, seed):
    arrivals = Arrivals(kind, rate, cv)
    times = arrivals.schedule(200, seed)
    assert times[0] == 0
    assert list(times) == sorted(times)
    assert times == arrivals.schedule(200, seed)


@given(RATES, st.integers(1, 5000))
def test_a_fixed_rate_never_drifts(rate, count):
    times = Arrivals("fixed", rate).schedule(count, 0)
    assert all(abs(time - index * 1e9 / rate) <= 1.0 for index, time in enumerate(times))


@pytest.mark.parametrize("cv", [0.25, 1.0, 2.0, 6.0])
def test_gamma_gaps_have_the_asked_mean_and_variation(cv):
    times = Arrivals("gamma", 10_000.0, cv).schedule(200_000, 7)
    gaps = [later - earlier for earlier, later in itertools.pairwise(times)]
    mean = statistics.fmean(gaps)
    # Five standard errors of a mean of 200,000 draws.
    assert mean == pytest.approx(1e5, rel=5 * cv / 200_000**0.5)
    assert statistics.pstdev(gaps) / mean == pytest.approx(cv, rel=0.1)


def test_poisson_gaps_have_variation_one():
    times = Arrivals("poisson", 10_000.0).schedule(200_000, 3)
    gaps = [later - earlier for earlier, later in itertools.pairwise(times)]
    assert statistics.fmean(gaps) == pytest.approx(1e5, rel=0.0125)
    assert statistics.pstdev(gaps) / statistics.fmean(gaps) == pytest.approx(1.0, rel=0.02)


@pytest.mark.parametrize(
    ("text", "label"),
    [
        ("closed", "closed"),
        ("fixed:10000", "fixed10000"),
        ("poisson:0.5", "poisson0.5"),
        ("gamma:500:2", "gamma500cv2"),
    ],
)
def test_spelling_round_trip_and_label(text, label):
    assert str(Arrivals.parse(text)) == text
    assert Arrivals.parse(text).label == label
    assert "-" not in label


@pytest.mark.parametrize(
    "text",
    [
        "",
        "fixed",
        "fixed:",
        "fixed:0",
        "fixed:-1",
        "fixed:1:2",
        "gamma:5",
        "gamma:5:0",
        "poisson:1e4",
        "file:",
        "fixed:1e999",
    ],
)
def test_bad_spelling_is_refused(text):
    with pytest.raises(ConfigError):
        Arrivals.parse(text)


def test_closed_loop_has_no_schedule():
    with pytest.raises(ConfigError, match="no schedule"):
        Arrivals().schedule(1, 1)


def test_timestamps_keep_nanoseconds_of_epoch_times(tmp_path):
    file = tmp_path / "t.txt"
    file.write_text("1700000000.000000001\n1700000000.5\n1700000001\n")
    assert list(read_timestamps(str(file))) == [0, 499_999_999, 999_999_999]


@pytest.mark.parametrize(
    ("content", "message"),
    [("", "has 0 lines"), ("1\nx\n", ":2: 'x' is not a time"), ("2\n1\n", ":2: 1 is earlier"), ("nan\n", ":1: 'nan'")],
)
def test_bad_timestamps_are_named_by_line(tmp_path, content, message):
    file = tmp_path / "t.txt"
    file.write_text(content)
    with pytest.raises(ConfigError, match=message):
        read_timestamps(str(file))


def test_missing_file(tmp_path):
    with pytest.raises(ConfigError, match="cannot be read"):
        Arrivals.parse(f"file:{tmp_path}/none").schedule(1, 1)
