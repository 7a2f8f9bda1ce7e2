"""The gate's promise, kept on simulated hosts with fixed seeds (`gpuio gate --simulate 5000` tries more)."""

import pytest

from pytest_gpuio.analysis.metrics import DEFAULT_METRICS
from pytest_gpuio.analysis.simulation import SITUATIONS, Situation, try_rules

MODES = ("pairs", "lookback")


@pytest.mark.parametrize("noise", [0.02, 0.04])
@pytest.mark.parametrize("metric", DEFAULT_METRICS)
@pytest.mark.parametrize("mode", MODES)
def test_an_unchanged_case_raises_hardly_ever_an_alarm(mode, metric, noise):
    unchanged = try_rules(Situation(mode, metric, noise, 0.0), 1000)
    assert unchanged.slower <= 0.002
    assert unchanged.faster <= 0.002


@pytest.mark.parametrize(("noise", "change", "power"), [(0.02, 0.05, 0.95), (0.04, 0.10, 0.99)])
@pytest.mark.parametrize("metric", DEFAULT_METRICS)
@pytest.mark.parametrize("mode", MODES)
def test_a_change_is_found(mode, metric, noise, change, power):
    assert try_rules(Situation(mode, metric, noise, change), 300).slower >= power


@pytest.mark.parametrize("metric", DEFAULT_METRICS)
def test_improvements_are_found_as_well(metric):
    assert try_rules(Situation("pairs", metric, 0.02, -0.05), 100).faster >= 0.9


def test_the_same_seed_gives_the_same_rates():
    situation = Situation("pairs", "p99", 0.04, 0.05)
    assert try_rules(situation, 40, seed=3) == try_rules(situation, 40, seed=3)


def test_every_metric_judged_by_default_is_tried_in_both_modes():
    assert {(one.mode, one.metric) for one in SITUATIONS} == {(m, name) for m in MODES for name in DEFAULT_METRICS}
