"""LRU distances and tiers against caches that are simulated entry by entry, and against published figures."""

from collections import OrderedDict

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pytest_gpuio.core.errors import ConfigError
from pytest_gpuio.phases import traces
from pytest_gpuio.phases.kv_cache import Prefill, Reuse, Tiers
from pytest_gpuio.phases.kv_cache.lru import stack_distances
from pytest_gpuio.phases.kv_cache.tiers import DRAM, HBM, MISS, STORAGE

REFERENCES = st.lists(st.integers(0, 12), max_size=120)
#: Requests as paths in a tree, so that an id stands for all before it: a block is named by its whole prefix.
REQUESTS = st.lists(st.lists(st.integers(0, 2), max_size=6), min_size=1, max_size=30)


def tree(requests):
    names = {}
    return [[names.setdefault(tuple(path[: depth + 1]), len(names)) for depth in range(len(path))] for path in requests]


@settings(deadline=None)
@given(REFERENCES)
def test_distances_count_the_others_in_between(ids):
    expected = []
    for index, block in enumerate(ids):
        earlier = [place for place in range(index) if ids[place] == block]
        expected.append(len(set(ids[earlier[-1] + 1 : index])) if earlier else -1)
    assert stack_distances(np.array(ids, dtype=np.int64)).tolist() == expected


@settings(deadline=None)
@given(REFERENCES, st.integers(0, 14))
def test_an_lru_cache_holds_what_the_distance_says(ids, capacity):
    cache, held = OrderedDict(), []
    for block in ids:
        held.append(block in cache)
        cache[block] = None
        cache.move_to_end(block)
        while len(cache) > capacity:
            cache.popitem(last=False)
    distance = stack_distances(np.array(ids, dtype=np.int64))
    assert ((distance >= 0) & (distance < capacity)).tolist() == held


@settings(deadline=None)
@given(REQUESTS, st.integers(0, 4), st.integers(0, 5), st.none() | st.integers(0, 12))
def test_tiers_against_a_simulation_block_by_block(by_hand, paths, hbm, dram, extra):
    requests = tree(paths)
    storage = None if extra is None else hbm + dram + extra
    top, below, store = OrderedDict(), OrderedDict(), OrderedDict()
    found, written = [], []
    for blocks in requests:
        whole = True
        for block in blocks:
            here = HBM if block in top else DRAM if block in below else STORAGE if block in store else MISS
            whole = whole and here != MISS
            found.append(here if whole else MISS)
            written.append(block not in store)
            # It rises into HBM; what HBM gives up sinks into DRAM, what DRAM gives up is in storage already.
            below.pop(block, None)
            top[block] = store[block] = None
            top.move_to_end(block)
            store.move_to_end(block)
            if len(top) > hbm:
                sunk = top.popitem(last=False)[0]
                below[sunk] = None
                below.move_to_end(sunk)
            if len(below) > dram:
                below.popitem(last=False)
            if storage is not None and len(store) > storage:
                store.popitem(last=False)
    placed = Reuse.of(by_hand(requests)).place(Tiers(hbm, dram, storage))
    assert placed.found.tolist() == found
    assert placed.written.tolist() == written
    assert placed.hits == sum(one != MISS for one in found)
    assert placed.writes == sum(written)


def test_a_gap_in_the_prefix_ends_the_hit(by_hand):
    # Storage of 2 blocks: of request 0 only the last two stay; request 1 finds them, but behind the gap.
    placed = Reuse.of(by_hand([[1, 2, 3], [1, 2, 3]])).place(Tiers(storage=2))
    assert placed.found.tolist() == [MISS] * 6
    assert placed.hit_tokens().tolist() == [0, 0]


def test_new_tokens_are_those_not_found_and_always_the_last(by_hand):
    trace = by_hand([[1, 2], [1, 3], [1, 3], []], tokens=[1000, 700, 700, 0])
    placed = Reuse.of(trace).place(Tiers())
    assert placed.hit_tokens().tolist() == [0, 512, 700, 0]
    assert placed.new_tokens().tolist() == [1000, 188, 1, 0]


