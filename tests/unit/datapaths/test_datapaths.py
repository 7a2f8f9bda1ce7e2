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
    engine=st.sampled_from(["null", "psync", "libaio", "io_uring", "dax", "usrbio", "something"]),
    facts=st.just("rings=1"),
    dax=st.just(True),
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


@pytest.mark.parametrize(
    ("interrupts", "effective", "told"),
    [
        (0, "io_uring_iopoll", "the target interrupted 0 times for 1,000 requests: polled"),
        (100, "io_uring_iopoll", "the target interrupted 100 times for 1,000 requests: polled"),
        (101, "io_uring", "the target interrupted 101 times for 1,000 requests: not polled"),
        (None, "io_uring_iopoll", "interrupts of the target are unknown"),
    ],
)
def test_polling_is_told_from_the_target_s_interrupts(interrupts, effective, told):
    seen = Evidence("io_uring_iopoll", True, 1.0, 0, frozenset(), ios=1000, interrupts=interrupts)
    proof = datapaths.get("io_uring_iopoll").prove(seen)
    assert (proof.effective, proof.sentences[-1]) == (effective, told)


def test_a_submission_poller_is_proved_by_its_thread():
    seen = Evidence("io_uring_sqpoll", True, 1.0, 0, frozenset())
    assert datapaths.get("io_uring_sqpoll").prove(seen).effective == "io_uring"
    seen = dataclasses.replace(seen, helper_threads=("iou-sqp",))
    assert datapaths.get("io_uring_sqpoll").prove(seen).effective == "io_uring_sqpoll"


@pytest.mark.parametrize("engine", ["dax", "mmap", "psync"])
@pytest.mark.parametrize("dax", [True, False, None])
@pytest.mark.parametrize("map_sync", [True, False, None])
def test_a_map_without_dax_is_never_called_dax(engine, dax, map_sync):
    seen = Evidence(engine, None, None, None, frozenset(), facts="flush=clwb", dax=dax, map_sync=map_sync)
    proof = datapaths.get("dax").prove(seen)
    assert (proof.effective == "dax") == (engine == "dax" and (dax is True or map_sync is True))
    assert proof.effective in ({"dax", "mmap"} if engine == "dax" else {None})
    assert f"engine {engine} (flush=clwb)" in proof.sentences


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
