"""The label of cuFile's route over all combinations of evidence (our own logic; no machine here has direct storage)."""

import dataclasses
import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_gpuio.datapaths import DATAPATHS, Evidence
from pytest_gpuio.datapaths.cufile_route import DIRECT, CuFileEvidence, find_route
from pytest_gpuio.engine.cufile_counters import CuFileCounters

NONE = CuFileCounters(**{field.name: 0 for field in dataclasses.fields(CuFileCounters)})
WAYS = ("nvfs", "p2p", "posix", "unaligned", "batch_nvfs", "batch_p2p", "batch_aio", "batch_io_uring", "batch_posix",
        "batch_mixed")  # fmt: skip
FELL_BACK = ("posix", "batch_aio", "batch_io_uring", "batch_posix")
PROVED = {"strict": True, "o_direct": True, "device_ratio": 1.0, "nvidia_fs_loaded": True, "nvidia_fs_ops": 8}


def counters(**ways):
    """Counters of a well-behaved library: each way's requests are in the total, too."""
    single = sum(ways.get(way, 0) for way in ("nvfs", "p2p", "posix"))
    batch = sum(n for way, n in ways.items() if way.startswith("batch_") and not way.endswith("_bytes"))
    values = {"total": single, "batch_total": batch, "bytes": 4096 * single, "batch_bytes": 4096 * batch, "gpus": 1}
    return dataclasses.replace(NONE, **(values | ways))


@pytest.mark.parametrize(
    ("found", "route"),
    [
        (counters(nvfs=8), "direct_nvidia_fs"),
        (counters(p2p=8), "direct_p2pdma"),
        (counters(batch_nvfs=8), "direct_nvidia_fs"),
        (counters(batch_p2p=8), "direct_p2pdma"),
        (counters(posix=8), "compat"),
        (counters(batch_aio=8), "compat"),
        (counters(batch_io_uring=8), "compat"),
        (counters(batch_posix=8), "compat"),
        (counters(nvfs=7, posix=1), "mixed"),
        (counters(p2p=7, posix=1), "mixed"),
        (counters(p2p=4, nvfs=4), "mixed"),
        (counters(nvfs=8, unaligned=1), "mixed"),
        (counters(batch_nvfs=7, batch_mixed=1), "mixed"),
        (counters(nvfs=8, bytes=4096 * 7), "unknown"),
        (NONE, "bypassed"),
        (dataclasses.replace(NONE, process_ops=8, gpus=1), "unknown"),
        (dataclasses.replace(NONE, gpus=2), "bypassed"),
        (None, "unknown"),
        (counters(nvfs=8, total=9), "mixed"),
        (counters(nvfs=-8, total=-8), "unknown"),
    ],
)
def test_routes_by_hand(found, route):
    told = find_route(CuFileEvidence(found, moved=8 * 4096, **PROVED))
    assert told.route == route
    assert told.sentences


def test_a_counter_that_ran_backwards_hides_nothing():
    found = find_route(CuFileEvidence(counters(nvfs=8, unaligned=-1, batch_mixed=1), moved=8 * 4096, **PROVED))
    assert (found.route, found.sentences[-1]) == ("unknown", "a counter ran backwards")


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"o_direct": False}, "not known to be open with O_DIRECT"),
        ({"o_direct": None}, "not known to be open with O_DIRECT"),
        ({"device_ratio": 0.9}, "block layer saw 0.900"),
        ({"nvidia_fs_loaded": False}, "nvidia-fs is not loaded"),
        ({"nvidia_fs_ops": 0}, "counted no request"),
    ],
)
def test_any_contradiction_takes_the_direct_label_away(change, words):
    told = find_route(CuFileEvidence(counters(nvfs=8), moved=8 * 4096, **(PROVED | change)))
    assert told.route == "unknown"
    assert words in told.sentences[-1]


