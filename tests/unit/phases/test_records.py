"""Arrays of I/O records: what is accepted, what is refused, and that no transformation loses or invents a byte."""

from __future__ import annotations

import subprocess
import sys

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_gpuio.core.errors import ConfigError
from pytest_gpuio.phases.files import Files
from pytest_gpuio.phases.mix import mix
from pytest_gpuio.phases.records import FSYNC, READ, WRITE, Records

SIZE = 1 << 20


def two_files() -> Files:
    return Files.of({"a": SIZE, "folder/b": SIZE})


@st.composite
def some_records(draw: st.DrawFn) -> Records:
    n = draw(st.integers(1, 30))
    length = np.array(draw(st.lists(st.integers(1, 70_000), min_size=n, max_size=n)))
    offset = np.array([draw(st.integers(0, SIZE - int(size))) for size in length])
    op = np.array(draw(st.lists(st.sampled_from([READ, WRITE, FSYNC]), min_size=n, max_size=n)))
    groups = draw(st.integers(1, n))
    group = np.concatenate([np.arange(groups), np.array(draw(st.lists(st.integers(0, groups - 1), max_size=n)))])
    group = np.resize(group, n)
    return Records.build(
        two_files(),
        offset=np.where(op == FSYNC, 0, offset),
        length=np.where(op == FSYNC, 0, length),
        op=op,
        file=np.array(draw(st.lists(st.integers(0, 1), min_size=n, max_size=n))),
        group=group.astype(int),
        barrier=np.array(draw(st.lists(st.booleans(), min_size=n, max_size=n))),
    )


def test_one_value_serves_all_records() -> None:
    records = Records.build(two_files(), offset=np.arange(4) * 4096, length=4096)
    assert len(records) == records.groups == records.chains == 4
    assert records.first.tolist() == [0, 1, 2, 3, 4]
    assert records.bytes_of() == records.bytes_of(READ) == 16384
    assert not records.timed
    assert records.span_ns == 0


def test_records_are_sorted_by_group_and_keep_their_order_inside() -> None:
    records = Records.build(two_files(), offset=[7, 5, 3, 1], length=1, group=[1, 0, 1, 0], time_ns=[10, 20])
    assert records.offset.tolist() == [5, 1, 7, 3]
    assert records.group_bytes.tolist() == [2, 2]
    assert records.record_time_ns.tolist() == [10, 10, 20, 20]


@pytest.mark.parametrize(
    ("columns", "words"),
    [
        ({"offset": [0, SIZE], "length": 1}, r"record 1 ends at byte 1,048,577 of a, which has 1,048,576"),
        ({"offset": 0, "length": SIZE + 1}, r"record 0 ends at byte 1,048,577"),
        ({"offset": 0, "length": 0}, r"record 0 moves 0 bytes"),
        ({"offset": -1, "length": 1}, r"record 0: offset -1 is outside"),
        ({"offset": 0, "length": 1, "op": 3}, r"record 0: op 3 is outside 0 .. 2"),
        ({"offset": [0, 0], "length": 1, "file": [0, 2]}, r"record 1: file 2 is outside 0 .. 1"),
        ({"offset": [0, 0], "length": 1, "group": [0, 2]}, r"group 1 of 3 is empty"),
        ({"offset": [0, 0], "length": 1, "chain": [1, 2]}, r"chain 0 of 3 is empty"),
        ({"offset": [0, 0], "length": 1, "time_ns": [9, 8]}, r"a group at 8 ns follows one at 9 ns"),
        ({"offset": [0, 0], "length": 1, "time_ns": [1, 2, 3]}, r"column time_ns has shape \(3,\)"),
        ({"offset": [0.5], "length": 1}, r"column offset is of type float64"),
        ({"offset": [], "length": []}, r"no I/O records"),
        ({"offset": 0, "length": 1, "stage": 1}, r"record 0: stage 1 is outside 0 .. 0"),
        ({"offset": 0, "length": 1, "prefetch": 65_536}, r"chain 0: prefetch 65,536 is outside"),
    ],
)
def test_what_cannot_be_run_is_refused_with_its_place(columns: dict[str, object], words: str) -> None:
    with pytest.raises(ConfigError, match=words):
        Records.build(two_files(), **columns)


@pytest.mark.parametrize("name", ["", "/etc/passwd", "../x", "a/../b", "a//b", ".", "x" * 201, "a\0b"])
def test_a_file_name_cannot_leave_the_folder(name: str) -> None:
    with pytest.raises(ConfigError, match="file name"):
        Files.of({name: 1})


