"""Models of inference against published files, KV geometries, traces and code of serving systems."""

from collections import Counter

import numpy as np
import pytest

from pytest_gpuio.core.errors import ConfigError
from pytest_gpuio.phases.records import FSYNC, READ, WRITE
from pytest_gpuio.phases.workloads import vector_read

MIB = 1 << 20


@pytest.mark.parametrize("strategy", ["mmap", "tensor", "chunk", "shard"])
@pytest.mark.parametrize("scale", [1.0, 0.03])
def test_every_byte_of_the_weights_is_read_once(build, tiles, strategy, scale):
    records = build("cold_start", strategy=strategy, scale=scale)
    assert tiles(records)
    if scale == 1.0:
        assert sorted(records.files.sizes) == sorted([4_976_698_672, 4_999_802_720, 4_915_916_176, 1_168_138_808])
    assert records.groups == 1
    assert records.barrier.all() == (strategy == "mmap")


def test_strategies_have_their_request_sizes(build):
    assert Counter(build("cold_start", strategy="chunk").length.tolist()).most_common(1)[0][0] == 2 * MIB
    assert Counter(build("cold_start", strategy="mmap").length.tolist()).most_common(1)[0][0] == 128 << 10
    sizes = Counter(build("cold_start", strategy="tensor").length.tolist())
    assert (sizes[8 * MIB], sizes[32 * MIB], sizes[112 * MIB], sizes[8192]) == (64, 64, 96, 65)


@pytest.mark.parametrize(
    ("model", "ranks", "gb", "rows"),
    [
        # 70B: o_proj 8,192 parts of 2 KiB a layer, down_proj 8,192 of 7 KiB.
        ("llama-3.1-70b", 8, 17.6, {2048: 80 * 8192, 7168: 80 * 8192}),
        ("llama-3.1-405b", 8, 101.5, {4096: 126 * 16_384, 13_312: 126 * 16_384}),
    ],
)
def test_a_tensor_parallel_rank_reads_its_slices(build, model, ranks, gb, rows):
    records = build("cold_start", model=model, strategy="sliced", tensor_parallel=ranks)
    assert records.bytes_of() / 1e9 == pytest.approx(gb, abs=0.05)
    sizes, counts = np.unique(records.length, return_counts=True)
    found = dict(zip(sizes.tolist(), counts.tolist(), strict=True))
    assert {size: found[size] for size in rows} == rows