# workloads.md 1.3, computed there from the same traces by another program: by capacity in blocks, the share of hits
# that storage serves, bytes read per byte written, and GiB/s read and written for 8B (64 MiB a block) at speed 1.
TABLE = {
    "conversation": {
        0: (1.0, 0.58, 1.87, 3.23),
        1_000: (0.879, 0.51, 1.64, 3.23),
        5_000: (0.699, 0.40, 1.31, 3.23),
        20_000: (0.215, 0.12, 0.40, 3.23),
        50_000: (0.032, 0.02, 0.06, 3.23),
    },
    "synthetic": {
        0: (1.0, 1.77, 4.77, 2.69),
        1_000: (0.871, 1.55, 4.15, 2.69),
        5_000: (0.564, 1.00, 2.69, 2.69),
        20_000: (0.107, 0.19, 0.51, 2.69),
        50_000: (0.0, 0.0, 0.0, 2.69),
    },
}


@pytest.mark.parametrize(("name", "hit_ratio"), [("conversation", 0.366), ("synthetic", 0.640)])
def test_the_published_tier_table(shared, name, hit_ratio):
    trace = traces.load(shared(f"mooncake/{name}_trace.jsonl"))
    reuse = Reuse.of(trace)
    for capacity, (share, ratio, read, written) in TABLE[name].items():
        placed = reuse.place(Tiers(dram=capacity))
        assert placed.hit_ratio == pytest.approx(hit_ratio, abs=0.001)
        gib_s = (64 / 1024) / (trace.span_ns / 1e9)
        # 2 %, or half of the last digit that was published.
        assert placed.storage_share == pytest.approx(share, rel=0.02, abs=0.0005)
        assert placed.blocks(STORAGE) / placed.writes == pytest.approx(ratio, rel=0.02, abs=0.005)
        assert placed.blocks(STORAGE) * gib_s == pytest.approx(read, rel=0.02, abs=0.005)
        assert placed.writes * gib_s == pytest.approx(written, rel=0.02)
        split = reuse.place(Tiers(hbm=capacity // 4, dram=capacity - capacity // 4))
        assert split.blocks(STORAGE) == placed.blocks(STORAGE)
        assert split.blocks(HBM) + split.blocks(DRAM) == placed.blocks(DRAM)


def test_published_reuse_of_the_conversation_trace(shared):
    # workloads.md 1.3: LRU stack distance p10/50/90, requests with more than one hit block, blocks hit in these.
    reuse = Reuse.of(traces.load(shared("mooncake/conversation_trace.jsonl")))
    again = reuse.distance[reuse.distance >= 0]
    for share, value in ((10, 48), (50, 8_356), (90, 31_588)):
        assert np.percentile(again, share) == pytest.approx(value, rel=0.02)
    hits = reuse.place(Tiers()).per_request(reuse.distance >= 0)
    assert np.mean(hits > 1) == pytest.approx(0.387, abs=0.001)
    assert np.percentile(hits[hits > 1], (50, 90, 99)) == pytest.approx([12, 49, 147], abs=1)


def test_tiers_that_cannot_be(by_hand):
    with pytest.raises(ConfigError, match="0 is the least"):
        Tiers(hbm=-1)
    with pytest.raises(ConfigError, match=r"storage of 2 blocks is smaller than the 3 blocks"):
        Tiers(hbm=1, dram=2, storage=2)
    bare = by_hand([[1]])
    with pytest.raises(ConfigError, match="tells no prefix blocks"):
        Reuse.of(traces.RequestTrace(bare.path, "azure", bare.time_ns, bare.input_tokens, bare.output_tokens))


def test_prefill_speed_as_published():
    # workloads.md 5: 40 % of 989 TFLOPS are 24.6 k tokens/s for 8B, 2.8 k a GPU for 70B.
    assert Prefill.of_model(8_030_261_248).tokens_per_s == pytest.approx(24_600, rel=0.005)
    assert Prefill.of_model(70_553_706_496).tokens_per_s == pytest.approx(2_800, rel=0.005)
    assert Prefill.of_model(10**9, gpus=2, mfu=0.5, peak_flops=1e12).tokens_per_s == 500
    assert Prefill(1000.0).ns(np.array([0, 1, 1500])).tolist() == [0, 1_000_000, 1_500_000_000]
    with pytest.raises(ConfigError, match="use a number above 0"):
        Prefill(0.0)
    for wrong in ({"mfu": 1.1}, {"mfu": 0.0}, {"gpus": 0}, {"peak_flops": 0.0}):
        with pytest.raises(ConfigError, match="cannot be"):
            Prefill.of_model(10**9, **wrong)