def test_files_need_a_size() -> None:
    with pytest.raises(ConfigError, match="'a' has 0 bytes"):
        Files.of({"a": 0})
    with pytest.raises(ConfigError, match="0 files"):
        Files.of({})


@given(some_records(), st.integers(500, 80_000))
def test_splitting_moves_the_same_bytes_in_shorter_records(records: Records, most: int) -> None:
    split = records.split(most)
    assert split.length.max() <= most
    assert split.bytes_of() == records.bytes_of()
    assert split.bytes_of(WRITE) == records.bytes_of(WRITE)
    assert (split.op == FSYNC).sum() == (records.op == FSYNC).sum()
    assert split.barrier.sum() == records.barrier.sum()
    assert split.group_bytes.tolist() == records.group_bytes.tolist()


@given(some_records(), st.sampled_from([512, 4096]))
def test_aligned_records_cover_the_bytes_and_no_block_more(records: Records, alignment: int) -> None:
    aligned = records.aligned(alignment)
    moves = records.op != FSYNC
    start, end = aligned.offset[moves], (aligned.offset + aligned.length)[moves]
    assert not (start % alignment).any()
    assert not (end % alignment).any()
    wanted_start, wanted_end = records.offset[moves], (records.offset + records.length)[moves]
    assert ((start <= wanted_start) & (wanted_start - start < alignment)).all()
    assert ((end >= wanted_end) & (end - wanted_end < alignment)).all()
    assert not aligned.length[~moves].any()


def test_writes_may_have_an_alignment_of_their_own() -> None:
    records = Records.build(two_files(), offset=[100, 100], length=[10, 10], op=[READ, WRITE])
    aligned = records.aligned(1, writes=512)
    assert aligned.offset.tolist() == [100, 0]
    assert aligned.length.tolist() == [10, 512]


def test_a_time_scale_of_two_is_twice_as_fast() -> None:
    records = Records.build(two_files(), offset=[0, 0, 0], length=1, time_ns=[-1, 1_000, 5_000])
    assert records.faster(2.0).time_ns.tolist() == [-1, 500, 2_500]
    assert records.untimed().time_ns.tolist() == [-1, -1, -1]
    for factor in (0.0, -1.0, float("inf"), float("nan"), 1e-13):
        with pytest.raises(ConfigError, match="time scale"):
            records.faster(factor)


def test_one_rank_is_its_own_chains_only() -> None:
    records = Records.build(
        two_files(),
        offset=np.arange(6),
        length=1,
        group=[0, 0, 1, 1, 2, 2],
        chain=[0, 1, 0],
        rank=[0, 3],
        prefetch=[2, 5],
    )
    mine = records.of_rank(3)
    assert records.ranks == 4
    assert mine.offset.tolist() == [2, 3]
    assert (mine.groups, mine.chains, mine.prefetch.tolist()) == (1, 1, [5])
    with pytest.raises(ConfigError, match="none of 3 groups"):
        records.of_rank(1)


def test_a_mix_keeps_each_parts_bytes_files_and_order() -> None:
    one = Records.build(two_files(), offset=[0, 1, 2], length=[1, 2, 3], time_ns=[0, 100, 200], stages=["s"])
    two = Records.build(two_files(), offset=[5, 6], length=7, op=WRITE, chain=[0, 0], prefetch=3, rank=1)
    both = mix(fetch=one, save=two)
    assert both.files.names == ("fetch/a", "fetch/folder/b", "save/a", "save/folder/b")
    assert both.stages == ("fetch/s", "save/all")
    assert both.bytes_of(READ) == one.bytes_of()
    assert both.bytes_of(WRITE) == two.bytes_of()
    assert both.time_ns[both.time_ns >= 0].tolist() == [0, 100, 200]
    written = both.op == WRITE
    assert both.offset[written].tolist() == [5, 6]
    assert set(both.file[written].tolist()) == {2}
    assert len(set(both.chain[both.group[written]].tolist())) == 1
    assert both.prefetch[both.chain[both.group[written]]].tolist() == [3, 3]
    with pytest.raises(ConfigError, match="at least one part"):
        mix()


def test_columns_cannot_be_changed() -> None:
    records = Records.build(two_files(), offset=0, length=1)
    with pytest.raises(ValueError, match="read-only"):
        records.length[0] = 2


def test_the_package_is_imported_without_numpy() -> None:
    code = "import sys, pytest_gpuio.phases.records, pytest_gpuio.phases.mix; sys.exit('numpy' in sys.modules)"
    assert subprocess.run([sys.executable, "-P", "-c", code], timeout=60).returncode == 0
