"""Parts, speed, jitter and larger blocks of request traces."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pytest_gpuio.core.errors import ConfigError
from pytest_gpuio.phases import traces
from pytest_gpuio.phases.traces import RequestTrace

SECOND = 1_000_000_000


def trace_of(times, requests=None, block_tokens=16):
    requests = requests or [[index] for index in range(len(times))]
    sizes = [len(blocks) for blocks in requests]
    return RequestTrace(
        "by-hand",
        "mooncake",
        np.array(times, dtype=np.int64),
        np.array(sizes, dtype=np.int64) * block_tokens,
        np.ones(len(times), dtype=np.int64),
        np.array([block for blocks in requests for block in blocks], dtype=np.int64),
        np.concatenate(([0], np.cumsum(sizes))).astype(np.int64),
        block_tokens,
    )


def test_parts_by_number_and_time():
    trace = trace_of([0, SECOND, 2 * SECOND, 5 * SECOND], [[1], [2, 3], [], [4]])
    part = trace.cut(1, 2)
    assert part.time_ns.tolist() == [0, SECOND]
    assert (part.block_ids.tolist(), part.block_start.tolist()) == ([2, 3], [0, 2, 2])
    assert trace.between(0.5, 1.5).time_ns.tolist() == [0]
    assert trace.between(1.0).block_ids.tolist() == [2, 3, 4]
    assert trace.cut() is trace
    assert trace.scaled(2.0).time_ns.tolist() == [0, SECOND // 2, SECOND, 5 * SECOND // 2]
    for wrong in (
        lambda: trace.cut(4),
        lambda: trace.cut(0, 0),
        lambda: trace.between(6.0),
        lambda: trace.between(2.5, 1),
    ):
        with pytest.raises(ConfigError, match="nothing of by-hand's requests"):
            wrong()
    with pytest.raises(ConfigError, match="speed 0 is outside"):
        trace.scaled(0.0)


def test_quantised_stamps_are_found_and_spread(shared):
    for name, quantum in (("conversation", 3 * SECOND), ("synthetic", 0)):
        trace = traces.load(shared(f"mooncake/{name}_trace.jsonl"))
        assert trace.quantum_ns() == quantum
    # workloads.md 1.3: 1,180 stamps of 2-28 requests each; spread, neighbours are a third of a second apart.
    trace = traces.load(shared("mooncake/conversation_trace.jsonl"))
    spread = trace.jittered(7)
    moved = spread.time_ns - trace.time_ns
    assert moved.min() >= 0
    assert moved.max() < 3.01 * SECOND
    assert moved.mean() == pytest.approx(1.5 * SECOND, rel=0.02)
    assert np.all(np.diff(spread.time_ns) >= 0)
    gaps = np.diff(spread.time_ns)
    assert gaps.std() / gaps.mean() < 1.2  # 3.03 before
    assert np.array_equal(spread.time_ns, trace.jittered(7).time_ns)
    assert not np.array_equal(spread.time_ns, trace.jittered(8).time_ns)
    assert "stamps are 3 s apart" in spread.notes[-1]


@given(st.lists(st.integers(0, 20), min_size=3, max_size=60), st.integers(1, 5), st.integers(0, 2**32))
@settings(deadline=None)
def test_spread_requests_keep_their_order_and_their_step(steps, quantum_s, seed):
    trace = trace_of(sorted(step * quantum_s * SECOND for step in steps))
    spread = trace.jittered(seed, quantum_s * SECOND)
    assert np.all(np.diff(spread.time_ns) >= 0)
    assert np.array_equal(spread.time_ns // (quantum_s * SECOND), trace.time_ns // (quantum_s * SECOND))


def test_what_is_not_quantised_stays():
    assert trace_of([0, 7, SECOND, 4 * SECOND]).quantum_ns() == 0
    assert trace_of([0, 0, 0]).quantum_ns() == 0
    trace = trace_of([0, SECOND])
    assert trace.jittered(1) is trace


@given(st.lists(st.lists(st.integers(0, 1), max_size=9), min_size=1, max_size=12), st.integers(1, 4))
@settings(deadline=None)
def test_larger_blocks_are_the_same_prefixes(paths, factor):
    names = {}
    requests = [[names.setdefault(tuple(path[: k + 1]), len(names)) for k in range(len(path))] for path in paths]
    large = trace_of(list(range(len(paths))), requests).regrouped(16 * factor)
    assert large.block_tokens == 16 * factor
    for index, path in enumerate(paths):
        blocks = large.block_ids[large.block_start[index] : large.block_start[index + 1]].tolist()
        pieces = [tuple(path[: (k + 1) * factor]) for k in range(-(-len(path) // factor))]
        assert blocks == [names[piece] for piece in pieces]


def test_blocks_that_do_not_fit():
    with pytest.raises(ConfigError, match="blocks of 40 tokens cannot be made of blocks of 16"):
        trace_of([0]).regrouped(40)
    bare = RequestTrace("x", "azure", *(np.zeros(1, dtype=np.int64) for _ in range(3)))
    with pytest.raises(ConfigError, match="x tells no prefix blocks"):
        bare.regrouped(16)
