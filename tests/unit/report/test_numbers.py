import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_gpuio.report import numbers


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (None, "-"),
        (0, "0"),
        (0.5, "0.5"),
        (7, "7"),
        (950, "950"),
        (999.4, "999"),
        (999.6, "1k"),
        (1_000, "1k"),
        (1_234, "1.23k"),
        (20_000, "20k"),
        (455_123, "455k"),
        (999_900, "1M"),
        (1_200_000, "1.2M"),
        (3.456e9, "3.46G"),
        (2e12, "2T"),
        (1.5e15, "1500T"),
    ],
)
def test_si(value, text):
    assert numbers.si(value) == text


@pytest.mark.parametrize(
    ("ns", "text"),
    [
        (None, "-"),
        (0, "0ns"),
        (1, "1ns"),
        (875, "875ns"),
        (3_214, "3.21us"),
        (210_000, "210us"),
        (999_999, "1ms"),
        (1_200_000, "1.2ms"),
        (4_000_000_000, "4s"),
        (4_398_046_511_104, "4400s"),
    ],
)
def test_duration(ns, text):
    assert numbers.duration(ns) == text


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (None, "-"),
        (0, "0.00"),
        (0.0041, "0.00410"),
        (0.2, "0.200"),
        (1.86, "1.86"),
        (2, "2.00"),
        (9.996, "10.0"),
        (12.34, "12.3"),
        (1234.5, "1230"),
    ],
)
def test_rate(value, text):
    assert numbers.rate(value) == text


def test_cores():
    assert [numbers.cores(value) for value in (None, 0.0, 0.714, 12)] == ["-", "0.00", "0.71", "12.00"]


@given(st.floats(1e-3, 1e13))
def test_si_keeps_three_digits(value):
    text = numbers.si(value)
    factor = {"k": 1e3, "M": 1e6, "G": 1e9, "T": 1e12}.get(text[-1], 1)
    assert float(text.rstrip("kMGT")) * factor == pytest.approx(value, rel=0.00501)
