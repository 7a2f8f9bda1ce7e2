"""Replay of a request trace: bytes counted by hand, and a real trace where it is there."""

import json
import os
from pathlib import Path

import numpy as np
import pytest

from pytest_gpuio.core.errors import CapabilityMissing, ConfigError, TraceError
from pytest_gpuio.phases.records import READ, WRITE

DATA = Path(os.environ.get("GPUIO_SHARED_DATA", Path(__file__).resolve().parents[5] / "shared" / "data"))
PAGE = 512 * 131_072


@pytest.fixture
def trace(tmp_path):
    """Three requests of one conversation, a second apart: 2 pages, the same and 1 more, the same and 2 more."""
    path = tmp_path / "requests.jsonl"
    rows = [
        {"timestamp": 1000 * index, "input_length": 512 * pages, "output_length": 9, "hash_ids": list(range(pages))}
        for index, pages in enumerate((2, 3, 5))
    ]
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return str(path)


def test_pages_are_written_once_and_fetched_when_they_come_again(build, trace):
    records = build("kv_trace", file=trace, pool_gib=4.0)
    assert records.bytes_of(WRITE) == 5 * PAGE
    assert records.bytes_of(READ) == (2 + 3) * PAGE
    fetched = [
        int(when) for when, stage in zip(records.time_ns, records.stage[records.first[:-1]], strict=True) if not stage
    ]
    assert fetched == [1_000_000_000, 2_000_000_000]


def test_tiers_of_memory_keep_fetches_away_from_storage(build, trace):
    records = build("kv_trace", file=trace, pool_gib=4.0, dram_gib=1.0)
    assert records.bytes_of(READ) == 0
    assert records.bytes_of(WRITE) == 5 * PAGE


def test_speed_skip_and_scale_choose_a_part(build, trace):
    twice = build("kv_trace", file=trace, pool_gib=4.0, speed=2.0)
    assert 500_000_000 in twice.time_ns
    rest = build("kv_trace", file=trace, pool_gib=4.0, skip=1)
    assert rest.time_ns.min() == 0
    assert rest.bytes_of(WRITE) == 3 * PAGE
    assert rest.bytes_of(READ) == 5 * PAGE
    third = build("kv_trace", file=trace, pool_gib=12.0, scale=0.34)
    assert third.bytes_of() == 2 * PAGE


@pytest.mark.parametrize(("granularity", "piece"), [("block", 2 << 20), ("chunk", 32 << 20), ("fragment", 32 << 10)])
def test_pieces_are_those_of_the_granularity(build, trace, granularity, piece):
    records = build("kv_trace", file=trace, pool_gib=4.0, granularity=granularity)
    assert set(records.length) <= {piece, 4096, piece + 4096}


@pytest.mark.parametrize(
    ("values", "words"),
    [
        ({"file": "none"}, r"gpuio-workload-param file=PATH"),
        ({"skip": 3}, r"skip=3 leaves none of the 3 requests"),
        ({"pool_gib": 0.01}, "has no room for one page"),
        ({"model": "nonesuch"}, "is unknown"),
    ],
)
def test_refusals(build, trace, values, words):
    with pytest.raises(ConfigError, match=words):
        build("kv_trace", **({"file": trace} | values))


def test_files_that_are_no_traces(build, tmp_path):
    (tmp_path / "other.txt").write_text("hello\n")
    with pytest.raises(TraceError, match="no known format"):
        build("kv_trace", file=str(tmp_path / "other.txt"))
    iolog = tmp_path / "some.log"
    iolog.write_text("fio version 3 iolog\n1 /x add\n1 /x open\n2 /x read 0 4096\n3 /x close\n")
    with pytest.raises(CapabilityMissing, match=r"trace of I/O .* micro/block_trace replays it"):
        build("kv_trace", file=str(iolog))


def test_a_real_trace_is_write_heavy(build):
    path = DATA / "mooncake" / "conversation_trace.jsonl"
    if not path.exists():
        pytest.skip(f"no shared data at {path}")
    records = build("kv_trace", file=str(path), pool_gib=100_000.0)
    # All 12,031 requests: 182,790 pages are new, 105,710 come again.
    assert records.bytes_of(WRITE) == 182_790 * PAGE
    assert records.bytes_of(READ) == 105_710 * PAGE
    assert (np.diff(records.time_ns) >= 0).all()


def test_a_first_token_waits_for_the_fetch_and_then_for_the_prefill(build, trace):
    records = build("kv_trace", file=trace, pool_gib=4.0)
    fetch = records.stage[records.first[:-1]] == 0
    assert (records.apart_ns[~fetch] == -1).all()
    # One and two pages of 512 tokens at 2 x 8.03e9 operations a token and 40 % of 989 TFLOPS (workloads.md: 24.6 k/s).
    assert records.apart_ns[fetch] / 1e9 == pytest.approx([512 / 24_630, 1024 / 24_630], rel=0.001)


def test_memory_goes_with_the_trace_and_not_with_its_bytes(build):
    import tracemalloc

    path = DATA / "mooncake" / "conversation_trace.jsonl"
    if not path.exists():
        pytest.skip(f"no shared data at {path}")
    peaks = {}
    for model in ("llama-3.1-8b", "llama-3.1-70b"):
        tracemalloc.start()
        records = build("kv_trace", file=str(path), model=model, pool_gib=100_000.0)
        peaks[model] = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
    # 288,500 block uses: some hundred bytes each while they are worked out, whatever a block weighs.
    assert peaks["llama-3.1-70b"] == pytest.approx(peaks["llama-3.1-8b"], rel=0.05)
    assert max(peaks.values()) < 600 * 288_500
    assert records.bytes_of() == 288_500 * 512 * 327_680
