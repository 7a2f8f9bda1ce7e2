"""The gate's promise, kept on simulated hosts with fixed seeds (`gpuio gate --simulate 5000` tries more)."""

import pytest

from pytest_gpuio.analysis.simulation import Situation, try_rules


@pytest.mark.parametrize(
    ("mode", "rounds", "trials"), [("pairs", 20, 1000), ("pairs", 1, 1000), ("lookback", 20, 250), ("lookback", 1, 250)]
)
def test_false_alarms_and_power(mode, rounds, trials):
    for noise in (0.02, 0.04):
        unchanged = try_rules(Situation(mode, noise, 0.0, rounds), trials)
        assert unchanged.slower <= 0.002
        assert unchanged.faster <= 0.002
    assert try_rules(Situation(mode, 0.02, 0.05, rounds), trials // 4).slower >= 0.95
    assert try_rules(Situation(mode, 0.04, 0.10, rounds), trials // 2).slower >= 0.98


def test_improvements_are_found_as_well():
    assert try_rules(Situation("pairs", 0.02, -0.05), 100).faster >= 0.9


def test_the_same_seed_gives_the_same_rates():
    situation = Situation("pairs", 0.04, 0.05)
    assert try_rules(situation, 40, seed=3) == try_rules(situation, 40, seed=3)
