"""How long windows are: the profile's, what a short budget leaves of them, or what the user asked for."""

from pathlib import Path

import pytest

from pytest_gpuio.measure import settings
from pytest_gpuio.measure.effort import effort_of, least_window


def effort(**options):
    texts = {name.replace("_", "-"): text for name, text in options.items()}
    return effort_of(settings.read(texts.get, Path("/")))


@pytest.mark.parametrize(
    ("options", "window_s", "least_s"),
    [
        ({}, 0.25, 0.1),
        ({"profile": "thorough"}, 0.5, 0.1),
        ({"max_time": "200ms"}, 0.2, 0.1),
        ({"max_time": "10ms"}, 0.15, 0.1),  # fewer windows, not shorter ones
        ({"max_time": "10ms", "window": "1s"}, 1.0, 0.1),
        ({"window": "30ms"}, 0.03, 0.02),
        ({"window": "5ms", "profile": "standard"}, 0.005, 0.005 * 2 / 3),
    ],
)
def test_length(options, window_s, least_s):
    made = effort(**options)
    assert (made.window_s, made.least_window_s) == (pytest.approx(window_s), pytest.approx(least_s))


def test_windows_that_shrink_by_a_third_are_believed():
    assert least_window(0.06) == pytest.approx(0.04)
    assert least_window(60.0) == 0.1
