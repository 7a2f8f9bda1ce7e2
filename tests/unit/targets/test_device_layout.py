"""Laying out raw devices: header and pattern on the medium, reused while whole, begun anew when not."""

import errno
import os
from pathlib import Path

import pytest

from pytest_gpuio.core.errors import Busy, TargetError
from pytest_gpuio.engine import pattern_check
from pytest_gpuio.targets import (
    HEADER_BYTES,
    LayoutStopped,
    direct_alignment,
    drop,
    held,
    lay_out_device,
    open_target,
    raw_device,
    refuses_direct,
    resident_bytes,
    warm,
)
from pytest_gpuio.targets.header import Header, decode

DATA = 8 << 20


@pytest.fixture
def device(loop_over_tmpfs):
    return loop_over_tmpfs(sector=512)


def lay_out(device, size=DATA, **more):
    said = []
    made = lay_out_device(raw_device(device), size, allowed=[device], announce=said.append, **more)
    return made, said


def content(device):
    return Path(device).read_bytes()


def test_header_and_pattern_are_there_and_nothing_beyond(device):
    with Path(device).open("r+b") as file:
        file.write(b"\xaa" * (16 << 20))
    done = []
    made, said = lay_out(device, progress=lambda *values: done.append(values))
    assert said == [
        f"overwriting the first {HEADER_BYTES + DATA:,} of 16,777,216 bytes of {device}, which held unknown data"
    ]
    assert (made.path, made.data_offset, made.data_bytes, made.reused) == (device, HEADER_BYTES, DATA, False)
    assert done == [(DATA, DATA)]
    held_bytes = content(device)
    header = decode(held_bytes[:4096], device)
    assert (header.state, header.data_bytes, header.pattern_seed) == ("complete", DATA, made.pattern_seed)
    assert not any(held_bytes[4096:HEADER_BYTES])
    assert pattern_check(held_bytes[HEADER_BYTES : HEADER_BYTES + DATA], HEADER_BYTES, made.pattern_seed) == (0, 0)
    assert held_bytes[HEADER_BYTES + DATA :] == b"\xaa" * ((16 << 20) - HEADER_BYTES - DATA)


def test_it_is_reused_while_large_enough(device):
    first, _ = lay_out(device)
    before = content(device)
    for size in (DATA, DATA - 1, 65536):
        again, said = lay_out(device, size)
        assert (again.reused, again.data_bytes, again.pattern_seed, said) == (True, DATA, first.pattern_seed, [])
    assert content(device) == before
    larger, said = lay_out(device, DATA + 1)
    assert (larger.reused, larger.data_bytes) == (False, DATA + 65536)
    assert said[0].endswith("which held an older layout of ours")


@pytest.mark.parametrize(
    "at", [HEADER_BYTES, HEADER_BYTES + DATA - 512, HEADER_BYTES + (DATA // 65536 - 1) * 32 // 63 * 65536]
)
def test_what_others_overwrote_is_noticed(device, at):
    lay_out(device)
    with Path(device).open("r+b") as file:
        file.seek(at)
        file.write(b"stranger")
    made, said = lay_out(device)
    assert not made.reused
    assert said[0].endswith(f"which held a layout of ours that was overwritten at offset {at:,}")
    assert lay_out(device)[0].reused


def test_a_damaged_header_is_no_permission_and_no_obstacle(device):
    lay_out(device)
    with Path(device).open("r+b") as file:
        file.seek(60)
        file.write(b"#")
    with pytest.raises(TargetError, match="its header is damaged"):
        open_target(device, writable=True, direct=True)
    made, said = lay_out(device)
    assert (made.reused, said[0].endswith("which held unknown data")) == (False, True)


def test_stopped_on_the_way_it_begins_anew(device):
    with pytest.raises(LayoutStopped, match=r"was stopped after 0 of 8,388,608 bytes: what it held there is gone"):
        lay_out(device, stop=lambda: True)
    assert decode(content(device)[:4096], device).state == "laying_out"
    made, said = lay_out(device)
    assert (made.reused, said[0].endswith("an older layout of ours")) == (False, True)


def test_a_write_that_fails_says_where(device, monkeypatch):
    # Logic only: a device that fails on its second piece.
    real = os.pwrite

    def failing(fd, data, offset):
        if offset > HEADER_BYTES:
            raise OSError(errno.EIO, "I/O error")
        return real(fd, data, offset)

    monkeypatch.setattr("pytest_gpuio.targets.device_layout.os.pwrite", failing)
    with pytest.raises(TargetError, match=r"failed after 8,388,608 of 12,582,912 bytes: EIO .*see the kernel's log"):
        lay_out(device, 12 << 20)
    monkeypatch.undo()
    assert decode(content(device)[:4096], device).state == "laying_out"


def test_it_is_opened_as_asked(device):
    made, _ = lay_out(device)
    with held(device) as found:
        assert found.node == device
        fd = open_target(device, writable=True, direct=True)
        try:
            assert os.get_blocking(fd)
            with pytest.raises(Busy), held(device):
                pass
        finally:
            os.close(fd)
    with held(made.path + "-is-not-there") as found:
        assert found is None


def test_its_page_cache_is_seen_dropped_and_warmed(device):
    lay_out(device)
    fd = open_target(device, writable=False, direct=False)
    try:
        assert drop(fd, HEADER_BYTES, DATA) == 0
        assert resident_bytes(fd, HEADER_BYTES, DATA) == 0
        assert warm(fd, HEADER_BYTES, DATA) == DATA
        assert resident_bytes(fd, HEADER_BYTES, DATA) == DATA
        assert resident_bytes(fd, 0, 1 << 40) <= 16 << 20
        assert drop(fd, HEADER_BYTES, DATA) == 0
    finally:
        os.close(fd)


@pytest.mark.parametrize("sector", [512, 4096])
def test_alignment_is_the_device_s_own(loop_over_tmpfs, sector):
    device = loop_over_tmpfs(sector=sector)
    assert direct_alignment(device).offset == sector
    assert refuses_direct(device) is None
    lay_out(device)
    assert lay_out(device)[0].reused


def test_an_older_format_of_ours_is_laid_out_again(device):
    with Path(device).open("r+b") as file:
        file.write(Header("complete", DATA, 7, "then", version=0).encode())
    made, said = lay_out(device)
    assert (made.reused, said[0].endswith("an older layout of ours")) == (False, True)
