"""Block traces as a workload: what is replayed is what the file says, on a file of ours."""

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from pytest_gpuio.core.errors import CapabilityMissing, ConfigError, TraceError
from pytest_gpuio.phases import get, match
from pytest_gpuio.phases.records import FSYNC, READ, WRITE

MIB = 1 << 20


@pytest.fixture
def iolog(tmp_path):
    """Four I/Os and a sync of two devices, a terabyte apart, over two seconds."""
    path = tmp_path / "some.iolog"
    path.write_text(
        "fio version 3 iolog\n"
        "1 /dev/sda add\n1 /dev/sda open\n1 /dev/sdb add\n1 /dev/sdb open\n"
        "1 /dev/sda read 4096 8192\n"
        "500001 /dev/sda read 12288 4096\n"
        f"1000001 /dev/sdb write {1 << 40} 65536\n"
        "1500001 /dev/sdb sync 0 0\n"
        "2000001 /dev/sda read 4096 8192\n"
        "2000001 /dev/sda close\n"
    )
    return str(path)


def test_times_sizes_order_and_neighbourhood_are_the_traces_own(build, iolog):
    records = build("block_trace", file=iolog)
    assert records.op.tolist() == [READ, READ, WRITE, FSYNC, READ]
    assert records.length.tolist() == [8192, 4096, 65536, 0, 8192]
    assert (records.time_ns / 1e6).tolist() == [0, 500, 1000, 1500, 2000]
    # The second read follows the first, the last one comes again; two touched megabytes are all that is laid out.
    offset = records.offset.tolist()
    assert offset[1] == offset[0] + 8192
    assert offset[4] == offset[0] == 4096
    assert records.files.bytes == 2 * MIB
    assert records.chains == records.groups == 5


def test_speed_skip_and_scale_choose_a_part(build, iolog):
    assert build("block_trace", file=iolog, speed=4.0).span_ns == 500_000_000
    rest = build("block_trace", file=iolog, skip=2)
    assert rest.op.tolist() == [WRITE, FSYNC, READ]
    assert rest.time_ns[0] == 0
    assert build("block_trace", file=iolog, scale=0.4).length.tolist() == [8192, 4096]


def test_a_small_file_takes_all_of_a_large_device(build, tmp_path):
    path = tmp_path / "large.iolog"
    rng = np.random.default_rng(1)
    lines = [f"{i + 1} /d read {int(rng.integers(0, 1 << 28)) * 4096} 131072" for i in range(200)]
    path.write_text("fio version 3 iolog\n1 /d add\n1 /d open\n" + "\n".join(lines) + "\n")
    records = build("block_trace", file=str(path), capacity_gib=0.0625)
    assert records.files.bytes == 64 * MIB
    assert (records.offset + records.length <= 64 * MIB).all()
    assert set(records.length.tolist()) == {131072}


def test_a_trace_without_times_is_one_after_the_other_or_as_deep_as_the_queue(build, tmp_path):
    path = tmp_path / "old.iolog"
    path.write_text("fio version 2 iolog\n/d add\n/d open\n/d read 0 4096\n/d write 4096 4096\n/d close\n")
    assert (build("block_trace", file=str(path)).chains, build("block_trace", file=str(path)).timed) == (1, False)
    assert build("block_trace", file=str(path), pace="depth").chains == 2


def test_pace_depth_drops_the_times(build, iolog):
    records = build("block_trace", file=iolog, pace="depth")
    assert not records.timed
    assert records.chains == 5


@pytest.mark.parametrize(
    ("values", "error", "words"),
    [
        ({"file": "none"}, ConfigError, "gpuio-workload-param file=PATH"),
        ({"file": "/nonesuch"}, TraceError, "cannot be read"),
        ({"skip": 5}, ConfigError, "skip=5 leaves none of the 5 I/Os"),
        ({"scale": 2.0}, ConfigError, "use a number above 0 and up to 1"),
    ],
)
def test_refusals(build, iolog, values, error, words):
    with pytest.raises(error, match=words):
        build("block_trace", **({"file": iolog} | values))


def test_a_trace_of_requests_is_for_the_other_workload(build, tmp_path):
    path = tmp_path / "requests.jsonl"
    path.write_text('{"timestamp": 0, "input_length": 5, "output_length": 1, "hash_ids": [1]}\n')
    with pytest.raises(CapabilityMissing, match="inference/kv_trace"):
        build("block_trace", file=str(path))


def test_patterns_never_choose_what_needs_a_file():
    assert not any(getattr(workload, "by_name", False) for workload in match(["micro/*", "inference/*"]))
    assert match(["micro/block_trace"])[0] == get("micro/block_trace")
    assert match(["micro/block_trace[speed=2]"])[0].values["speed"] == 2.0


@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    ios=st.lists(
        st.tuples(
            st.sampled_from(["read", "write"]), st.integers(0, 1 << 45), st.integers(1, 1 << 22), st.integers(0, 10**7)
        ),
        min_size=1,
        max_size=60,
    ),
    capacity=st.sampled_from([0.0078125, 0.25, 64.0]),
)
def test_whatever_was_recorded_is_replayed_whole_inside_the_file(build, tmp_path, ios, capacity):
    path = tmp_path / "any.iolog"
    now, lines = 1, []
    for kind, offset, length, gap in ios:
        now += gap
        lines.append(f"{now} /d {kind} {offset} {length}")
    path.write_text("fio version 3 iolog\n1 /d add\n1 /d open\n" + "\n".join(lines) + "\n")
    records = build("block_trace", file=str(path), capacity_gib=capacity)
    assert records.length.tolist() == [length for _, _, length, _ in ios]
    assert records.op.tolist() == [READ if kind == "read" else WRITE for kind, *_ in ios]
    gaps = np.cumsum([gap for *_, gap in ios]) * 1000
    assert records.time_ns.tolist() == (gaps - gaps[0]).tolist()
    (size,) = records.files.sizes.tolist()
    assert (records.offset + records.length <= size).all()
    assert size <= max(capacity * 2**30, 0)
    # Touched megabytes, each once, are all that is laid out.
    touched = {m for _, offset, length, _ in ios for m in range(offset >> 20, (offset + length - 1 >> 20) + 1)}
    assert size == min(len(touched) << 20, int(capacity * 2**30))
    if len(touched) << 20 <= capacity * 2**30:
        # Nothing is folded: what overlapped overlaps as it did, byte by byte.
        places = {}
        for (_, offset, length, _), placed in zip(ios, records.offset.tolist(), strict=True):
            for step in (0, length - 1):
                assert places.setdefault(offset + step, placed + step) == placed + step
