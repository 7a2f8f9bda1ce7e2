from __future__ import annotations

import errno
from pathlib import Path

import pytest

from pytest_gpuio.core.errors import EngineError
from pytest_gpuio.engine import Clock, Pool, Run, RunSpec

MIB = 1 << 20


def test_grows_aligned_and_never_shrinks(pool: Pool):
    assert pool.info().bytes == 0
    pool.reserve(3 * MIB)
    first = pool.info()
    assert first.base % (2 * MIB) == 0
    assert first.bytes == 4 * MIB
    assert first.huge_bytes <= first.bytes
    pool.reserve(MIB)
    assert pool.info() == first


def test_huge_bytes_agree_with_smaps(pool: Pool):
    pool.reserve(8 * MIB)
    info = pool.info()
    inside, found = False, None
    for line in Path("/proc/self/smaps").read_text().splitlines():
        head = line.split(maxsplit=1)[0]
        if "-" in head and not head.endswith(":"):
            low, high = (int(part, 16) for part in head.split("-"))
            inside = low <= info.base < high
        elif inside and head == "AnonHugePages:":
            found = int(line.split()[1]) * 1024
            break
    assert found is not None
    assert info.huge_bytes == min(found, info.bytes)


def test_more_than_there_is(pool: Pool):
    with pytest.raises(EngineError, match="lower block size, queue depth or jobs") as raised:
        pool.reserve(1 << 60)
    assert raised.value.errno == errno.ENOMEM


def test_one_run_at_a_time(pool: Pool, clock: Clock):
    spec = RunSpec(engine="null", region_bytes=MIB)
    with Run(spec, clock, pool):
        with pytest.raises(EngineError, match="in use by another run") as raised:
            Run(spec, clock, pool)
        assert raised.value.errno == errno.EBUSY
        with pytest.raises(EngineError, match="cannot grow"):
            pool.reserve(64 * MIB)
    with Run(spec, clock, pool) as run:
        assert run.window(10).ios == 10


def test_closed():
    pool = Pool()
    pool.close()
    pool.close()
    with pytest.raises(EngineError, match="pool is closed"):
        pool.reserve(1)
    with pytest.raises(EngineError, match="pool is closed"):
        pool.info()
