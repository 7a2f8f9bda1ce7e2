"""Laying out devdax devices: logic on a file that stands in for one; the real thing is met in the virtual machine."""

from contextlib import nullcontext

import pytest

from pytest_gpuio.core.errors import ConfigError, TargetError
from pytest_gpuio.engine import pattern_check
from pytest_gpuio.targets import (
    HEADER_BYTES,
    LayoutStopped,
    RawDevice,
    devdax_layout,
    devdax_map,
    lay_out_devdax,
    look_at_devdax,
)
from pytest_gpuio.targets.devdax_map import devdax_geometry, devdax_header
from pytest_gpuio.targets.header import decode

SIZE = 24 << 20
DATA = 12 << 20


@pytest.fixture
def stand_in(tmp_path, monkeypatch):
    """A file as if it were /dev/dax0.0 of 24 MiB in steps of 2 MiB."""
    file = tmp_path / "dax0.0"
    file.write_bytes(bytes(SIZE))
    device = RawDevice(str(file), str(file), generic=False, block="dax0.0", number=(252, 0), devdax=True)
    for module in (devdax_layout, devdax_map):
        monkeypatch.setattr(module, "devdax_geometry", lambda _device: (SIZE, 2 << 20))
    monkeypatch.setattr(devdax_layout, "claimed", lambda _device: nullcontext())
    monkeypatch.setattr(devdax_layout, "check_unused", lambda _device, **_force: None)
    monkeypatch.setattr(devdax_layout, "check_allowed", lambda _device, _allowed: None)
    return device, file


def lay_out(device, size=DATA, **more):
    said = []
    return lay_out_devdax(device, size, allowed=[device.node], announce=said.append, **more), said


def test_a_stand_in_gets_header_and_pattern(stand_in):
    device, file = stand_in
    done = []
    made, said = lay_out(device, progress=lambda *values: done.append(values))
    assert said == [f"overwriting the first {HEADER_BYTES + DATA:,} of {SIZE:,} bytes of {file}, which held zeros"]
    assert (made.data_offset, made.data_bytes, made.reused) == (HEADER_BYTES, DATA, False)
    assert done == [(8 << 20, DATA), (DATA, DATA)]
    content = file.read_bytes()
    assert decode(content[:4096], "x").state == "complete"
    assert pattern_check(content[HEADER_BYTES : HEADER_BYTES + DATA], HEADER_BYTES, made.pattern_seed) == (0, 0)
    assert not any(content[HEADER_BYTES + DATA :])
    assert devdax_header(device).pattern_seed == made.pattern_seed


def test_a_stand_in_is_reused_until_others_write_to_it(stand_in):
    device, file = stand_in
    first, _ = lay_out(device)
    again, said = lay_out(device, DATA - 65536)
    assert (again.reused, again.pattern_seed, said) == (True, first.pattern_seed, [])
    with file.open("r+b") as opened:
        opened.seek(HEADER_BYTES)
        opened.write(b"stranger")
    made, said = lay_out(device)
    assert (made.reused, said[0].endswith("an older layout of ours")) == (False, True)


def test_a_stand_in_with_a_signature_needs_force(stand_in):
    device, file = stand_in
    with file.open("r+b") as opened:
        opened.write(b"XFSB")
    with pytest.raises(TargetError, match=r"carries the signature of XFS file system, .* add --gpuio-force"):
        lay_out(device)
    assert file.read_bytes()[:4] == b"XFSB"
    assert lay_out(device, force=True)[1][0].endswith("which held the signature of XFS file system")


def test_a_stand_in_that_is_stopped_or_too_small(stand_in):
    device, file = stand_in
    with pytest.raises(LayoutStopped, match="after 0 of 12,582,912 bytes"):
        lay_out(device, stop=lambda: True)
    assert decode(file.read_bytes()[:4096], "x").state == "laying_out"
    with pytest.raises(ConfigError, match=r"has 25,165,824 bytes, .* use --gpuio-size=22528K or less"):
        lay_out(device, SIZE)
    with pytest.raises(ConfigError, match="above zero"):
        lay_out(device, 0)


def test_a_stand_in_is_read_as_it_is(stand_in):
    device, file = stand_in
    with file.open("r+b") as opened:
        opened.write(b"x" * (DATA // 2))
    found = look_at_devdax(device, DATA)
    assert (found.data_offset, found.data_bytes) == (0, DATA)
    assert found.zero_share == pytest.approx(0.5, abs=0.02)
    with pytest.raises(ConfigError, match=r"are to be read: use --gpuio-size=24576K or less"):
        look_at_devdax(device, SIZE + 1)


def test_geometry_is_sysfs_s_word(tmp_path):
    device = RawDevice("/dev/dax0.0", "/dev/dax0.0", generic=False, block="dax0.0", number=(252, 0), devdax=True)
    folder = tmp_path / "sys/dev/char/252:0"
    folder.mkdir(parents=True)
    with pytest.raises(TargetError, match="no size and alignment"):
        devdax_geometry(device, str(tmp_path))
    (folder / "size").write_text("531628032\n")
    (folder / "align").write_text("2097152\n")
    assert devdax_geometry(device, str(tmp_path)) == (531628032, 2 << 20)
