from __future__ import annotations

import zlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_gpuio.core.errors import EngineError
from pytest_gpuio.engine import pattern_check, pattern_fill

sectors = st.integers(1, 16)
offsets = st.integers(0, 1 << 50).map(lambda sector: sector * 512)
seeds = st.integers(0, (1 << 64) - 1)


def pattern(count: int, offset: int, seed: int) -> bytearray:
    buffer = bytearray(count * 512)
    pattern_fill(buffer, offset, seed)
    return buffer


@given(sectors, offsets, seeds)
def test_what_is_filled_is_right_there_and_wrong_elsewhere(count, offset, seed):
    buffer = pattern(count, offset, seed)
    assert pattern_check(buffer, offset, seed) == (0, 0)
    assert pattern_check(buffer, offset + 512, seed) == (count, offset + 512)
    assert pattern_check(buffer, offset, seed ^ 1) == (count, offset)


@given(sectors, offsets, seeds, st.data())
def test_any_changed_bit_is_found_where_it_is(count, offset, seed, data):
    buffer = pattern(count, offset, seed)
    bit = data.draw(st.integers(0, count * 4096 - 1))
    buffer[bit // 8] ^= 1 << bit % 8
    assert pattern_check(buffer, offset, seed) == (1, offset + bit // 4096 * 512)


@given(st.integers(1, 8), st.integers(1, 8), offsets, seeds)
def test_a_file_does_not_depend_on_the_pieces_it_is_filled_in(first, second, offset, seed):
    whole = pattern(first + second, offset, seed)
    assert whole == pattern(first, offset, seed) + pattern(second, offset + first * 512, seed)


def test_incompressible_and_free_of_duplicates():
    buffer = bytes(pattern(2048, 0, 1))
    assert len(zlib.compress(buffer, 9)) > len(buffer)
    blocks = [buffer[at + 8 : at + 512] for at in range(0, len(buffer), 512)]
    assert len(set(blocks)) == len(blocks)


@pytest.mark.parametrize(("size", "offset"), [(511, 0), (512, 1), (513, 0), (512, -512)])
def test_parts_of_sectors_are_refused(size, offset):
    with pytest.raises(EngineError, match="not whole sectors of 512"):
        pattern_fill(bytearray(size), offset, 0)
    with pytest.raises(EngineError, match="not whole sectors of 512"):
        pattern_check(bytearray(size), offset, 0)


def test_memory_that_cannot_be_written():
    with pytest.raises(EngineError, match="writable memory"):
        pattern_fill(bytes(512), 0, 0)  # type: ignore[arg-type]
    with pytest.raises(EngineError, match="needs contiguous memory"):
        pattern_check(memoryview(bytearray(1024))[::2], 0, 0)
