"""ServeGen's clients: what is drawn follows the distributions of their files."""

import json

import numpy as np
import pytest
from scipy import stats

from pytest_gpuio.core.errors import ConfigError, TraceError
from pytest_gpuio.phases import traces
from pytest_gpuio.phases.traces import Reading

#: 100 requests a second, Gamma with CV 2; then idle; then Weibull with shape 1 (Poisson) at 50 a second.
WINDOWS = "0,0,0,,0,0\n600,100,2,Gamma,0.25,0.04\n1200,0,0,,0,0\n1800,50,1,Weibull,1.0,0.02\n"
DATASET = {
    "0": {"input_tokens": "{100: 0.75, 200: 0.25}", "output_tokens": "{7: 1.0}"},
    "1800": {"input_tokens": "{300: 1.0}", "output_tokens": "{8: 0.5, 9: 0.5}"},
}


@pytest.fixture
def client(tmp_path):
    def write(windows=WINDOWS, dataset=DATASET):
        path = tmp_path / "chunk-7-trace.csv"
        path.write_text(windows)
        (tmp_path / "chunk-7-dataset.json").write_text(json.dumps(dataset) if isinstance(dataset, dict) else dataset)
        return path

    return write


def test_arrivals_follow_the_windows(client):
    trace = traces.load(client(), reading=Reading(start_s=0.0, duration_s=2400.0))
    assert trace.format == "servegen"
    times = trace.time_ns / 1e9
    first, second = times[times < 900], times[times > 900]
    assert len(first) == pytest.approx(60_000, rel=0.05)
    assert len(second) == pytest.approx(30_000, rel=0.03)
    assert second[0] - first[0] == pytest.approx(1200, abs=1)
    gaps = np.diff(first)
    assert gaps.std() / gaps.mean() == pytest.approx(2.0, rel=0.05)
    # scipy's distributions as the oracle; arrivals are drawn with a fixed seed.
    # One gap of this Gamma in eighty is below 1 ns, the resolution of a trace.
    assert stats.kstest(np.diff(first), stats.gamma(0.25, scale=0.04).cdf).statistic < 0.02
    assert stats.kstest(np.diff(second), stats.weibull_min(1.0, scale=0.02).cdf).pvalue > 1e-3


def test_lengths_follow_the_histogram_of_their_time(client):
    trace = traces.load(client(), reading=Reading(start_s=0.0, duration_s=2400.0))
    early = trace.time_ns < 900 * 10**9
    assert set(trace.input_tokens[early].tolist()) == {100, 200}
    assert np.mean(trace.input_tokens[early] == 100) == pytest.approx(0.75, abs=0.01)
    assert set(trace.input_tokens[~early].tolist()) == {300}
    assert set(trace.output_tokens[early].tolist()) == {7}
    assert np.mean(trace.output_tokens[~early] == 8) == pytest.approx(0.5, abs=0.02)


def test_the_same_seed_draws_the_same(client):
    path = client()
    one, two, other = (traces.load(path, reading=Reading(seed=seed)) for seed in (1, 1, 2))
    assert np.array_equal(one.time_ns, two.time_ns)
    assert np.array_equal(one.input_tokens, two.input_tokens)
    assert not np.array_equal(one.time_ns[:50], other.time_ns[:50])
    assert "seconds 600 .. 4,200 of it (--from, --for), seed 1 (--seed)" in one.notes[0]


def test_multimodal_inputs_add_up(client):
    dataset = {"0": {"text_tokens": "{5: 1.0}", "image_tokens": "{70: 1.0}", "image_count": "{1: 1.0}",
                     "output_tokens": "{1: 1.0}"}}  # fmt: skip
    trace = traces.load(client(dataset=dataset))
    assert set(trace.input_tokens.tolist()) == {75}


@pytest.mark.parametrize(
    ("windows", "dataset", "why"),
    [
        ("0,1,1,Pareto,1,1\n", DATASET, "none of Gamma, Weibull"),
        ("0,1,1,Gamma,0,1\n", DATASET, "must be above 0"),
        ("0,1,1,Gamma,1\n", DATASET, "5 fields"),
        ("0,1,1,Gamma,1,1\n0,1,1,Gamma,1,1\n", DATASET, "trace.csv:2: window 0 s does not come after"),
        ("0,0,0,,0,0\n", DATASET, "no active window"),
        (WINDOWS, "[", "is not JSON"),
        (WINDOWS, "[]", "not an object"),
        (WINDOWS, {"0": {"input_tokens": "__import__('os')", "output_tokens": "{1: 1.0}"}}, "a histogram is not"),
        (WINDOWS, {"0": {"input_tokens": "{1: 0.2}", "output_tokens": "{1: 1.0}"}}, "make 0.2 instead of 1"),
        (WINDOWS, {"0": {"input_tokens": "{-1: 1.0}", "output_tokens": "{1: 1.0}"}}, "not a number of tokens"),
        (WINDOWS, {"0": {"input_tokens": "{1: 'x'}", "output_tokens": "{1: 1.0}"}}, "not a share"),
        (WINDOWS, {"0": {"input_tokens": "{}", "output_tokens": "{}"}}, "no histograms"),
        (WINDOWS, {"x": {"input_tokens": "{}", "output_tokens": "{}"}}, "time 'x'"),
        (WINDOWS, {"0": 5}, "time '0'"),
    ],
)
def test_what_cannot_be_drawn_from(client, windows, dataset, why):
    with pytest.raises(TraceError, match=why):
        traces.load(client(windows, dataset), format_="servegen")


def test_the_data_set_must_be_beside(client):
    path = client()
    path.with_name("chunk-7-dataset.json").unlink()
    with pytest.raises(TraceError, match=r"put chunk-7-dataset\.json beside it"):
        traces.load(path)


def test_an_idle_part_and_a_flood_are_refused(client):
    with pytest.raises(ConfigError, match="no request is drawn between 0 s and 5 s; its first active window begins"):
        traces.load(client(), reading=Reading(start_s=0.0, duration_s=5.0))
    with pytest.raises(ConfigError, match="would be drawn"):
        traces.load(client("0,1e8,1,Gamma,1,1e-8\n600,0,0,,0,0\n"))
    with pytest.raises(ConfigError, match="its gaps are too short"):
        traces.load(client("0,1,1,Gamma,1,1e-8\n600,0,0,,0,0\n"))


def test_real_clients_come_near_their_rates(shared):
    # rate_per_s of the file's first window, beside what is drawn from its distribution.
    for name in ("language__m-large__chunk-57", "multimodal__mm-image__chunk-5", "reason__deepseek-r1__chunk-48"):
        path = shared(f"servegen/{name}-trace.csv")
        rates = [float(line.split(",")[1]) for line in path.read_text().splitlines()[:6]]
        trace = traces.load(path)
        assert len(trace) == pytest.approx(600 * sum(rates), rel=0.25)