def test_all_ranks_together_read_everything_and_share_only_norms(build):
    records = build("cold_start", model="llama-3.1-8b", strategy="sliced", tensor_parallel=4, ranks=4)
    assert records.ranks == records.groups == 4
    norms = 65 * 8192
    assert records.bytes_of() == 16_060_522_496 + 3 * norms
    # Brute force: mark every byte at the granularity of the smallest slice.
    unit = 1024
    seen = {file: np.zeros(int(size) // unit + 1, np.int32) for file, size in enumerate(records.files.sizes)}
    for file, marks in seen.items():
        mine = records.file == file
        base = int(records.offset[mine].min())
        first = (records.offset[mine].astype(np.int64) - base) // unit
        last = first + records.length[mine].astype(np.int64) // unit
        np.add.at(marks, first, 1)
        np.add.at(marks, last, -1)
        data = (int(records.files.sizes[file]) - base) // unit
        covered = np.cumsum(marks)[:data]
        assert covered.min() == 1
        assert set(np.unique(covered)) <= {1, 4}


def test_replicas_read_the_same_files_at_the_same_time(build):
    records = build("cold_start", replicas=3, scale=0.01)
    assert records.ranks == records.groups == records.chains == 3
    assert len(set(records.group_bytes)) == 1
    assert records.bytes_of() == 3 * records.files.bytes


def test_a_fleet_switches_models_as_often_as_the_log_says(build):
    records = build("cold_start", model="qwen2.5-0.5b", fleet=87, loads=5000, scale=0.002)
    wanted = records.file[records.first[:-1]] // (len(records.files) // 87)
    assert (np.diff(wanted.astype(int)) != 0).mean() == pytest.approx(0.746, abs=0.02)
    assert records.chains == 1
    counts = np.bincount(wanted, minlength=87)
    assert counts[0] > 3 * counts[10] > 0


@pytest.mark.parametrize(
    ("values", "words"),
    [
        ({"tensor_parallel": 2}, "goes with strategy=sliced"),
        ({"strategy": "sliced"}, "goes with strategy=sliced"),
        ({"strategy": "sliced", "tensor_parallel": 2, "ranks": 3}, "3 ranks are more"),
        ({"strategy": "sliced", "tensor_parallel": 3}, "cannot be spread over 3 ranks"),
        ({"strategy": "sliced", "tensor_parallel": 2, "model": "gpt-oss-20b"}, "not modelled"),
        ({"model": "nonesuch"}, "is unknown"),
    ],
)
def test_cold_start_refusals(build, values, words):
    with pytest.raises(ConfigError, match=words):
        build("cold_start", **values)


@pytest.mark.parametrize(
    ("model", "granularity", "piece"),
    [
        ("llama-3.1-8b", "block", 2 * MIB), ("llama-3.1-8b", "page64", 8 * MIB), ("llama-3.1-8b", "chunk", 32 * MIB),
        ("llama-3.1-8b", "page512", 64 * MIB), ("llama-3.1-8b", "fragment", 32 << 10),
        ("llama-3.1-70b", "block", 5 * MIB), ("llama-3.1-405b", "chunk", 126 * MIB),
        ("qwen2.5-7b", "block", 7 * MIB // 8), ("gpt-oss-20b", "fragment", 16 << 10),
        ("deepseek-v3", "fragment", 18 << 10),
    ],
)  # fmt: skip
def test_pieces_of_a_cache_have_the_computed_bytes(build, model, granularity, piece):
    records = build("kv_prefix_fetch", model=model, granularity=granularity, requests=8, pool_gib=256)
    assert set(records.length) == {piece}


@pytest.mark.parametrize(
    ("name", "trace", "median", "p99"),
    [
        ("kv_prefix_fetch", "conversation", 12, 147),
        ("kv_prefix_fetch", "synthetic", 35, 140),
        ("kv_offload", "conversation", 5, 141),
        ("kv_offload", "synthetic", 1, 98),
    ],
)
def test_requests_have_the_sizes_of_the_traces(build, name, trace, median, p99):
    records = build(name, granularity="page512", trace=trace, requests=20_000)
    pages = np.diff(records.first)
    assert np.median(pages) == pytest.approx(median, rel=0.04)
    assert np.percentile(pages, 99) == pytest.approx(p99, rel=0.05)


def test_fragments_are_one_per_layer_and_region_of_each_block_in_the_order_of_layers(build):
    records = build("kv_prefix_fetch", granularity="fragment", requests=16, pool_gib=1, scale=0.5)
    blocks = build("kv_prefix_fetch", granularity="block", requests=16, pool_gib=1, scale=0.5)
    assert np.array_equal(np.diff(records.first), np.diff(blocks.first) * 64)
    assert records.bytes_of() == blocks.bytes_of()
    slots = int(records.files.sizes[0]) // (2 * MIB)
    region = records.offset // (slots * (32 << 10))
    for group in range(16):
        assert (np.diff(region[slice(*records.first[group : group + 2])].astype(int)) >= 0).all()


def test_pieces_lie_in_stretches_of_the_length_asked_for(build):
    for run in (1.0, 8.0):
        records = build("kv_prefix_fetch", run=run, requests=200, pool_gib=1000)
        near = np.diff(records.offset.astype(np.int64)) == 2 * MIB
        assert near.mean() == pytest.approx(1 - 1 / run, abs=0.02)


def test_layer_by_layer_a_group_is_a_layer(build):
    whole = build("kv_prefix_fetch", granularity="fragment", requests=8, scale=0.1)
    records = build("kv_prefix_fetch", granularity="fragment", requests=8, scale=0.1, layerwise=True, compute_ms=2.0)
    assert records.groups == 8 * 32
    assert records.bytes_of() == whole.bytes_of()
    assert set(records.compute_ns) == {2_000_000}
    per_request = records.group_bytes.reshape(8, 32)
    assert np.array_equal(per_request.sum(axis=1), whole.group_bytes)
    assert (per_request == per_request[:, :1]).all()
    with pytest.raises(ConfigError, match="needs granularity=fragment"):
        build("kv_prefix_fetch", layerwise=True)


@pytest.mark.parametrize("cv", [1.0, 2.0, 6.0])
def test_open_loop_arrivals(build, cv):
    records = build("kv_prefix_fetch", model="qwen2.5-0.5b", rate=50.0, cv=cv, requests=20_000, scale=0.001)
    gaps = np.diff(records.time_ns) / 1e9
    assert gaps.mean() == pytest.approx(0.02, rel=0.15)
    assert gaps.std() / gaps.mean() == pytest.approx(cv, rel=0.15)
    assert records.chains == records.groups
    timed = build("kv_prefix_fetch", granularity="fragment", rate=50.0, layerwise=True, requests=8, scale=0.01)
    assert (timed.time_ns >= 0).sum() == 8
    assert timed.chains == 8


def test_the_closed_loop_has_clients(build):
    assert build("kv_prefix_fetch", clients=7, scale=0.01).chains == 7
    assert build("kv_prefix_fetch", clients=100, scale=0.01).chains == 64


def test_a_chunk_is_a_file_with_metadata_before_it(build):
    fetched = build("kv_prefix_fetch", granularity="chunk", scale=0.1)
    assert set(fetched.offset) == {4096}
    assert set(fetched.files.sizes) == {4096 + 32 * MIB}
    written = build("kv_offload", granularity="chunk", scale=0.1)
    assert list(written.offset[:2]) == [0, 4096]
    assert list(written.length[:2]) == [4096, 32 * MIB]
    assert set(written.op) == {WRITE}


def test_an_object_is_a_whole_sequence(build):
    records = build("kv_prefix_fetch", granularity="object")
    pages = build("kv_prefix_fetch", granularity="page512")
    assert len(records) == records.groups == 64
    assert np.array_equal(records.length, pages.group_bytes)


@pytest.mark.parametrize("granularity", ["fragment", "block", "chunk"])
def test_a_synced_offload_ends_each_request_with_a_sync_of_its_files(build, granularity):
    records = build("kv_offload", granularity=granularity, fsync=True, scale=0.05)
    for group in range(records.groups):
        mine = slice(*records.first[group : group + 2])
        op, file = records.op[mine], records.file[mine]
        syncs = op == FSYNC
        assert syncs[np.argmax(syncs) :].all()
        assert sorted(file[syncs]) == sorted(set(file[~syncs]))


def test_appended_pieces_follow_each_other(build):
    records = build("kv_offload", pool_gib=1000)
    assert np.array_equal(records.offset, np.arange(len(records)) * 2 * MIB)
    scattered = build("kv_offload", pool_gib=1000, placement="random")
    assert not np.array_equal(records.offset, scattered.offset)


@pytest.mark.parametrize(
    ("option", "least_mib", "most_gib", "mean_gb", "in_flight"),
    [("storage_stress", 64, 3.06, 1.18, 16), ("throughput", 64, 3.06, 1.18, 16), ("large_model", 160, 7.64, 2.96, 4)],
)
def test_objects_have_the_sizes_of_the_rules(build, option, least_mib, most_gib, mean_gb, in_flight):
    records = build("kv_objects", option=option, requests=4000)
    sizes = records.files.sizes - 128
    assert sizes.min() >= least_mib << 20
    assert sizes.max() <= most_gib * 2**30
    assert sizes.mean() / 1e9 == pytest.approx(mean_gb, rel=0.03)
    assert records.chains == in_flight


def test_an_object_is_written_once_synced_and_read_whole_per_32_tokens(build):
    records = build("kv_objects", requests=3000)
    writes = records.op[records.first[:-1]] == WRITE
    assert writes.sum() == 3000
    assert (records.op == FSYNC).sum() == 3000
    reads = np.bincount(records.file[records.first[:-1]]) - 1
    size = records.files.sizes - 128
    long = size >= 10_000 * 131_072
    assert set(reads[long]) == {0}
    # 50 .. 800 tokens: 2 to 25 reads.
    assert reads[~long].min() == 2
    assert reads[~long].max() == 25
    assert set(records.offset) == {0, 128}
    whole = records.length > 128
    assert np.array_equal(records.length[whole], size[records.file[whole]])


def test_thinking_is_compute_after_the_last_read(build):
    records = build("kv_objects", requests=500, think=1.0)
    first = np.flatnonzero(records.op[records.first[:-1]] == WRITE)
    assert (records.compute_ns > 0).sum() == 500
    last = np.append(first[1:], records.groups) - 1
    assert (records.compute_ns[last] > 0).all()
    assert records.compute_ns[last].min() >= 0.1e9
    assert records.compute_ns[last].max() <= 1.5e9


@pytest.mark.parametrize(("model", "layers", "mib"), [("llama-3.1-8b", 32, 416), ("llama-3.1-70b", 80, 1632)])
def test_a_layer_is_streamed_in_blocks(build, model, layers, mib):
    records = build("weights_stream", model=model, steps=2)
    assert records.groups == 2 * layers
    assert set(records.group_bytes) == {mib * MIB}
    assert set(records.length) == {MIB}
    assert set(records.prefetch) == {2}


def test_padding_depends_on_threads_and_small_tensors_stay(build):
    records = build("weights_stream", model="llama-3.1-8b", block_kib=16_384, threads=8)
    assert not (records.files.sizes % 8192).any()
    assert not [name for name in records.files.names if "norm" in name]
    # At blocks of 16 MiB the projections of keys and values (8 MiB) are not swapped either.
    assert not [name for name in records.files.names if "k_proj" in name]
    with pytest.raises(ConfigError, match="no tensor of a layer"):
        build("weights_stream", model="qwen2.5-0.5b", block_kib=65_536)


def test_flexgens_cache_grows_by_a_row_and_is_read_whole(build):
    records = build("kv_stream")
    reads, writes = records.length[records.op == READ], records.length[records.op == WRITE]
    assert set(writes) == {512 << 10}
    # Keys and values of a layer and step: 268 to 536 MB.
    both = reads.reshape(-1, 2).sum(axis=1)
    assert (both.min() / 1e6, both.max() / 1e6) == pytest.approx((268, 536), abs=1)
    assert (reads.min() // writes[0], reads.max() // writes[0]) == (256, 511)
    assert records.bytes_of(READ) / records.bytes_of() > 0.996
    assert records.groups == 32 * 256
    # The row that is written is the one behind what was read.
    assert np.array_equal(records.offset[records.op == WRITE], reads)
    assert set(records.offset[records.op == READ]) == {0}


@pytest.mark.parametrize(
    ("dimension", "together", "size"),
    # A node of 768 dimensions has 3,332 bytes: a sector each; of 1,536 it has 6,404: two sectors; of 128, 772 bytes.
    [(768, 1, 4096), (959, 1, 4096), (960, 0, 8192), (1536, 0, 8192), (128, 5, 4096)],
)
def test_nodes_in_sectors(dimension, together, size):
    assert vector_read.node_request(dimension, 64) == (together, size)


def test_a_query_is_hops_of_a_beam(build):
    records = build("vector_read", queries=100, vectors=10_000, beam=8, search_list=200)
    assert records.groups == 100
    assert set(np.diff(records.first)) == {25 * 8}
    assert np.array_equal(np.flatnonzero(records.barrier), np.arange(0, len(records), 8))
    assert set(records.length) == {8192}
    assert records.files.bytes == 10_000 * 8192
    assert records.chains == 16


def test_mixes_are_their_parts(build):
    for whole, parts in (
        ("mix_kv", {"fetch": "kv_prefix_fetch", "offload": "kv_offload"}),
        ("mix_cold_start", {"start": "cold_start", "fetch": "kv_prefix_fetch"}),
    ):
        records = build(whole, scale=0.01)
        for part, name in parts.items():
            alone = build(name, scale=0.01)
            stages = [index for index, stage in enumerate(records.stages) if stage.startswith(f"{part}/")]
            mine = np.isin(records.stage, stages)
            assert records.length[mine].sum() == alone.bytes_of()
            assert np.array_equal(np.sort(records.length[mine]), np.sort(alone.length))


def test_what_is_fetched_and_what_is_offloaded_share_a_trace_of_arrivals(build):
    records = build("mix_kv", rate=10.0, scale=0.01)
    assert (np.diff(records.time_ns) >= 0).all()
    assert records.groups == 128
