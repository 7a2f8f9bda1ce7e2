import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_gpuio.core.errors import ConfigError
from pytest_gpuio.phases import Durability

durabilities = st.one_of(
    st.sampled_from(["none", "fsync", "dsync"]).map(Durability),
    st.integers(1, 2**32 - 1).map(lambda every: Durability("fdatasync", every)),
)


@given(durabilities)
def test_spelling_reads_back(durability):
    assert Durability.parse(str(durability)) == durability


@pytest.mark.parametrize(
    ("text", "mode", "every"),
    [("none", "none", 0), ("fsync", "fsync", 0), ("dsync", "dsync", 0), ("fdatasync32", "fdatasync", 32)],
)
def test_spellings(text, mode, every):
    assert Durability.parse(text) == Durability(mode, every)


@given(st.text(max_size=12))
def test_any_text_is_read_exactly_or_refused(text):
    try:
        durability = Durability.parse(text)
    except ConfigError:
        return
    assert str(durability) == text


@pytest.mark.parametrize(
    "text",
    ["", "fdatasync", "fdatasync0", "fdatasync-1", "fdatasync032", "fdatasync4294967296", "FSYNC", "fsync ", "sync"],
)
def test_refused_spellings(text):
    with pytest.raises(ConfigError, match="durability"):
        Durability.parse(text)


@pytest.mark.parametrize(("mode", "every"), [("fdatasync", 0), ("fsync", 3), ("none", 1), ("osync", 0)])
def test_refused_values(mode, every):
    with pytest.raises(ConfigError, match="durability"):
        Durability(mode, every)
