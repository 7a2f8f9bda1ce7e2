import dataclasses

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_gpuio import datapaths
from pytest_gpuio.capabilities import CAPABILITIES
from pytest_gpuio.core.errors import ConfigError
from pytest_gpuio.datapaths import DATAPATHS, Evidence

EVIDENCE = st.builds(
    Evidence,
    engine=st.sampled_from(["null", "psync", "libaio", "io_uring", "something"]),
    direct=st.sampled_from([True, False, None]),
    device_ratio=st.none() | st.floats(0, 2),
    resident_growth=st.none() | st.integers(0, 1 << 40),
    knobs=st.frozensets(st.sampled_from(["fixed_buffers", "merged_wait"])),
    helper_threads=st.just(()),
)


@given(EVIDENCE, st.sampled_from(sorted(DATAPATHS)))
def test_a_path_is_proved_only_by_its_own_engine(evidence, name):
    path = DATAPATHS[name]
    proof = path.prove(evidence)
    assert proof.effective == (name if evidence.engine == path.engine else None)
    assert proof.sentences


def test_buffered_io_is_told():
    proof = datapaths.get("psync").prove(Evidence("psync", False, None, 4096, frozenset()))
    assert "buffered: O_DIRECT is not set" in proof.sentences
    assert "the page cache of the region grew by 4,096 bytes" in proof.sentences


def test_every_need_is_a_capability():
    assert {need for path in DATAPATHS.values() for need in path.needs} <= set(CAPABILITIES)


def test_unknown_name_offers_near_ones():
    with pytest.raises(ConfigError, match="did you mean io_uring"):
        datapaths.get("iouring")
    with pytest.raises(ConfigError, match="known: null, psync"):
        datapaths.get("zzz")


def test_registering_twice_the_same_is_harmless_and_another_of_that_name_is_refused():
    datapaths.register(DATAPATHS["psync"])
    with pytest.raises(ConfigError, match="registered twice"):
        datapaths.register(dataclasses.replace(DATAPATHS["psync"], title="another"))
    with pytest.raises(ConfigError, match="lower-case"):
        datapaths.register(dataclasses.replace(DATAPATHS["psync"], name="Psync-2"))
