"""The yardstick does the same requests as a run, and says when it cannot."""

from __future__ import annotations

import errno
import os
from pathlib import Path

import pytest

from pytest_gpuio.core.errors import EngineError
from pytest_gpuio.engine import bare_uring, probe

MIB = 1 << 20


@pytest.fixture(autouse=True)
def _ring() -> None:
    reason = probe("io_uring")
    if reason is not None:
        pytest.skip(reason)


@pytest.fixture
def path(target, tmp_path) -> Path:
    target()
    return next(tmp_path.glob("gpuio-test-*"))


def rchar() -> int:
    lines = Path("/proc/self/io").read_text().splitlines()
    return int(dict(line.split(": ") for line in lines)["rchar"])


@pytest.mark.parametrize("split", [False, True])
@pytest.mark.parametrize("batch", [1, 8])
@pytest.mark.parametrize("knobs", [set(), {"fixed_buffers", "registered_files", "single_issuer"}])
def test_it_reads_what_it_says(path, split, batch, knobs):
    result = bare_uring(path=path, region_bytes=4 * MIB, depth=8, batch=batch, seconds=0.02, split=split, knobs=knobs)
    assert result.ios >= 8
    assert 0.0 < result.cpu_seconds <= result.seconds + 0.01
    assert result.seconds >= 0.02


def test_direct_reads_are_what_the_block_layer_counts(path):
    def read_bytes() -> int:
        lines = Path("/proc/self/io").read_text().splitlines()
        return int(dict(line.split(": ") for line in lines)["read_bytes"])

    fd = os.open(path, os.O_RDONLY)
    os.fsync(fd)
    os.close(fd)
    before = read_bytes()
    try:
        result = bare_uring(path=path, region_bytes=4 * MIB, seconds=0.05, direct=True)
    except OSError as error:
        pytest.skip(f"the temporary folder takes no O_DIRECT: {error}")
    counted = read_bytes() - before
    if counted == 0:
        pytest.skip("the file system of the temporary folder does not count direct reads (tmpfs)")
    assert counted == result.ios * 4096


@pytest.mark.parametrize("split", [False, True])
def test_nops(split):
    before = rchar()
    result = bare_uring(seconds=0.02, split=split, cpu=min(os.sched_getaffinity(0)))
    assert result.ios > 1000
    assert rchar() - before < result.ios * 4096 // 4  # what else was read: /proc


@pytest.mark.parametrize(
    ("change", "code", "words"),
    [
        ({"region_bytes": 8 * MIB}, errno.EIO, "failed or was short"),
        ({"region_bytes": 0}, errno.EINVAL, "holds 0 blocks"),
        ({"depth": 0}, errno.EINVAL, "queue depth 0"),
        ({"batch": 64}, errno.EINVAL, "submit batch 64"),
        ({"cpu": 100_000}, errno.EINVAL, "pinned to CPU 100000"),
        ({"seconds": 0.0}, 0, "more than 0"),
        ({"knobs": {"turbo"}}, 0, "turbo"),
    ],
)
def test_what_cannot_work(path, change, code, words):
    asked = {"path": path, "region_bytes": 4 * MIB, "seconds": 0.2, **change}
    with pytest.raises(EngineError, match=words) as raised:
        bare_uring(**asked)
    assert raised.value.errno == code


def test_a_file_that_is_not_there(tmp_path):
    with pytest.raises(FileNotFoundError):
        bare_uring(path=tmp_path / "nowhere", region_bytes=MIB)
