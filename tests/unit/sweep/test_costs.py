"""Forecasts of measurements learn from those that were made."""

import math

import pytest

from pytest_gpuio.sweep.costs import Costs


def costs():
    return Costs(lambda _cell, windows: 1.0 + windows, lambda cell: ["even" if cell % 2 == 0 else "odd", ()])


def test_before_anything_is_known_the_forecast_holds_with_something_to_spare():
    found = costs()
    assert found.expected(0, 3) == 4.0
    assert 4.0 < found.most(0, 3) < 6.0


def test_a_cell_is_known_by_itself_then_by_its_kind_then_by_all():
    found = costs()
    found.learn(0, 3, 8.0)
    assert found.expected(0, 3) == pytest.approx(8.0)
    assert found.expected(0, 7) == pytest.approx(16.0), "more windows take longer in proportion"
    assert found.expected(2, 3) == pytest.approx(8.0), "of its kind"
    assert found.expected(1, 3) == pytest.approx(8.0), "nothing nearer is known"
    found.learn(1, 3, 2.0)
    assert found.expected(3, 3) == pytest.approx(2.0)
    assert found.expected(2, 3) == pytest.approx(8.0)


def test_forecasts_that_turn_out_wrong_are_given_more_room():
    sure, unsure = costs(), costs()
    for turn in range(20):
        sure.learn(0, 3, 4.0)
        unsure.learn(0, 3, 4.0 * math.exp(0.5 * (-1) ** turn))
    assert sure.most(0, 3) < 4.2
    assert unsure.most(0, 3) > 6.0


def test_one_stall_does_not_make_everything_too_long_to_begin():
    found = costs()
    for _ in range(10):
        found.learn(0, 3, 4.0)
    found.learn(2, 3, 4.0)
    found.learn(2, 3, 4000.0)
    assert found.most(0, 3) < 10.0
