from __future__ import annotations

import errno
import re
from collections import Counter
from dataclasses import replace
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_gpuio.core.errors import EngineError
from pytest_gpuio.engine import RunSpec, offsets

BLOCK = 4096


def geometry(order: str, blocks: int, jobs: int, **more: object) -> RunSpec:
    return RunSpec(engine="null", order=order, jobs=jobs, block=BLOCK, region_bytes=blocks * BLOCK, **more)  # type: ignore[arg-type]


def share(blocks: int, jobs: int, worker: int) -> int:
    return blocks // jobs + (worker < blocks % jobs)


shapes = st.integers(1, 6).flatmap(lambda jobs: st.tuples(st.integers(jobs, 300), st.just(jobs)))
seeds = st.integers(0, (1 << 64) - 1)


@given(shapes, seeds, st.sampled_from(["sequential", "random"]), st.integers(1, 3))
def test_each_round_covers_the_region_once(shape, seed, order, rounds):
    blocks, jobs = shape
    spec = geometry(order, blocks, jobs, seed=seed)
    touched: list[Counter[int]] = [Counter() for _ in range(rounds)]
    for worker in range(jobs):
        mine = share(blocks, jobs, worker)
        places, ops = offsets(spec, worker, mine * rounds)
        assert set(ops) == {0}
        for i, place in enumerate(places):
            touched[i // mine][place] += 1
    every_block_once = Counter(range(0, blocks * BLOCK, BLOCK))
    assert touched == [every_block_once] * rounds


@given(shapes, st.integers(0, 1 << 40))
def test_sequential_is_a_slice_read_in_order(shape, start):
    blocks, jobs = shape
    spec = geometry("sequential", blocks, jobs, region_offset=start)
    first = 0
    for worker in range(jobs):
        mine = share(blocks, jobs, worker)
        expected = [start + (first + i % mine) * BLOCK for i in range(mine + 3)]
        assert offsets(spec, worker, mine + 3)[0] == expected
        first += mine


@given(shapes, seeds, st.sampled_from(["sequential", "random", "zipf"]), st.integers(0, 100))
def test_reproducible_and_inside_the_region(shape, seed, order, read_percent):
    blocks, jobs = shape
    spec = geometry(order, blocks, jobs, seed=seed, read_percent=read_percent, region_offset=512, zipf_theta=1.1)
    for worker in range(jobs):
        places, ops = offsets(spec, worker, 50)
        assert (places, ops) == offsets(spec, worker, 50)
        assert (places[:20], ops[:20]) == offsets(spec, worker, 20)
        assert all(512 <= place <= 512 + (blocks - 1) * BLOCK and (place - 512) % BLOCK == 0 for place in places)
        assert set(ops) <= {0, 1}
        if read_percent in (0, 100):
            assert set(ops) == {0 if read_percent else 1}


def test_another_seed_is_another_order():
    spec = geometry("random", 1000, 1, read_percent=50)
    assert offsets(spec, 0, 1000) != offsets(replace(spec, seed=1), 0, 1000)


@pytest.mark.parametrize("blocks", [65536, 100_003])
@pytest.mark.parametrize("lag", [1, 2, 16, 32])
def test_random_steps_are_spread_as_in_a_random_permutation(blocks, lag):
    """Steps modulo the region, in 64 classes: chi-square per degree of freedom is about 1, for lattices it is 100."""
    places = [place // BLOCK for place in offsets(geometry("random", blocks, 1, seed=17), 0, blocks)[0]]
    steps = Counter((b - a) % blocks * 64 // blocks for a, b in zip(places, places[lag:], strict=False))
    expected = (blocks - lag) / 64
    assert sum((steps[k] - expected) ** 2 / expected for k in range(64)) / 63 < 2


@pytest.mark.parametrize("theta", [0.2, 0.99, 1.0, 1.5, 4.0])
def test_zipf_frequencies(theta):
    blocks, draws = 50, 40_000
    places, _ = offsets(geometry("zipf", blocks, 1, zipf_theta=theta, seed=3), 0, draws)
    weights = [rank**-theta for rank in range(1, blocks + 1)]
    found = sorted(Counter(places).values(), reverse=True)
    # The most popular ones: sorting the counts of the others shifts them.
    for rank in range(2):
        p = weights[rank] / sum(weights)
        slack = 0.15 if theta < 0.5 else 0.0
        assert abs(found[rank] / draws - p) <= 6 * (p * (1 - p) / draws) ** 0.5 + slack * p


def test_zipf_scatters_the_popular_blocks():
    places, _ = offsets(geometry("zipf", 1 << 20, 1, zipf_theta=1.2, seed=3), 0, 20_000)
    popular = sorted(place for place, _ in Counter(places).most_common(8))
    assert min(b - a for a, b in pairwise(popular)) > 100 * BLOCK


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"region_bytes": 0}, "region of 0 bytes"),
        ({"region_bytes": 3 * BLOCK, "jobs": 4}, "worker 0 of 4"),
        ({"order": "zipf", "zipf_theta": 0.0}, "Invalid argument"),
        ({"order": "backwards"}, "order 'backwards' is not known: use sequential, random, zipf"),
        ({"block": -1}, "block = -1 does not fit"),
        ({"seed": 1 << 64}, "seed = .* does not fit"),
    ],
)
def test_refusals(change, words):
    with pytest.raises(EngineError, match=words):
        offsets(replace(geometry("random", 8, 1), **change), 0, 1)


