"""Record models in the registry: parameters, their spelling, and what selection makes of them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_gpuio.core.errors import ConfigError
from pytest_gpuio.phases import Parameter, RecordModel, get, match, register, registry
from pytest_gpuio.phases.files import Files
from pytest_gpuio.phases.parameter import parse_pairs, spell
from pytest_gpuio.phases.records import Records

PARAMETERS = (
    Parameter("model", "llama-3.1-8b", "architecture", choices=("llama-3.1-8b", "llama-3.1-70b")),
    Parameter("ranks", 2, "processes", least=1, most=64),
    Parameter("pause_s", 0.5, "seconds between two", least=0),
    Parameter("sync", True, "fsync at the end"),
)


def few_reads(values: Mapping[str, Any]) -> Records:
    n = int(10 * values["ranks"])
    files = Files.of({"a": max(int((1 << 20) * values["scale"]), 4096 * n)})
    return Records.build(files, offset=np.arange(n) * 4096, length=4096)


def a_model(**changed: Any) -> RecordModel:
    given = {
        "name": "inference/example",
        "title": "An example.",
        "source": "this test",
        "build": few_reads,
        "deciding": "completion",
        "parameters": PARAMETERS,
        "scale": 0.5,
    }
    return RecordModel(**(given | changed))


@pytest.fixture
def registered(monkeypatch: pytest.MonkeyPatch) -> RecordModel:
    monkeypatch.setattr(registry, "_registry", dict(registry._registry))
    model = a_model()
    register(model)
    return model


def test_defaults_leave_the_spelling_alone() -> None:
    model = a_model().with_values({"ranks": 2, "scale": "0.5"})
    assert model.spelling == "inference/example"
    assert model.values == {"model": "llama-3.1-8b", "ranks": 2, "pause_s": 0.5, "sync": True, "scale": 0.5, "seed": 1}


def test_chosen_values_are_spelled_in_the_order_of_the_parameters() -> None:
    model = a_model().with_values({"scale": 0.25, "sync": "off", "model": "llama-3.1-70b"}).with_values({"ranks": 8})
    assert model.spelling == "inference/example[model=llama-3.1-70b,ranks=8,sync=off,scale=0.25]"
    assert len(model.records()) == 80


def test_a_spelling_finds_the_same_model_again(registered: RecordModel) -> None:
    chosen = registered.with_values({"ranks": 8, "pause_s": 1.25})
    assert get(chosen.spelling) == chosen
    assert match(["inference/exam*[ranks=8,pause_s=1.25]", chosen.spelling]) == (chosen,)
    assert match(["inference/example", "inference/example[ranks=3]"]) == (
        registered,
        registered.with_values({"ranks": 3}),
    )


@pytest.mark.parametrize(
    ("spelling", "words"),
    [
        ("inference/example[rank=8]", "has no parameter rank: it has model, pause_s, ranks"),
        ("inference/example[ranks=0]", "ranks=0 is outside 1 .. 64"),
        ("inference/example[ranks=1.5]", "is not a whole number"),
        ("inference/example[pause_s=-1]", "pause_s=-1 is outside 0"),
        ("inference/example[pause_s=nan]", "is not a number"),
        ("inference/example[sync=yes]", "write on or off"),
        ("inference/example[model=gpt]", "is none of llama-3.1-8b"),
        ("inference/example[ranks=8", "parameters end with"),
        ("inference/example[ranks=8,ranks=9]", "given twice"),
        ("inference/example[ranks=8,x]", "'x' is no parameter"),
        ("inference/nothing[ranks=8]", "'inference/nothing' is unknown"),
        ("micro/randread[ranks=8]", "generated stream and has no parameters"),
    ],
)
def test_a_wrong_spelling_is_refused_by_name(registered: RecordModel, spelling: str, words: str) -> None:
    with pytest.raises(ConfigError, match=words):
        get(spelling)


@pytest.mark.parametrize(
    ("changed", "words"),
    [
        ({"name": "example"}, "malformed"),
        ({"title": " "}, "has no title"),
        ({"source": ""}, "has no source"),
        ({"bs": 1000}, "not a multiple of 512"),
        ({"qd": 0}, "at least 1"),
        ({"deciding": "luck"}, "'luck' is none of"),
        ({"concurrency": -1}, "-1 chains"),
        ({"parameters": (PARAMETERS[0], PARAMETERS[0])}, "two parameters of one name"),
        ({"parameters": (Parameter("scale", 1.0, "mine"),)}, "two parameters of one name"),
    ],
)
def test_a_model_that_no_cell_could_be_made_of_is_refused(changed: dict[str, Any], words: str) -> None:
    with pytest.raises(ConfigError, match=words):
        a_model(**changed)


def test_a_parameter_refuses_a_default_of_its_own() -> None:
    with pytest.raises(ConfigError, match="outside"):
        Parameter("n", 0, "count", least=1)
    with pytest.raises(ConfigError, match="malformed"):
        Parameter("N", 0, "count")
    with pytest.raises(ConfigError, match="a value like 0"):
        Parameter("n", 0, "count").check("word")


@given(st.one_of(st.integers(-(10**15), 10**15), st.floats(-1e9, 1e9, allow_subnormal=False), st.booleans()))
def test_a_value_survives_its_spelling(value: float | bool) -> None:
    parameter = Parameter("x", value, "anything")
    back = parameter.parse(spell(value))
    assert type(back) is type(value)
    assert back == pytest.approx(value, rel=1e-11, abs=1e-300)


@given(st.text(max_size=30))
def test_any_text_is_pairs_or_refused(text: str) -> None:
    try:
        pairs = parse_pairs(text)
    except ConfigError:
        return
    assert all(name and value for name, value in pairs.items())
