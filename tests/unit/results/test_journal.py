import os
import re
import subprocess
import sys
import zlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_gpuio.core.errors import Busy, ConfigError, GpuioError
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


def test_a_journal_that_is_being_written_is_read_also_without_its_name(path):
    with Journal.create(path) as out:
        out.append("start", {"n": 0})
        assert [line.kind for line in out.lines()] == ["start"]
        out.append("cell", {"n": 1})
        path.unlink()
        out.append("cell", {"n": 2})
        assert [line.raw for line in out.lines() if line.kind == "cell"] == [b'{"n":1}', b'{"n":2}']


def test_a_journal_that_cannot_be_read_any_more_is_an_error_with_its_name(path):
    with Journal.create(path) as out:
        out.append("start", {"n": 0})
    with pytest.raises(GpuioError, match=rf"journal {re.escape(str(path))} cannot be read: Bad file descriptor\."):
        list(out.lines())


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


def test_a_journal_goes_on_where_it_was_left(path):
    out, repaired = Journal.go_on(path)
    with out:
        out.append("cell", {"n": 1}, key="0a", at=12.25)
    assert not repaired
    out, repaired = Journal.go_on(path)
    with out:
        out.append("void", {"n": 2}, key="0b")
    assert not repaired
    assert [(line.kind, line.key, line.at, line.number, line.body()) for line in journal.scan(path)] == [
        ("cell", "0a", 12.25, 1, {"n": 1}),
        ("void", "0b", 0.0, 2, {"n": 2}),
    ]


@given(cut=st.integers(min_value=0), bodies=st.lists(st.dictionaries(st.text(max_size=4), st.integers()), max_size=5))
def test_going_on_after_a_cut_anywhere_keeps_every_complete_line(tmp_path_factory, cut, bodies):
    path = tmp_path_factory.mktemp("cut") / "j.jsonl"
    out, _ = Journal.go_on(path)
    with out:
        for number, body in enumerate(bodies):
            out.append("cell", body, key=f"{number:x}")
    whole = path.read_bytes()
    cut %= len(whole) + 1
    path.write_bytes(whole[:cut])
    complete = whole[:cut].count(b"\n")
    out, repaired = Journal.go_on(path)
    with out:
        out.append("end", {})
    assert repaired == (cut > 0 and whole[cut - 1 : cut] != b"\n")
    assert [line.body() for line in journal.scan(path)] == [*bodies[:complete], {}]


@given(place=st.integers(min_value=0), bit=st.integers(0, 7))
def test_a_flipped_bit_is_found_and_the_file_left_as_it_is(tmp_path_factory, place, bit):
    path = tmp_path_factory.mktemp("flip") / "j.jsonl"
    write(path, {"a": 1}, {"b": 2}, {"c": 3})
    spoilt = bytearray(path.read_bytes())
    place %= len(spoilt)
    spoilt[place] ^= 1 << bit
    path.write_bytes(spoilt)
    try:
        out, repaired = Journal.go_on(path)
    except GpuioError:
        assert path.read_bytes() == spoilt
        return
    # Only a broken end of the last line looks like a writer that died inside it.
    out.close()
    assert repaired
    assert place == len(spoilt) - 1
    assert [line.body() for line in journal.scan(path)] == [{"a": 1}, {"b": 2}]


def test_a_second_writer_is_refused_until_the_first_is_gone(path):
    first, _ = Journal.go_on(path)
    first.append("cell", {})
    assert journal.is_being_written(path)
    code = "import sys; from pytest_gpuio.results.journal import Journal; Journal.go_on(sys.argv[1])"
    other = subprocess.run([sys.executable, "-c", code, path], capture_output=True, text=True, timeout=60)
    assert "another process is writing journal" in other.stderr
    assert list(journal.scan(path)), "reading takes no lock, and drops none"
    with pytest.raises(Busy):
        Journal.go_on(path)
    first.close()
    assert not journal.is_being_written(path)
    Journal.go_on(path)[0].close()


@pytest.mark.parametrize("content", [b"precious\n", b'{"crc":"x', b"{}\n"])
def test_what_is_no_journal_is_not_gone_on_with(path, content):
    path.write_bytes(content)
    if content.startswith(b'{"crc'):
        out, repaired = Journal.go_on(path)  # a first line that was cut off
        out.close()
        assert repaired
        assert path.read_bytes() == b""
        return
    with pytest.raises(ConfigError, match="is no journal"):
        Journal.go_on(path)
    assert path.read_bytes() == content


def test_a_journal_that_cannot_be_opened_is_told(path):
    with pytest.raises(ConfigError, match="cannot be opened"):
        Journal.go_on(path.with_name("no") / "j.jsonl")
    path.mkdir()
    with pytest.raises(ConfigError, match=r"cannot be opened|is no journal"):
        Journal.go_on(path)


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


def test_an_interrupt_inside_a_line_leaves_no_part_of_it(path, monkeypatch):
    out, _ = Journal.go_on(path)
    with out:
        out.append("cell", {"n": 1}, key="01")
        write = os.write

        def half(fd, data):
            write(fd, bytes(data)[:10])
            raise KeyboardInterrupt

        monkeypatch.setattr(os, "write", half)
        with pytest.raises(KeyboardInterrupt):
            out.append("cell", {"n": 2}, key="02")
        monkeypatch.undo()
        out.append("end", {})
    assert [line.kind for line in journal.scan(path)] == ["cell", "end"]