def test_there_is_no_such_worker():
    with pytest.raises(EngineError) as raised:
        offsets(geometry("random", 8, 2), 2, 1)
    assert raised.value.errno == errno.EINVAL


# An independent observer: the offsets in the system calls that the kernel really got.

_OBSERVED = """
import os, sys
from pytest_gpuio.engine import Clock, Pool, Run, RunSpec
fd = os.open(sys.argv[1], os.O_RDWR)
spec = RunSpec(engine=sys.argv[2], fd=fd, jobs=2, depth=int(sys.argv[3]), block=4096, order=sys.argv[4],
               read_percent=60, region_offset=8192, region_bytes=1 << 20, zipf_theta=1.1, seed=11, pattern_seed=7)
with Run(spec, Clock.calibrate(), Pool()) as run:
    window = run.window(301)
    workers = [worker.tid for worker in window.workers]
    window = run.window(200)
print(*workers)
"""


_CALLS = {
    "psync": re.compile(r"^p(read|write)64\(.*, 4096, (\d+)\)", re.MULTILINE),
    "libaio": re.compile(r"aio_lio_opcode=IOCB_CMD_P(READ|WRITE),.*?aio_offset=(\d+)"),
}


@pytest.mark.parametrize("order", ["sequential", "random", "zipf"])
@pytest.mark.parametrize("engine", ["psync", "libaio"])
def test_offsets_and_operations_as_the_kernel_saw_them(tmp_path, traced, engine, order):
    path = tmp_path / "target"
    path.write_bytes(bytes((1 << 20) + 8192))
    depth = 1 if engine == "psync" else 4
    workers, logs = traced("pread64,pwrite64,io_submit", _OBSERVED, path, engine, depth, order)
    spec = RunSpec(
        engine=engine, jobs=2, depth=depth, block=4096, order=order, read_percent=60, region_offset=8192,
        region_bytes=1 << 20, zipf_theta=1.1, seed=11,
    )  # fmt: skip
    # 301 and then 200 I/Os over two workers, the stream going on from window to window.
    for worker, (tid, count) in enumerate(zip(workers.split(), (151 + 100, 150 + 100), strict=True)):
        seen = [(int(place), int(kind.lower() == "write")) for kind, place in _CALLS[engine].findall(logs[tid])]
        assert seen == list(zip(*offsets(spec, worker, count), strict=True))
