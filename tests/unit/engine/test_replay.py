"""Records through the typed wrapper: bytes, order and failures; the job loop itself is tested in cnative/tests."""

from __future__ import annotations

import os
from array import array
from pathlib import Path

import pytest

from pytest_gpuio.core.errors import EngineError
from pytest_gpuio.engine import NEVER, Clock, Pool, Replay, Run, RunSpec, pattern_fill, results_for
from pytest_gpuio.engine.replay import GROUP, RECORD, RESULTS

MIB = 1 << 20


@pytest.fixture(scope="module")
def clock() -> Clock:
    return Clock.calibrate(None)


@pytest.fixture
def pool():
    pool = Pool()
    yield pool
    pool.close()


@pytest.fixture
def fds(tmp_path: Path):
    """Two files of a MiB with the patterns 5 and 6."""
    opened = []
    for seed in (5, 6):
        content = bytearray(MIB)
        pattern_fill(memoryview(content), 0, seed)
        (tmp_path / str(seed)).write_bytes(content)
        opened.append(os.open(tmp_path / str(seed), os.O_RDWR))
    yield tuple(opened)
    for fd in opened:
        os.close(fd)


def some(files, **changed) -> Replay:
    """Ten groups of ten reads, each group a chain of its own."""
    records = b"".join(RECORD.pack(i * 4096, 1000 + i, i % 2, 0, 0) for i in range(100))
    groups = b"".join(GROUP.pack(i * 10, -1, 0, i, 0) for i in range(10))
    given = {"records": records, "groups": groups, "chains": 10, "fds": files, "seeds": (5, 6)}
    return Replay(**(given | changed))


def spec(replay: Replay, **changed) -> RunSpec:
    return RunSpec("psync", jobs=2, block=4096, verify=True, timeout_s=20, replay=replay, **changed)


def test_every_record_is_read_once_and_its_bytes_are_right(fds, clock, pool) -> None:
    with Run(spec(some(fds)), clock, pool) as run:
        results = results_for(10)
        window = run.replay(0, 10, results)
        assert (window.ios, window.bytes) == (100, sum(1000 + i for i in range(100)))
        assert window.verified == 100
        assert (window.bad, window.errors, window.short_ios) == (0, 0, 0)
        assert run.sweep().bad == 0
        for group in range(10):
            due, start, end, consume, computed = results[RESULTS * group : RESULTS * (group + 1)]
            assert due <= start <= end == consume != NEVER
            assert computed == 0
        assert run.replay(4, 2, results).ios == 20


def test_a_seed_that_is_another_files_is_found_out(fds, clock, pool) -> None:
    with Run(spec(some(fds, seeds=(5, 7))), clock, pool) as run:
        assert run.replay(0, 10, results_for(10)).bad == 50


def test_writes_and_fsyncs_reach_the_file(fds, clock, pool) -> None:
    records = RECORD.pack(8192, 4096, 1, 1, 0) + RECORD.pack(0, 0, 1, 2, 0)
    replay = some(fds, records=records, groups=GROUP.pack(0, -1, 0, 0, 0), chains=1)
    before = os.pread(fds[1], MIB, 0)
    with Run(spec(replay, read_percent=0), clock, pool) as run:
        window = run.replay(0, 1, results_for(1))
        assert (window.ios, window.writes, window.syncs) == (1, 1, 1)
        assert run.sweep().checked == 1
    after = os.pread(fds[1], MIB, 0)
    assert after[:8192] == before[:8192]
    assert after[8192:12288] != before[8192:12288]
    assert after[12288:] == before[12288:]


@pytest.mark.parametrize(
    ("changed", "words"),
    [
        ({"records": b"123"}, "3 bytes of records are no whole ones of 16"),
        ({"groups": b""}, "0 bytes of groups"),
        ({"seeds": (5,)}, "2 files have 1 pattern seeds"),
        ({"chains": -1}, "does not fit the engine"),
        ({"chains": 3}, "group 3 is of chain 3 of 3"),
        ({"fds": (-1, -1)}, "is not open"),
    ],
)
def test_what_cannot_be_run_is_refused(fds, clock, pool, changed, words) -> None:
    with pytest.raises(EngineError, match=words):
        Run(spec(some(fds, **changed)), clock, pool)


def test_windows_must_name_groups_and_have_room(fds, clock, pool) -> None:
    with Run(spec(some(fds)), clock, pool) as run:
        with pytest.raises(EngineError, match="groups 9 to 11 of 10"):
            run.replay(9, 2, results_for(2))
        with pytest.raises(EngineError, match="name at least one"):
            run.replay(-1, 2, results_for(2))
        with pytest.raises(EngineError, match="room for 4 numbers"):
            run.replay(0, 2, array("Q", [0] * 4))
        with pytest.raises(EngineError, match="replays records"):
            run.window(10)
