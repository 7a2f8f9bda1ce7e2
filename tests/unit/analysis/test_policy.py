"""Policies: what a TOML file, a mark and options say."""

import pytest

from pytest_gpuio.analysis.policy import MIN_EFFECT, Policy, from_mark, parse_effect, read_policy, with_effect
from pytest_gpuio.core.errors import ConfigError


@pytest.fixture
def policy(tmp_path):
    def write(text):
        path = tmp_path / "gate.toml"
        path.write_text(text)
        return read_policy(path)

    return write


def test_later_rules_override_earlier_ones(policy, record):
    found = policy("""
[default]
metrics = ["p99"]
min_effect = "4%"
allow = ["kernel"]

[[rule]]
match = {phase = "inference", datapath = "io_uring*"}
metrics = ["bytes_per_s", "p99"]
min_effect = {p99 = "15%"}

[[rule]]
match = {datapath = "psync"}
ignore = true
""")
    terms = found.terms(record())
    assert terms.metrics == ("bytes_per_s", "p99")
    assert (terms.effect("p99"), terms.effect("bytes_per_s")) == (0.15, 0.04)
    assert not terms.ignore
    assert found.terms(record(axes__datapath="psync")).ignore
    assert found.allow == {"kernel"}


def test_without_rules(record):
    terms = Policy().terms(record())
    assert terms.metrics == ("bytes_per_s", "p99", "cpu_s_per_gb")
    assert terms.effect("p99") == MIN_EFFECT
    assert with_effect(Policy(), 0.1).terms(record()).effect("p99") == 0.1


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("[default", "is not TOML"),
        ("[defaults]\n", "unknown key 'defaults'"),
        ("[default]\nmetric = ['p99']\n", "unknown key 'metric'"),
        ("[default]\nmetrics = ['p98']\n", "no metric 'p98'"),
        ("[default]\nmetrics = 'p99'\n", "metrics is a list"),
        ("[default]\nmetrics = []\n", "metrics is a list"),
        ("[default]\nmin_effect = '3'\n", "is no share"),
        ("[default]\nmin_effect = 3\n", "is no share"),
        ("[default]\nmin_effect = {p98 = '3%'}\n", "no metric 'p98'"),
        ("[default]\nallow = ['weather']\n", "nothing named 'weather'"),
        ("[default]\nallow = 'kernel'\n", "allow is a list"),
        ("[[rule]]\nmatch = {path = 'x'}\n", "'path' is no axis"),
        ("[[rule]]\nmatch = 'x'\n", "match is a table"),
        ("[[rule]]\nignore = 1\n", "ignore is true or false"),
        ("rule = 1\n", "[[rule]] for each rule"),
    ],
)
def test_mistakes_are_named(policy, text, told):
    with pytest.raises(ConfigError) as caught:
        policy(text)
    assert told in str(caught.value)


def test_a_missing_file_is_named(tmp_path):
    with pytest.raises(ConfigError, match="cannot be read"):
        read_policy(tmp_path / "none.toml")


@pytest.mark.parametrize(("text", "value"), [("3%", 0.03), ("2.5 %", 0.025), (0.1, 0.1)])
def test_effects(text, value):
    assert parse_effect(text, "here") == pytest.approx(value)


@pytest.mark.parametrize("text", ["0%", "100%", "-3%", "3", "", None, True, 0, 1.0, float("nan"), "3%%"])
def test_no_effects(text):
    with pytest.raises(ConfigError, match="here: min_effect"):
        parse_effect(text, "here")


def test_marks():
    rule = from_mark({"metric": "p99", "min_effect": "10%"})
    assert (rule.metrics, rule.min_effect) == (("p99",), {"p99": 0.1})
    assert from_mark({"min_effect": 0.2}).min_effect == {"*": 0.2}
    for keywords in ({"metrics": "p99"}, {"metric": "p98"}, {"min_effect": 5}, {"ignore": "yes"}):
        with pytest.raises(ConfigError):
            from_mark(keywords)
