"""From placed blocks to I/O records: pieces by hand, totals by properties, layers as chains."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pytest_gpuio.core.errors import ConfigError
from pytest_gpuio.phases import traces
from pytest_gpuio.phases.kv_cache import GRANULARITIES, Layout, Prefill, Traffic
from pytest_gpuio.phases.kv_cache import traffic as traffic_module
from pytest_gpuio.phases.models import KvGeometry, find, kv_geometry
from pytest_gpuio.phases.records import FSYNC, READ, WRITE

#: 2 layers of 2 regions of 64 bytes: 256 bytes a token; a 16-token block is 4 KiB, a fragment 1 KiB.
SMALL = KvGeometry(layers=2, regions=2, region_bytes=64)
SPEED = Prefill(1000.0)  # a token a millisecond
KIB = 1024


def rows(expanded):
    records = expanded.records
    return [
        (int(group), ("r", "w", "f")[op], int(offset), int(length))
        for group, op, offset, length in zip(records.group, records.op, records.offset, records.length, strict=True)
    ]


def traffic(trace, granularity, **changes):
    sizes = {name: changes.pop(name) for name in ("hbm_bytes", "dram_bytes", "storage_bytes") if name in changes}
    return Traffic.of(trace, Layout(SMALL, granularity, **changes), SPEED, **sizes)


def test_pages_by_hand(by_hand):
    expanded = traffic(by_hand([[7, 8], [7, 9]]), "page512").records()
    page = 128 * KIB
    # Request 0 writes two pages after 1,024 ms of prefill; request 1 arrives at 1,000 ms, reads one, writes another.
    assert rows(expanded) == [(0, "r", 0, page), (1, "w", 0, page), (1, "w", page, page), (2, "w", 2 * page, page)]
    assert expanded.records.time_ns.tolist() == [1_000_000_000, 1_024_000_000, 1_512_000_000]
    assert expanded.request.tolist() == [1, 0, 1]
    assert expanded.stage.tolist() == [0, 1, 1]
    assert expanded.prefill_ns.tolist() == [512_000_000, 1_024_000_000, 512_000_000]
    assert expanded.records.files.sizes.tolist() == [3 * page]


def test_blocks_stop_where_the_prompt_does(by_hand):
    expanded = traffic(by_hand([[7]], tokens=[33]), "block").records()
    assert rows(expanded) == [(0, "w", 0, 4096), (0, "w", 4096, 4096), (0, "w", 8192, 4096)]


def test_chunks_have_a_header_that_is_written_only(by_hand):
    expanded = traffic(by_hand([[7], [7]]), "chunk").records()
    stride = 4096 + 64 * KIB
    writes = [(1, "w", 0, 4096), (1, "w", 4096, 64 * KIB), (1, "w", stride, 4096), (1, "w", stride + 4096, 64 * KIB)]
    # The second request reads at 1 s what the first has written at 0.512 s.
    reads = [(1, "r", 4096, 64 * KIB), (1, "r", stride + 4096, 64 * KIB)]
    assert rows(expanded) == [(0, *write[1:]) for write in writes] + reads


def test_fragments_go_plane_by_plane(by_hand):
    expanded = traffic(by_hand([[7]], tokens=[32]), "fragment").records()
    # 32 places in each of 4 planes (2 layers of keys and values); places are 4 KiB apart.
    plane = 32 * 4096
    assert rows(expanded) == [(0, "w", index * plane + place * 4096, 1024) for index in range(4) for place in (0, 1)]


def test_an_object_is_its_writers_whole_sequence(by_hand):
    trace = by_hand([[1, 2], [1, 3], [1, 3]], tokens=[1024, 600, 600])
    expanded = traffic(trace, "object").records()
    first, second = 1024 * 256, 600 * 256
    base = 260 * KIB  # 128 + 256 KiB, to a multiple of 4 KiB
    by_request = {}
    for group, op, offset, length in rows(expanded):
        by_request.setdefault(int(expanded.request[group]), []).append((op, offset, length))
    assert by_request == {
        0: [("w", 0, 128), ("w", 128, first)],
        # It reads the object of request 0 whole, as MLPerf does, and writes its own.
        1: [("r", 0, 128), ("r", 128, first), ("w", base, 128), ("w", base + 128, second)],
        # All of it is found in the object of request 1; nothing is new.
        2: [("r", base, 128), ("r", base + 128, second)],
    }


def test_layer_wise_reads_are_a_chain_of_layers(by_hand):
    expanded = traffic(by_hand([[7], [7]]), "page512", layer_wise=True).records()
    half = 64 * KIB
    assert rows(expanded) == [(0, "w", 0, half), (0, "w", half, half), (1, "r", 0, half), (2, "r", half, half)]
    records = expanded.records
    assert records.time_ns.tolist() == [512_000_000, 1_000_000_000, 1_000_000_000]
    assert records.chain.tolist() == [0, 1, 1]
    assert records.prefetch.tolist() == [0, 2]
    # Only the last token is computed: 1 ms over two layers.
    assert records.compute_ns.tolist() == [0, 500_000, 500_000]


def test_syncs_end_each_requests_writes(by_hand):
    expanded = traffic(by_hand([[7], [8]]), "page512", fsync=True).records()
    assert [row[:2] for row in rows(expanded)] == [(0, "w"), (0, "f"), (1, "w"), (1, "f")]
    assert int((expanded.records.op == FSYNC).sum()) == 2


def test_random_places_are_a_permutation(by_hand):
    trace = by_hand([[block] for block in range(64)])
    append, one, other, same = (
        traffic(trace, "page512", placing=placing, seed=seed).records().records.offset
        for placing, seed in (("append", 1), ("random", 1), ("random", 2), ("random", 1))
    )
    assert append.tolist() == sorted(append.tolist())
    assert sorted(one.tolist()) == append.tolist()
    assert one.tolist() not in (append.tolist(), other.tolist())
    assert one.tolist() == same.tolist()


def test_a_small_file_is_used_again(by_hand):
    expanded = traffic(by_hand([[1], [2], [3]]), "page512", capacity=300 * KIB).records()
    assert expanded.records.offset.tolist() == [0, 128 * KIB, 0]
    assert expanded.records.files.sizes.tolist() == [256 * KIB]
    objects = traffic(by_hand([[1], [2], [3]]), "object", capacity=300 * KIB).records()
    assert objects.records.offset.tolist() == [0, 128, 132 * KIB, 132 * KIB + 128, 0, 128]
    with pytest.raises(ConfigError, match="no room for one page of 512 tokens"):
        traffic(by_hand([[1]]), "page512", capacity=100 * KIB).records()
    with pytest.raises(ConfigError, match="no room for the largest object"):
        traffic(by_hand([[1]]), "object", capacity=100 * KIB).records()


def test_part_of_the_requests_keeps_what_came_before(by_hand):
    whole = traffic(by_hand([[7, 8], [7, 9], [7, 8]]), "page512")
    part = whole.records(2)
    assert rows(part) == [(0, "r", 0, 128 * KIB), (0, "r", 128 * KIB, 128 * KIB)]
    assert part.records.time_ns.tolist() == [0]
    assert part.request.tolist() == [2]


def test_small_blocks_are_grouped_into_larger_pieces(by_hand):
    # Blocks of 16 tokens, pieces of 64: ids of the last block in each, and a shorter one at the end.
    trace = by_hand([[1, 2, 3, 4, 5], [1, 2, 3, 4, 6]], block_tokens=16)
    whole = traffic(trace, "page64")
    assert whole.trace.block_ids.tolist() == [4, 5, 4, 6]
    assert whole.bytes_read().tolist() == [0, 64 * 256]


def test_a_trace_without_prefixes_only_writes(by_hand):
    bare = by_hand([[1], [1]], tokens=[512, 512])
    bare = traces.RequestTrace(bare.path, "azure", bare.time_ns, bare.input_tokens, bare.output_tokens)
    whole = traffic(bare, "page512")
    assert whole.bytes_read().sum() == 0
    assert whole.bytes_written().tolist() == [128 * KIB] * 2
    assert "every prompt is taken as new" in whole.trace.notes[-1]


@st.composite
def request_lists(draw):
    names = {}
    paths = draw(st.lists(st.lists(st.integers(0, 1), max_size=5), min_size=1, max_size=12))
    short = [draw(st.integers(0, 511)) if path else 0 for path in paths]
    # A block that its prompt does not fill is another block than a full one of the same beginning.
    requests = [
        [names.setdefault((*path[: k + 1], missing * (k == len(path) - 1)), len(names)) for k in range(len(path))]
        for path, missing in zip(paths, short, strict=True)
    ]
    return requests, [len(path) * 512 - missing for path, missing in zip(paths, short, strict=True)]


@settings(max_examples=150, deadline=None)
@given(
    request_lists(),
    st.sampled_from(sorted(GRANULARITIES)),
    st.booleans(),
    st.integers(0, 3),
    st.booleans(),
    st.sampled_from(["append", "random"]),
)
def test_records_move_the_bytes_that_were_counted(by_hand, drawn, granularity, layer_wise, dram, fsync, placing):
    requests, tokens = drawn
    whole = traffic(
        by_hand(requests, tokens=tokens),
        granularity,
        layer_wise=layer_wise,
        fsync=fsync,
        placing=placing,
        dram_bytes=dram * 128 * KIB,
    )
    if not whole.count():
        with pytest.raises(ConfigError, match="neither read from storage nor write to it"):
            whole.records()
        return
    expanded = whole.records()
    records = expanded.records
    moves = records.op != FSYNC
    assert int(moves.sum()) == whole.count()
    for op, told in ((READ, whole.bytes_read()), (WRITE, whole.bytes_written())):
        of_op = records.op == op
        moved = np.bincount(
            expanded.request[records.group[of_op]], weights=records.length[of_op], minlength=len(requests)
        )
        # An object's header is read with it, and is in none of the totals of what was wanted.
        assert np.array_equal(moved, told)
    # Whatever is read was written before by an earlier request, at the same place and no shorter.
    written = {}
    for index in np.lexsort((records.op, expanded.request[records.group])).tolist():
        if not moves[index]:
            continue
        offset, end = int(records.offset[index]), int(records.offset[index]) + int(records.length[index])
        if records.op[index] == WRITE:
            written[offset] = end
        else:
            assert written.get(offset, -1) >= end
    # Groups of one stage and request are one, or one per layer when reads are layer-wise.
    fetches = np.bincount(expanded.request[expanded.stage == 0], minlength=len(requests))
    assert set(fetches.tolist()) <= {0, 2 if layer_wise or granularity == "fragment" else 1}


def test_the_real_trace_at_block_level(shared):
    trace = traces.load(shared("mooncake/conversation_trace.jsonl"))
    small, large = (
        Traffic.of(trace, Layout(kv_geometry(find(name))), SPEED).records().records
        for name in ("qwen2.5-7b", "llama-3.1-405b")
    )
    # Uses and blocks as published; 28 MiB and 252 MiB each. The arrays are as large for nine times the bytes.
    assert len(small) == len(large) == 105_710 + 182_790
    assert small.bytes_of(READ) == 105_710 * 28 << 20
    assert large.bytes_of(WRITE) == 182_790 * 252 << 20
    assert large.files.bytes == 182_790 * 252 << 20
    assert sum(getattr(large, name).nbytes for name in ("op", "file", "offset", "length", "group")) <= 32 * len(large)


def test_what_cannot_be_expanded(by_hand, monkeypatch):
    with pytest.raises(ConfigError, match="'sector' is none of fragment, block"):
        Layout(SMALL, "sector")
    with pytest.raises(ConfigError, match="'best' is none of append, random"):
        Layout(SMALL, placing="best")
    for wrong in ({"granularity": "fragment"}, {"layer_wise": True}):
        with pytest.raises(ConfigError, match="name the model"):
            Layout(KvGeometry(1, 1, 131_072), **wrong)
    with pytest.raises(ConfigError, match="1 is the least"):
        Layout(KvGeometry(1, 1, 0))
    trace = by_hand([[1], [2]])
    with pytest.raises(ConfigError, match="requests from number 2 on are none of 2"):
        traffic(trace, "page512").records(2)
    with pytest.raises(ConfigError, match="cannot be split into pieces of 256"):
        traffic(by_hand([[1]], block_tokens=384), "chunk")
    monkeypatch.setattr(traffic_module, "MOST_RECORDS", 63)
    with pytest.raises(ConfigError, match="2 requests make 64 records of block size, over 63: take fewer requests"):
        traffic(trace, "block").records()
    assert len(traffic(trace, "block").records(0, 1).records) == 32
