"""The grammar of sizes, durations and percentages."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_gpuio.core.errors import ConfigError
from pytest_gpuio.core.sizes import GRAMMAR, describe_size, format_size, parse_duration, parse_percent, parse_size

# Written out by hand from the documented grammar; nothing here is computed with the code under test.
SIZES = {
    "1": 1,
    "512": 512,
    "4b": 4,
    "4k": 4096,
    "4K": 4096,
    "4Ki": 4096,
    "4ki": 4096,
    "4KiB": 4096,
    "4kib": 4096,
    "4KB": 4000,
    "4kB": 4000,
    "4kb": 4000,
    " 64 k ": 65536,
    "1.5k": 1536,
    "0.5KiB": 512,
    "1.5KB": 1500,
    "1m": 1048576,
    "1MiB": 1048576,
    "1MB": 1000000,
    "2g": 2147483648,
    "2GB": 2000000000,
    "1T": 1099511627776,
    "1TB": 1000000000000,
    "0.001KB": 1,
    "0004k": 4096,
}


@pytest.mark.parametrize(("text", "value"), SIZES.items())
def test_a3_the_documented_grammar(text, value):
    assert parse_size(text) == value


@pytest.mark.parametrize(
    "text",
    [
        "",
        " ",
        "k",
        "4x",
        "4kk",
        "4 k b",
        "-4k",
        "+4k",
        "4k,8k",
        "1e3",
        "0x10",
        "4,096",
        "1.k",
        ".5k",
        "٤k",
        "4p",
        "nan",
        "inf",
    ],
)
def test_what_is_no_size_is_refused_with_the_grammar(text):
    with pytest.raises(ConfigError, match=re.escape(f"{text!r} is not a size. Write it as: {GRAMMAR}")):
        parse_size(text)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("0", "must be above zero"),
        ("0k", "must be above zero"),
        ("0.0", "must be above zero"),
        ("1.5", "not a whole number of bytes"),
        ("0.3k", "not a whole number of bytes"),
        ("4i", "has no prefix before 'i'"),
        ("4iB", "has no prefix before 'i'"),
    ],
)
def test_refusals(text, message):
    with pytest.raises(ConfigError, match=f"^block size {text!r} .*{message}"):
        parse_size(text, what="block size")


@pytest.mark.parametrize("text", ["9" * 5000, "1." + "0" * 5000 + "k"])
def test_absurdly_long_numbers_are_refused_by_name(text):
    for parse in (parse_size, parse_duration, parse_percent):
        with pytest.raises(ConfigError):
            parse(text)


@given(st.integers(1, 2**80))
def test_what_is_shown_reads_back(value):
    assert parse_size(format_size(value)) == value


@given(st.integers(1, 10**6), st.sampled_from("kmgt"))
def test_shown_is_the_shortest_spelling(number, prefix):
    value = number * 1024 ** ("kmgt".index(prefix) + 1)
    assert len(format_size(value)) <= len(f"{number}{prefix}")


@given(st.text(max_size=30))
def test_any_text_is_a_size_or_a_named_error(text):
    try:
        value = parse_size(text)
    except ConfigError:
        return
    assert value > 0


def test_shown_to_people():
    assert format_size(1536 * 1024) == "1536k"
    assert format_size(1000) == "1000"
    assert describe_size(65536) == "64k (65,536 bytes)"
    assert describe_size(4000) == "4,000 bytes"


@pytest.mark.parametrize(
    ("text", "seconds"),
    [("90", 90), ("90s", 90), ("1.5m", 90), ("250ms", 0.25), ("500us", 0.0005), ("1h", 3600), (" 2 S ", 2)],
)
def test_durations(text, seconds):
    assert parse_duration(text) == seconds


@pytest.mark.parametrize("text", ["", "s", "1d", "-1s", "1 m s", "1e3", "inf", "0", "0s", "0.0ms"])
def test_durations_refused(text):
    with pytest.raises(ConfigError, match=r"^budget .*(is not a duration|must be above zero)"):
        parse_duration(text, what="budget")


@pytest.mark.parametrize(("text", "fraction"), [("2%", 0.02), ("2.5 %", 0.025), ("0.02", 0.02), (" 99% ", 0.99)])
def test_percentages(text, fraction):
    assert parse_percent(text) == pytest.approx(fraction)


@pytest.mark.parametrize("text", ["", "%", "0", "0%", "100%", "1", "2", "-1%", "nan", "two"])
def test_percentages_refused(text):
    with pytest.raises(ConfigError, match=r"^precision .*(is not a percentage|must be above 0% and below 100%)"):
        parse_percent(text, what="precision")
