"""Stores past the CPU's caches, on ordinary memory."""

import mmap
import os

import pytest

from pytest_gpuio.core.errors import EngineError
from pytest_gpuio.engine import persist


@pytest.mark.parametrize(("offset", "size"), [(0, 4096), (63, 1), (100, 1000), (4095, 1), (8, 0)])
def test_bytes_arrive_and_none_around_them_changes(offset, size):
    data = os.urandom(size)
    with mmap.mmap(-1, 4096) as memory:
        memory[:] = b"\xee" * 4096
        answer = persist(memory, offset, data)
        assert isinstance(answer, bool)
        assert memory[:] == b"\xee" * offset + data + b"\xee" * (4096 - offset - size)


def test_what_does_not_fit_or_cannot_be_written():
    with mmap.mmap(-1, 4096) as memory:
        for offset in (-1, 4096, 4090):
            with pytest.raises(EngineError, match="do not fit 4,096 bytes of map"):
                persist(memory, offset, b"1234567")
    with pytest.raises(EngineError, match="writable"):
        persist(b"1234567", 0, b"1")
