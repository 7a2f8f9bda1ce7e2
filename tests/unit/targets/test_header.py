"""The header that proves that a file is ours."""

import json
import zlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_gpuio.core.errors import TargetError
from pytest_gpuio.targets.header import HEADER_BYTES, HEADER_RECORD, Header, decode, read_header

HEADER = Header("complete", 1 << 30, 123456789, "2026-01-02T03:04:05+00:00")


@given(st.sampled_from(["complete", "laying_out"]), st.integers(0, 2**60), st.integers(0, 2**48), st.text(max_size=40))
def test_round_trip(state, data_bytes, seed, created):
    header = Header(state, data_bytes, seed, created)
    record = header.encode()
    assert len(record) == HEADER_RECORD
    assert decode(record, "f") == header


def test_the_format_is_readable_json_in_one_sector():
    record = HEADER.encode()
    text = record.rstrip(b"\0")
    assert len(text) <= 512
    fields = json.loads(text)
    assert fields["magic"] == "pytest-gpuio target"
    assert (fields["version"], fields["state"], fields["data_bytes"]) == (1, "complete", 1 << 30)
    assert HEADER_BYTES == 2 * 1024 * 1024


@given(st.binary(max_size=5000))
def test_any_bytes_are_foreign(data):
    assert decode(data, "f") is None


@pytest.mark.parametrize("data", [b"", b"{", b"{}", b'{"magic": "other"}', b"\0" * HEADER_RECORD])
def test_foreign(data):
    assert decode(data, "f") is None


@given(st.integers(24, len(HEADER.encode().rstrip(b"\0")) - 1), st.integers(1, 255))
def test_every_changed_byte_is_noticed(position, change):
    record = bytearray(HEADER.encode())
    record[position] ^= change
    try:
        decoded = decode(bytes(record), "f")
    except TargetError:
        return
    # A change that JSON does not see (a blank, an escape) leaves the same header.
    assert decoded is None or decoded == HEADER


def test_damage_says_what_to_do():
    record = HEADER.encode().replace(b"complete", b"complete?")
    with pytest.raises(TargetError, match=r"/x/f begins like a gpuio target, but its header is damaged.*remove it"):
        decode(record[:HEADER_RECORD], "/x/f")
    with pytest.raises(TargetError, match="damaged"):
        decode(HEADER.encode()[:60], "/x/f")


def test_another_version_is_ours_but_promises_nothing():
    fields = {"magic": "pytest-gpuio target", "version": 99, "anything": [1]}
    checksum = f"{zlib.crc32(json.dumps(fields, sort_keys=True).encode()):08x}"
    header = decode(json.dumps(fields | {"checksum": checksum}).encode(), "f")
    assert header is not None
    assert (header.state, header.data_bytes, header.version) == ("laying_out", 0, 0)


def test_version_1_with_missing_fields_is_damaged():
    fields = {"magic": "pytest-gpuio target", "version": 1}
    checksum = f"{zlib.crc32(json.dumps(fields, sort_keys=True).encode()):08x}"
    with pytest.raises(TargetError, match="damaged"):
        decode(json.dumps(fields | {"checksum": checksum}).encode(), "f")


def test_reading_from_a_file(tmp_path):
    file = tmp_path / "f"
    file.write_bytes(HEADER.encode() + b"data")
    with file.open("rb") as opened:
        assert read_header(opened.fileno(), str(file)) == HEADER