def all_evidence():
    """Every combination of what there can be, each way none, one or several requests."""
    flags = itertools.product(
        [True, False, None], [True, False, None], [None, 0.5, 1.0], [True, False, None], [None, 0, 8]
    )
    numbers = [NONE, None]
    for first, second in itertools.combinations_with_replacement(WAYS, 2):
        for n, m in itertools.product((0, 1, 8), repeat=2):
            numbers.append(counters(**({first: n} | ({second: m} if second != first else {}))))
    for (strict, o_direct, ratio, loaded, ops), found in itertools.product(flags, numbers):
        for moved in (4096, 8 * 4096):
            yield CuFileEvidence(found, moved, strict, o_direct, ratio, loaded, ops)


def direct_beyond_doubt(seen):
    """Written the other way round than the code: which requests could NOT have been direct?"""
    found = seen.counters
    if found is None or seen.o_direct is not True or (seen.device_ratio is not None and seen.device_ratio < 0.95):
        return False
    other = [getattr(found, way) for way in (*FELL_BACK, "unaligned", "batch_mixed")]
    by_nvfs, by_p2p = found.nvfs + found.batch_nvfs, found.p2p + found.batch_p2p
    if any(other) or (by_nvfs and by_p2p) or found.bytes + found.batch_bytes < seen.moved:
        return False
    if by_nvfs and (seen.nvidia_fs_loaded is False or seen.nvidia_fs_ops == 0):
        return False
    return by_nvfs + by_p2p == found.total + found.batch_total > 0


def test_every_combination_is_direct_only_beyond_doubt():
    seen_routes = set()
    tried = 0
    for seen in all_evidence():
        tried += 1
        route = find_route(seen).route
        seen_routes.add(route)
        assert (route in DIRECT) == direct_beyond_doubt(seen), seen
        if seen.counters is None:
            assert route == "unknown"
    assert tried > 100_000
    assert seen_routes == {"direct_nvidia_fs", "direct_p2pdma", "compat", "mixed", "bypassed", "unknown"}


EVIDENCE = st.builds(
    CuFileEvidence,
    counters=st.none()
    | st.builds(CuFileCounters, **{f.name: st.integers(-1, 3) for f in dataclasses.fields(CuFileCounters)}),
    moved=st.integers(1, 3),
    strict=st.sampled_from([True, False, None]),
    o_direct=st.sampled_from([True, False, None]),
    device_ratio=st.none() | st.floats(0, 2),
    nvidia_fs_loaded=st.sampled_from([True, False, None]),
    nvidia_fs_ops=st.none() | st.integers(0, 3),
)


@given(EVIDENCE, st.sampled_from(sorted(name for name in DATAPATHS if name.startswith("gds"))))
def test_a_wrong_label_is_impossible(seen, name):
    path = DATAPATHS[name]
    proof = path.prove(Evidence(path.engine, seen.o_direct, seen.device_ratio, 0, frozenset(), cufile=seen))
    label = proof.effective
    if label is not None and not label.startswith("gds_compat"):
        assert label.startswith("gds")
        assert direct_beyond_doubt(seen)
        assert seen.strict is True
    if label is not None and label.startswith("gds_compat"):
        assert sum(getattr(seen.counters, way) for way in FELL_BACK) > 0
        assert seen.counters.nvfs + seen.counters.p2p + seen.counters.batch_nvfs + seen.counters.batch_p2p == 0
    # Whatever was asked for, the same evidence gets the same label.
    twin = DATAPATHS[name.replace("gds_compat", "gds") if "compat" in name else name.replace("gds", "gds_compat")]
    again = twin.prove(Evidence(path.engine, seen.o_direct, seen.device_ratio, 0, frozenset(), cufile=seen))
    assert (again.effective, again.route) == (label, proof.route)


@given(EVIDENCE, st.sampled_from((*FELL_BACK, "unaligned", "batch_mixed")))
def test_one_request_that_fell_back_is_enough(seen, way):
    if seen.counters is None:
        return
    more = dataclasses.replace(seen.counters, **{way: max(getattr(seen.counters, way), 0) + 1})
    assert find_route(dataclasses.replace(seen, counters=more)).route not in DIRECT


def test_cufile_that_was_not_there_proves_nothing():
    for name in ("gds", "gds_compat", "gds_batch", "gds_compat_batch"):
        path = DATAPATHS[name]
        assert path.prove(Evidence(path.engine, True, 1.0, 0, frozenset())).effective is None
