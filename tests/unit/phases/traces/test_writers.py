"""What is written is read back the same, and the real fio replays it: same bytes, same time."""

import json
import re
import shutil
import subprocess
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pytest_gpuio.core.errors import ConfigError
from pytest_gpuio.phases import traces
from pytest_gpuio.phases.records import FSYNC, READ, WRITE
from pytest_gpuio.phases.traces import BlockTrace, RequestTrace, fio_job, iolog, mlperf_kv, mooncake, writers
from pytest_gpuio.phases.traces.block_records import of_records, sequential_share, to_records
from pytest_gpuio.phases.traces.block_trace import DISCARD, SYNC

MS = 1_000_000


def block_trace(rows, files=("f0",), **more):
    columns = list(zip(*rows, strict=True))
    return BlockTrace(
        Path("by-hand"),
        "by-hand",
        np.array(columns[0], dtype=np.int64),
        np.array(columns[1], dtype=np.uint8),
        np.array(columns[2], dtype=np.uint32),
        np.array(columns[3], dtype=np.int64),
        np.array(columns[4], dtype=np.int64),
        files,
        **more,
    )


def written(tmp_path, lines):
    path = tmp_path / "written"
    path.write_text("".join(f"{line}\n" for line in lines))
    return path


def same(one, two):
    assert one.op.tolist() == two.op.tolist()
    assert one.offset.tolist() == two.offset.tolist()
    assert one.length.tolist() == two.length.tolist()
    assert [one.files[file] for file in one.file] == [two.files[file] for file in two.file]


# Times in whole microseconds, as an iolog has them, from 0.
ROWS = st.lists(
    st.tuples(st.integers(0, 10**9), st.sampled_from([READ, WRITE, SYNC, DISCARD]), st.integers(0, 2),
              st.integers(0, 1 << 61), st.integers(1, 1 << 31)),
    min_size=1, max_size=30,
)  # fmt: skip


def sorted_rows(rows):
    times = sorted(row[0] * 1000 for row in rows)
    moved = [(0, 0) if row[1] == SYNC else row[3:] for row in rows]
    return [(time - times[0], *row[1:3], *places) for time, row, places in zip(times, rows, moved, strict=True)]


@given(ROWS)
@settings(max_examples=60, deadline=None)
def test_an_iolog_is_read_back_the_same(tmp_path_factory, rows):
    trace = block_trace(sorted_rows(rows), ("f0", "dir/f1", "x"))
    back = traces.load(written(tmp_path_factory.mktemp("w"), iolog.lines(trace)))
    same(trace, back)
    assert back.time_ns.tolist() == trace.time_ns.tolist()
    assert back.files == trace.files


def test_an_iolog_splits_what_fio_cannot_read(tmp_path):
    big = (5 << 30) + 4096
    lines = list(iolog.lines(block_trace([(0, READ, 0, 4096, big)])))
    assert [tuple(map(int, line.split()[3:])) for line in lines if " read " in line] == [
        (4096, 1 << 31), (4096 + (1 << 31), 1 << 31), (4096 + (1 << 32), (1 << 30) + 4096),
    ]  # fmt: skip
    assert traces.load(written(tmp_path, lines)).bytes_of(READ) == big


@pytest.mark.parametrize("name", ["", "a b", "x" * 256, "tab\t"])
def test_names_that_fio_cannot_read(name):
    with pytest.raises(ConfigError, match="cannot be a file of an iolog"):
        list(iolog.lines(block_trace([(0, READ, 0, 0, 1)], (name,))))


@given(ROWS)
@settings(max_examples=60, deadline=None)
def test_mlperf_csv_is_read_back_the_same(tmp_path_factory, rows):
    trace = block_trace(sorted_rows(rows), ("f0", "dir/f1", "x"))
    moves = trace.taken(np.flatnonzero(trace.op <= WRITE))
    if not len(moves):
        return
    back = traces.load(written(tmp_path_factory.mktemp("w"), mlperf_kv.lines(trace)))
    assert back.op.tolist() == moves.op.tolist()
    assert back.length.tolist() == moves.length.tolist()
    assert back.time_ns.tolist() == (moves.time_ns - moves.time_ns[0]).tolist()
    # Distinct stretches of a file are distinct objects.
    stretches = list(zip(moves.file.tolist(), moves.offset.tolist(), moves.length.tolist(), strict=True))
    keys = [back.files[file] for file in back.file]
    assert len(set(stretches)) == len(set(keys)) == len(set(zip(stretches, keys, strict=True)))


