import os
import subprocess
import sys
import zlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_gpuio.core.errors import ConfigError, GpuioError
from pytest_gpuio.results import journal
from pytest_gpuio.results.journal import Contents, Entry, Journal


@pytest.fixture
def path(tmp_path):
    return tmp_path / "j.jsonl"


def write(path, *bodies):
    with Journal.create(path) as out:
        for body in bodies:
            out.append("cell", body)


def test_entries_read_back_in_order(path):
    with Journal.create(path) as out:
        out.append("cell", {"n": 1, "text": 'line\nbreak "é"'})
        out.append("void", {"gate": "littles_law"})
    assert journal.read(path) == Contents(
        (Entry("cell", {"n": 1, "text": 'line\nbreak "é"'}), Entry("void", {"gate": "littles_law"})), torn=False
    )


def test_each_line_carries_the_crc32_of_its_data(path):
    write(path, {"a": 1})
    data = b'{"kind":"cell","body":{"a":1}}'
    assert path.read_bytes() == b'{"crc":"%08x","data":%b}\n' % (zlib.crc32(data), data)


def test_a_finished_entry_survives_a_kill(path):
    code = (
        "import os, sys; from pytest_gpuio.results.journal import Journal\n"
        "out = Journal.create(sys.argv[1]); out.append('cell', {'n': 1}); os.kill(os.getpid(), 9)"
    )
    assert subprocess.run([sys.executable, "-c", code, path], timeout=60).returncode == -9
    assert journal.read(path) == Contents((Entry("cell", {"n": 1}),), torn=False)


def test_an_existing_file_is_never_touched(path):
    path.write_text("precious")
    with pytest.raises(ConfigError, match="exists already"):
        Journal.create(path)
    assert path.read_text() == "precious"
    link = path.with_name("link")
    link.symlink_to(path.with_name("target"))
    with pytest.raises(ConfigError, match="exists already"):
        Journal.create(link)
    assert not path.with_name("target").exists()


def test_a_folder_that_is_not_there_is_named(tmp_path):
    with pytest.raises(ConfigError, match="nowhere/j cannot be made: No such file"):
        Journal.create(tmp_path / "nowhere" / "j")


def test_each_run_gets_its_own(tmp_path):
    journals = [Journal.create_in(tmp_path, "run") for _ in range(3)]
    names = {out.path.name for out in journals}
    for out in journals:
        out.close()
        out.close()
    assert len(names) == 3
    assert all(name.startswith("run-") and f"-{os.getpid()}" in name and name.endswith(".jsonl") for name in names)


@given(st.integers(0, 1_000))
def test_a_torn_last_line_is_left_out(tmp_path_factory, cut):
    path = tmp_path_factory.mktemp("torn") / "j"
    write(path, {"n": 1}, {"n": 2, "text": "x" * 40})
    whole = path.read_bytes()
    first = whole.index(b"\n") + 1
    end = first + cut % (len(whole) - first)  # anywhere from nothing to all but the line's end
    path.write_bytes(whole[:end])
    assert journal.read(path) == Contents((Entry("cell", {"n": 1}),), torn=end > first)


def test_a_corrupt_middle_line_is_reported_by_number(path):
    write(path, {"n": 1}, {"n": 2}, {"n": 3})
    path.write_bytes(path.read_bytes().replace(b'"n":2', b'"n":7'))
    with pytest.raises(GpuioError, match=r"j\.jsonl:2: corrupt journal line: checksum is [0-9a-f]{8}, not [0-9a-f]{8}"):
        journal.read(path)


@pytest.mark.parametrize("line", [b"", b"{}", b"\xff\xfe", b'{"crc":"zz","data":{}}'])
def test_a_strange_line_is_reported_by_number(path, line):
    write(path, {"n": 1})
    path.write_bytes(path.read_bytes() + line + b"\n")
    with pytest.raises(GpuioError, match=r"j\.jsonl:2: corrupt journal line: not of the form"):
        journal.read(path)


def test_an_unreadable_journal_is_named(tmp_path):
    with pytest.raises(GpuioError, match="nowhere cannot be read"):
        journal.read(tmp_path / "nowhere")


def test_a_nan_is_refused_and_the_next_line_is_fine(path):
    with Journal.create(path) as out:
        with pytest.raises(GpuioError, match=r"entry\.body\.x cannot be written"):
            out.append("cell", {"x": float("nan")})
        out.append("cell", {"n": 1})
    assert journal.read(path).entries == (Entry("cell", {"n": 1}),)


def test_a_line_that_does_not_fit_is_taken_back(path):
    """A real full file: the limit on its size cuts the second line, which must not spoil what follows."""
    code = """
import resource, signal, sys
from pytest_gpuio.core.errors import GpuioError
from pytest_gpuio.results.journal import Journal
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
out = Journal.create(sys.argv[1])
out.append("cell", {"n": 1})
resource.setrlimit(resource.RLIMIT_FSIZE, (200, resource.RLIM_INFINITY))
try:
    out.append("cell", {"text": "x" * 500})
except GpuioError as error:
    print(error)
resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
out.append("cell", {"n": 3})
"""
    done = subprocess.run([sys.executable, "-c", code, path], capture_output=True, text=True, timeout=60, check=True)
    assert done.stdout.endswith("cannot be written: File too large.\n")
    assert journal.read(path) == Contents((Entry("cell", {"n": 1}), Entry("cell", {"n": 3})), torn=False)


def test_a_line_without_its_own_sync_is_synced_with_the_next(path, monkeypatch):
    synced = []
    monkeypatch.setattr(os, "fsync", lambda _fd: synced.append(path.read_bytes().count(b"\n")))
    with Journal.create(path) as out:
        synced.clear()  # that of the folder
        out.append("skip", {}, sync=False)
        out.append("skip", {}, sync=False)
        assert synced == []
        out.append("cell", {})
        out.sync()
        assert synced == [3]
        out.append("skip", {}, sync=False)
        out.sync()
        assert synced == [3, 4]
