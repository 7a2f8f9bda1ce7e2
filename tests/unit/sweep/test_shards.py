"""Shards of a plan: disjoint, covering, alike in size and kind, whatever the order."""

from __future__ import annotations

import random
from collections import Counter

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pytest_gpuio import phases
from pytest_gpuio.core.cell import Cell
from pytest_gpuio.core.errors import ConfigError
from pytest_gpuio.sweep import expand, plan
from pytest_gpuio.sweep.expand import PlannedCell
from pytest_gpuio.sweep.shards import Shard, digest

CELLS = st.lists(
    st.builds(
        lambda path, target, workload, bs, qd: PlannedCell(Cell("sweep", path, "ram", target, workload, bs, qd, 1)),
        st.sampled_from(["psync", "libaio", "io_uring"]),
        st.sampled_from(["a", "b"]),
        st.sampled_from(["micro/randread", "micro/randwrite"]),
        st.sampled_from([4096, 65536]),
        st.integers(1, 40),
    ),
    max_size=120,
    unique=True,
)


def kind(planned):
    return planned.cell.target, planned.cell.datapath, phases.get(planned.cell.workload).writes


@settings(max_examples=60)
@given(CELLS, st.integers(1, 9), st.integers())
def test_shards_cover_the_plan_once_and_are_alike(cells, of, seed):
    parts = [Shard(number, of).part(cells) for number in range(1, of + 1)]
    assert sorted(p.cell.case for part in parts for p in part) == sorted(p.cell.case for p in cells)
    assert max(map(len, parts)) - min(map(len, parts)) <= 1
    for one in {kind(planned) for planned in cells}:
        counts = [sum(kind(planned) == one for planned in part) for part in parts]
        assert max(counts) - min(counts) <= 1
    # Another host may list them otherwise.
    shuffled = random.Random(seed).sample(cells, len(cells))
    assert digest(shuffled) == digest(cells)
    for number, part in enumerate(parts, start=1):
        assert set(Shard(number, of).part(shuffled)) == set(part)


@given(CELLS.filter(lambda cells: len(cells) > 1))
def test_a_shard_keeps_the_order_it_was_given(cells):
    part = Shard(1, 2).part(cells)
    assert [planned for planned in cells if planned in part] == part
    assert digest(cells[1:]) != digest(cells)


def test_the_whole_study_in_three(placed):
    cells = list(expand.expand(placed(plan.load("study").text, {})))
    assert len(cells) >= 25_000
    counts = [Counter(map(kind, Shard(number, 3).part(cells))) for number in range(1, 4)]
    assert sum(sum(count.values()) for count in counts) == len(cells)
    for one in counts[0]:
        assert max(count[one] for count in counts) - min(count[one] for count in counts) <= 1


@pytest.mark.parametrize(("text", "shard"), [("1/1", Shard(1, 1)), (" 8/8 ", Shard(8, 8))])
def test_spelling(text, shard):
    assert Shard.parse(text) == shard
    assert Shard.parse(str(shard)) == shard


@pytest.mark.parametrize("text", ["", "1", "1/", "a/b", "1/2/3", "-1/2", "1.5/2"])
def test_what_is_none_is_refused(text):
    with pytest.raises(ConfigError, match="is not of the form 1/8"):
        Shard.parse(text)


@pytest.mark.parametrize("text", ["0/8", "9/8", "1/0"])
def test_numbers_out_of_range_are_told_the_remedy(text):
    with pytest.raises(ConfigError, match=r"--shard=\$\(\(INDEX \+ 1\)\)/COUNT"):
        Shard.parse(text)
