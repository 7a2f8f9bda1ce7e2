"""Metrics of the golden record, by hand."""

import math

import pytest

from pytest_gpuio.analysis.metrics import DEFAULT_METRICS, METRICS, default_metrics, metric
from pytest_gpuio.analysis.policy import Policy
from pytest_gpuio.core.errors import ConfigError


def test_values_of_the_golden_record(record):
    cell = record()
    cell["windows"]["seconds"] = [0.25, 0.25, 0.125, 0.375]
    assert list(metric("seconds_per_io").values(cell)) == [5e-5, 5e-5, 2.5e-5, 7.5e-5]
    assert metric("bytes_per_s").values(cell)[0] == pytest.approx(65536 / 5e-5)
    assert metric("p99").values(cell) == [2007039]
    assert metric("cpu_s_per_gb").values(cell)[0] == pytest.approx(0.5 / 1.31072)
    assert {name for name, one in METRICS.items() if one.better == "higher"} == {"bytes_per_s", "utilization"}


def test_an_open_loop_is_judged_by_the_response(record):
    cell = record(open_loop={"response": {"p99_ns": 5}})
    assert metric("p99").logs(cell) == (math.log(5),)


def test_an_unknown_metric_is_named():
    with pytest.raises(ConfigError, match="choose from bytes_per_s"):
        metric("speed")


@pytest.mark.parametrize("broken", [{}, {"windows": {"seconds": []}}, {"windows": None}])
def test_broken_records_have_no_logs(broken):
    assert metric("seconds_per_io").logs(broken) == ()


@pytest.mark.parametrize(
    ("name", "better", "value"),
    [
        ("utilization", "higher", 0.93), ("durable", "lower", 4.2), ("resident", "lower", 9.0),
        ("completion_p99", "lower", 0.02),
    ],
)  # fmt: skip
def test_what_decides_for_a_model_is_a_metric_and_judged_by_default(record, name, better, value):
    cell = record()
    assert default_metrics(cell) == DEFAULT_METRICS
    assert metric(name).logs(cell) == ()
    cell["replay"] = {"deciding": {"metric": name, "value": value, "unit": metric(name).unit, "better": better}}
    assert metric(name).better == better
    assert metric(name).logs(cell) == (math.log(value),)
    assert default_metrics(cell) == (*DEFAULT_METRICS, name)
    assert Policy().terms(cell).metrics == (*DEFAULT_METRICS, name)


def test_a_stall_of_zero_is_never_missing(record):
    cell = record()
    cell["replay"] = {"deciding": {"metric": "stall", "value": 0.0, "unit": "s", "better": "lower"}}
    assert default_metrics(cell) == DEFAULT_METRICS