def test_mlperf_csv_keeps_tiers_and_stages(tmp_path, trace_file, samples):
    one = traces.load(trace_file(samples["mlperf-kv"][0]))
    two = traces.load(written(tmp_path, mlperf_kv.lines(one)))
    same(one, two)
    assert one.tier.tolist() == two.tier.tolist()
    assert one.stage.tolist() == two.stage.tolist()
    assert one.time_ns.tolist() == two.time_ns.tolist()
    with pytest.raises(ConfigError, match="cannot be a key"):
        list(mlperf_kv.lines(block_trace([(0, READ, 0, 0, 1)], ("a,b",))))


def test_mooncake_is_read_back_the_same(tmp_path, shared):
    one = traces.load(shared("mooncake/synthetic_trace.jsonl"))
    path = written(tmp_path, mooncake.lines(one))
    # Its ids are numbered by first use, so that the published file itself comes out.
    assert path.read_text() == shared("mooncake/synthetic_trace.jsonl").read_text()


def test_bailian_becomes_mooncake(tmp_path, trace_file):
    rows = [(0.0, 512 + 20, 1000), (1.5, 512 + 40, 2000)]  # 34 and 35 blocks of 16 tokens; the first 32 are shared
    text = ""
    for stamp, tokens, last in rows:
        ids = [*range(32), *range(last, last + -(-(tokens - 512) // 16))]
        text += json.dumps(
            {"chat_id": 1, "timestamp": stamp, "input_length": tokens, "output_length": 1, "hash_ids": ids}
        )
        text += "\n"
    back = traces.load(written(tmp_path, mooncake.lines(traces.load(trace_file(text)))))
    assert back.format == "mooncake"
    assert back.block_ids.tolist() == [0, 1, 0, 2]
    assert back.time_ns.tolist() == [0, 1_500_000_000]
    assert back.input_tokens.tolist() == [532, 552]
    odd = RequestTrace(back.path, "x", back.time_ns, back.input_tokens, back.output_tokens, back.block_ids,
                       back.block_start, 384)  # fmt: skip
    with pytest.raises(ConfigError, match="blocks of 384 tokens, which do not fill"):
        list(mooncake.lines(odd))


def test_requests_without_prefixes_become_mooncake(tmp_path, trace_file, samples):
    back = traces.load(written(tmp_path, mooncake.lines(traces.load(trace_file(samples["azure"][0])))))
    assert back.input_tokens.tolist() == [4808, 110]
    assert len(set(back.block_ids.tolist())) == 11


@pytest.fixture
def fio():
    found = shutil.which("fio")
    if found is None:
        pytest.skip("needs fio")

    def run(*arguments, cwd, before=()):
        done = subprocess.run(
            [*before, found, *arguments, "--output-format=json"],
            capture_output=True, text=True, timeout=60, cwd=cwd, check=False,
        )  # fmt: skip
        assert done.returncode == 0, done.stdout + done.stderr
        return json.loads(done.stdout[done.stdout.index("{") :])["jobs"][0]

    return run


def test_fio_replays_an_iolog_in_its_time_with_its_bytes(tmp_path, fio):
    if shutil.which("strace") is None:
        pytest.skip("needs strace")
    data = tmp_path / "data"
    data.write_bytes(b"\1" * (4 << 20))
    rng = np.random.default_rng(3)
    times = np.sort(rng.integers(0, 2_000, 120)) * MS
    times[0], times[-1] = 0, 2_000 * MS
    rows = [
        (int(time), int(rng.integers(0, 2)), 0, int(rng.integers(0, 3000)) * 1024, int(rng.integers(1, 64)) * 1024)
        for time in times
    ]
    trace = block_trace(rows, (str(data),))
    log = written(tmp_path, iolog.lines(trace))
    job = fio(
        "--name=replay", f"--read_iolog={log}", "--ioengine=psync", cwd=tmp_path,
        before=("strace", "-f", "-y", "-e", "trace=pread64,pwrite64", "-o", str(tmp_path / "calls")),
    )  # fmt: skip
    assert job["read"]["io_bytes"] == trace.bytes_of(READ)
    assert job["write"]["io_bytes"] == trace.bytes_of(WRITE)
    # The kernel's view: the same calls, sizes and places, in order.
    calls = re.findall(
        rf"p(read|write)64\(\d+<{re.escape(str(data))}>, .*, (\d+), (\d+)\)", (tmp_path / "calls").read_text()
    )
    told = [("read" if op == READ else "write", length, offset) for _, op, _, offset, length in rows]
    assert [(kind, int(length), int(offset)) for kind, length, offset in calls] == told
    # Nothing makes fio end early; a neighbour's noise makes it late, so that the best of some runs counts.
    runtimes = []
    while len(runtimes) < 6 and min(runtimes, default=9.0) > 2.04:
        job = fio("--name=replay", f"--read_iolog={log}", "--ioengine=psync", cwd=tmp_path)
        runtimes.append(job["job_runtime"] / 1000)
    assert min(runtimes) == pytest.approx(2.0, rel=0.02)


def test_fio_runs_the_job_with_the_mix_of_the_trace(tmp_path, fio):
    # 75 % reads of 4 KiB (half) and 16 KiB (half), 25 % writes of 8 KiB; random; 1,000 in 2 s.
    rng = np.random.default_rng(5)
    rows = []
    for index in range(1_000):
        op, length = (WRITE, 8192) if index % 4 == 0 else (READ, 4096 if index % 2 else 16_384)
        rows.append((index * 2 * MS, op, 0, int(rng.integers(0, 1_000)) * 16_384, length))
    path = written(tmp_path, fio_job.lines(block_trace(rows), str(tmp_path / "data")))
    text = path.read_text()
    assert "rwmixread=75\n" in text
    assert "bssplit=4096/67:16384/33,8192/100\n" in text
    assert "rate_iops=375,125\n" in text
    job = fio(str(path), "--direct=0", cwd=tmp_path)
    reads, writes = job["read"], job["write"]
    assert reads["io_bytes"] + writes["io_bytes"] == pytest.approx(sum(row[4] for row in rows), rel=0.01)
    assert reads["total_ios"] / (reads["total_ios"] + writes["total_ios"]) == pytest.approx(0.75, abs=0.05)
    assert writes["io_bytes"] == writes["total_ios"] * 8192
    assert reads["io_bytes"] / reads["total_ios"] == pytest.approx(0.67 * 4096 + 0.33 * 16_384, rel=0.1)


def test_jobs_of_one_kind_many_sizes_and_no_times(tmp_path, fio):
    rows = [(0, READ, 0, index * 8192, 512 * (index + 1) + 1) for index in range(200)]
    lines = list(fio_job.lines(block_trace(rows, timed=False), "data"))
    assert "rw=randread" in lines
    assert not any("rate_iops" in line or "WRITES" in line for line in lines)
    (split,) = (line for line in lines if line.startswith("bssplit="))
    shares = [int(pair.split("/")[1]) for pair in split.removeprefix("bssplit=").split(",")[0].split(":")]
    assert sum(shares) == 100
    assert len(shares) == 32
    assert all(int(pair.split("/")[0]) % 512 == 0 for pair in split[8:].split(",")[0].split(":"))
    path = written(tmp_path, lines)
    found = shutil.which("fio")
    checked = subprocess.run(
        [found, "--parse-only", str(path)], capture_output=True, text=True, timeout=30, check=False
    )
    assert checked.returncode == 0, checked.stderr
    with pytest.raises(ConfigError, match="name a file"):
        list(fio_job.lines(block_trace(rows), ""))


def test_sequential_share_by_hand():
    rows = [(0, READ, 0, 0, 10), (1, READ, 1, 10, 5), (2, READ, 0, 10, 10), (3, WRITE, 0, 20, 1), (4, READ, 0, 20, 1)]
    assert sequential_share(block_trace(rows, ("a", "b"))) == 2 / 5


@given(ROWS, st.booleans())
@settings(max_examples=80, deadline=None)
def test_a_trace_as_records_keeps_bytes_order_and_neighbours(rows, timed):
    rows = [(*row[:3], row[3] % (1 << 44), row[4] % (8 << 20) + 1) for row in rows]
    trace = block_trace(sorted_rows(rows), ("f0", "dir/f1", "x"), timed=timed)
    if not (trace.op <= WRITE).any():
        with pytest.raises(ConfigError, match=r"moves no bytes|none of its"):
            to_records(trace)
        return
    records = to_records(trace)
    kept = trace.taken(np.flatnonzero(trace.op != DISCARD))
    assert records.op.tolist() == kept.op.tolist()
    assert records.bytes_of(READ) == kept.bytes_of(READ)
    assert records.bytes_of(WRITE) == kept.bytes_of(WRITE)
    assert records.groups == len(kept)
    assert records.time_ns.tolist() == (kept.time_ns.tolist() if timed else [-1] * len(kept))
    assert records.chains == (len(kept) if timed else 1)
    # Places are shifted by one amount per stretch: what overlaps or follows in the trace still does, to the byte.
    places = [(int(f), int(o), int(n)) for f, o, n in zip(kept.file, kept.offset, kept.length, strict=True)]
    moved = list(zip(records.offset.tolist(), records.length.tolist(), strict=True))
    for (file, offset, length), (new, _), op in zip(places, moved, kept.op, strict=True):
        if op == FSYNC:
            continue
        assert new % (1 << 20) == offset % (1 << 20)
        for (other_file, other, other_length), (other_new, _), other_op in zip(places, moved, kept.op, strict=True):
            if other_op != FSYNC and file == other_file and offset <= other <= offset + length and other_length:
                if other < offset + length or other % (1 << 20):
                    assert other_new - new == other - offset
            elif other_op != FSYNC and file != other_file:
                assert not (new < other_new + other_length and other_new < new + length)
    # No more than the touched megabytes.
    assert records.files.bytes <= sum(length + (2 << 20) for _, _, length in places)


def test_records_of_a_small_file_lie_over_each_other():
    rows = [(0, READ, 0, index << 20, 3 << 20) for index in range(8)]
    records = to_records(block_trace(rows), capacity=4 << 20)
    assert records.files.bytes == 4 << 20
    assert records.bytes_of(READ) == 24 << 20
    assert len(set(records.offset.tolist())) > 1
    with pytest.raises(ConfigError, match=r"3m .* is the least"):
        to_records(block_trace(rows), capacity=2 << 20)


def test_records_become_a_trace_again(tmp_path):
    rows = [(0, WRITE, 0, 0, 4096), (5 * MS, READ, 0, 4096, 8192), (7 * MS, SYNC, 0, 0, 0)]
    back = of_records(to_records(block_trace(rows)), "model")
    same(block_trace(rows, ("trace",)), back)
    assert back.time_ns.tolist() == [0, 5 * MS, 7 * MS]
    assert traces.load(written(tmp_path, iolog.lines(back))).files == ("trace",)


def test_writers_take_their_kind_only():
    block = block_trace([(0, READ, 0, 0, 1)])
    with pytest.raises(ConfigError, match="from which requests cannot be told"):
        writers.get("mooncake").lines(block, writers.Target())
    request = RequestTrace(Path("r"), "azure", *(np.zeros(1, dtype=np.int64) for _ in range(3)))
    for name in ("iolog", "fio-job", "mlperf-kv"):
        with pytest.raises(ConfigError, match="run it through cache tiers first"):
            writers.get(name).lines(request, writers.Target())
    with pytest.raises(ConfigError, match="not written as 'csv', but as iolog"):
        writers.get("csv")
