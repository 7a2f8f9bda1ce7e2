"""Bytes, counts, offsets and content of whole runs as others saw them: strace, /proc, the block layer, the file."""

import collections
import itertools
import json
import os
import re
import shutil
import subprocess
import sys
import time
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pytest

from pytest_gpuio.engine import Clock, Pool, Run, RunSpec, offsets, probe

MIB = 1 << 20
HEADER = 2 * MIB
BLOCK = 4096
SECTOR = 512
ANY = "def test_any(gpuio):\n    gpuio.run()\n"


class Request(NamedTuple):
    """One I/O as strace saw it begin; it shows the address for reads of libaio only."""

    ns: int
    thread: int
    offset: int
    bytes: int
    address: int | None


# ---- the content of a target, from its description alone -------------------------------------------------------------


def mix(x):
    """The 64-bit finalizer of the description: xor-shift by 30, 27, 31 around two multiplications."""
    x = x ^ (x >> np.uint64(30))
    x = x * np.uint64(0xBF58476D1CE4E5B9)
    x = x ^ (x >> np.uint64(27))
    x = x * np.uint64(0x94D049BB133111EB)
    return x ^ (x >> np.uint64(31))


def places(seed, first, count):
    """Word 0 of sectors: what proves where they belong."""
    at = np.uint64(first) + np.arange(count, dtype=np.uint64) * np.uint64(SECTOR)
    return mix(mix(np.array([seed], dtype=np.uint64)) + at)


def bodies(index):
    """Words 2..63 of sectors with these body indexes."""
    x = index[:, None] + np.arange(2, 64, dtype=np.uint64)[None, :] * np.uint64(0x9E3779B97F4A7C15)
    x = (x ^ (x >> np.uint64(32))) * np.uint64(0xD6E8FEB86659FD93)
    return x ^ (x >> np.uint64(32))


def header_and_sectors(file):
    """The header's fields, and the data region as rows of 64 words."""
    content = file.read_bytes()
    header = json.loads(content[:BLOCK].rstrip(b"\0"))
    assert len(content) == HEADER + header["data_bytes"]
    return header, np.frombuffer(content, dtype="<u8", offset=HEADER).reshape(-1, SECTOR // 8)


def bad_sectors(file):
    """Number of sectors that do not prove their place or whose body is not whole."""
    header, sectors = header_and_sectors(file)
    wrong = sectors[:, 0] != places(header["pattern_seed"], HEADER, len(sectors))
    wrong |= (sectors[:, 2:] != bodies(sectors[:, 1])).any(axis=1)
    return int(wrong.sum())


def laid_out(file):
    """For each sector whether its body is still the one of the layout (the body index derives from the place)."""
    header, sectors = header_and_sectors(file)
    seed = np.array([header["pattern_seed"] ^ (2**64 - 1)], dtype=np.uint64)
    at = np.uint64(HEADER) + np.arange(len(sectors), dtype=np.uint64) * np.uint64(SECTOR)
    return sectors[:, 1] == mix(mix(seed) + at)


def test_a_layout_holds_what_the_description_says_and_has_no_hole(gpuio_run, results, target):
    gpuio_run("--gpuio-datapath=psync", "--gpuio-workload=micro/randread", suite=ANY).assert_outcomes(passed=1)
    file = target / "gpuio-read.dat"
    assert bad_sectors(file) == 0
    assert laid_out(file).all()
    status = file.stat()
    assert status.st_size == HEADER + 32 * MIB
    assert status.st_blocks * 512 >= status.st_size
    with file.open("rb") as handle:
        assert os.lseek(handle.fileno(), 0, os.SEEK_HOLE) == status.st_size
    (cell,) = results()["cells"]
    assert cell["target"]["file_bytes"] == status.st_size


@pytest.mark.parametrize("path", ["psync", "libaio", "io_uring"])
def test_what_a_run_wrote_is_in_the_file_and_only_there(gpuio_run, results, target, path):
    reason = probe(path)
    if reason is not None:
        pytest.skip(reason)
    # A little less than 33 blocks of 992 KiB, so that a part of the file is none of the run's business.
    block = 992 << 10
    arguments = (f"--gpuio-datapath={path}", "--gpuio-workload=micro/seqwrite_fsync")
    gpuio_run(*arguments, f"--gpuio-bs={block}", "--gpuio-qd=1", suite=ANY).assert_outcomes(passed=1)
    file = target / "gpuio-write.dat"
    assert bad_sectors(file) == 0
    (cell,) = results()["cells"]
    blocks = 32 * MIB // block
    assert cell["ios"] >= blocks
    assert cell["writes"] == cell["ios"]
    untouched = laid_out(file)
    assert not untouched[: blocks * block // SECTOR].any(), "every block of the region was written"
    assert untouched[blocks * block // SECTOR :].all(), "nothing behind the last whole block was"


def test_a_mix_of_reads_and_writes_leaves_every_block_in_its_place(gpuio_run, results, target):
    # One request at a time: on a machine busy with other things no queue may form, which a gate would find.
    arguments = ("--gpuio-datapath=psync,libaio", "--gpuio-workload=micro/randrw70", "--gpuio-qd=1")
    gpuio_run(*arguments, suite=ANY).assert_outcomes(passed=2)
    assert bad_sectors(target / "gpuio-write.dat") == 0
    written = (~laid_out(target / "gpuio-write.dat")).reshape(-1, BLOCK // SECTOR)
    assert (written.all(axis=1) == written.any(axis=1)).all(), "blocks are written whole"
    assert 0 < written.all(axis=1).sum() <= sum(cell["writes"] + cell["ios"] for cell in results()["cells"])


# ---- strace ----------------------------------------------------------------------------------------------------------

LINE = re.compile(r"(?P<thread>\d+) +(?P<seconds>\d+)\.(?P<nanoseconds>\d{9}) (?P<text>.*)")
UNFINISHED, RESUMED = " <unfinished ...>", re.compile(r"<\.\.\. \w+ resumed>")
POSITIONAL = re.compile(
    r'(?P<call>pread64|pwrite64)\(\d+</.*/(?P<file>gpuio-\w+\.dat)>, ?"".*, (?P<bytes>\d+), (?P<offset>\d+)\) = \d+'
)
CONTROL_BLOCK = re.compile(
    r"aio_lio_opcode=IOCB_CMD_(?P<kind>\w+), aio_fildes=\d+</.*?/(?P<file>gpuio-\w+\.dat)>, "
    r'aio_buf=(?:(?P<address>0x\w+)|"".*?), aio_nbytes=(?P<bytes>\d+), aio_offset=(?P<offset>\d+)'
)


def calls_of(trace):
    """System calls as (nanoseconds of their begin, thread, text), with those put together that others interrupted."""
    pending = {}
    for line in trace.read_text().splitlines():
        seen = LINE.fullmatch(line)
        if seen is None:
            continue
        ns, thread, text = int(seen["seconds"]) * 10**9 + int(seen["nanoseconds"]), int(seen["thread"]), seen["text"]
        resumed = RESUMED.match(text)
        if resumed:
            ns, begin = pending.pop(thread)
            text = begin + text[resumed.end() :]
        if text.endswith(UNFINISHED):
            pending[thread] = (ns, text.removesuffix(UNFINISHED))
        else:
            yield ns, thread, text


def requests_of(trace):
    """Requests on target files by (file, call), in the order in which they ended."""
    found = collections.defaultdict(list)
    for ns, thread, text in calls_of(trace):
        seen = POSITIONAL.match(text)
        if seen:
            request = Request(ns, thread, int(seen["offset"]), int(seen["bytes"]), None)
            found[seen["file"], seen["call"]].append(request)
        for seen in CONTROL_BLOCK.finditer(text) if text.startswith("io_submit(") else ():
            address = int(seen["address"], 16) if seen["address"] else None
            request = Request(ns, thread, int(seen["offset"]), int(seen["bytes"]), address)
            found[seen["file"], f"io_submit {seen['kind']}"].append(request)
    return found


@pytest.fixture
def traced(pytester, target):
    """Function: runs pytest under strace; the requests it saw, and how far CLOCK_REALTIME is ahead of MONOTONIC."""
    strace = shutil.which("strace")
    if strace is None:
        pytest.skip("needs strace")
    if subprocess.run([strace, "-o", "/dev/null", "true"], capture_output=True, timeout=60, check=False).returncode:
        pytest.skip("strace may not trace here (ptrace is forbidden)")

    def ahead():
        before = time.monotonic_ns()
        now = time.time_ns()
        return now - (before + time.monotonic_ns()) // 2

    def run(suite, *arguments):
        pytester.makepyfile(test_suite=suite)
        trace = pytester.path / "trace"
        first = ahead()
        result = pytester.run(
            *(strace, "-f", "--seccomp-bpf", "-y", "-v", "-s", "0", "-o", trace),
            *("--absolute-timestamps=format:unix,precision:ns", "-e", "trace=pread64,pwrite64,io_submit,openat"),
            *(sys.executable, "-P", "-m", "pytest", f"--gpuio-target={target}", "--gpuio-max-time=200ms"),
            *("-p", "no:codspeed", "-p", "no:cacheprovider", "-p", "no:hypothesispytest", *arguments),
            timeout=120,
        )
        if abs(ahead() - first) > 100_000:
            pytest.skip("the machine's clock was set during the run")
        return result, trace, first

    return run


def check_windows(cell, requests, ahead):
    """Each measured window holds exactly its number of requests, by strace's clock."""
    for start, seconds in zip(cell["windows"]["start_ns"], cell["windows"]["seconds"], strict=True):
        begin, end = start + ahead, start + ahead + round(seconds * 1e9)
        inside = [request for request in requests if begin <= request.ns <= end]
        assert len(inside) == cell["windows"]["ios_per_window"]
    assert cell["ios"] == cell["windows"]["count"] * cell["windows"]["ios_per_window"]
    assert cell["bytes"] == cell["ios"] * BLOCK
    # Warm-up went before, and nothing else was done to the file.
    first = cell["windows"]["start_ns"][0] + ahead
    assert sum(request.ns >= first for request in requests) == cell["ios"]
    assert any(request.ns < first for request in requests)


def check_offsets(requests, jobs, size, read_percent):
    """Every worker's requests are those that the generator announces, and none comes twice before all have come."""
    blocks = size // BLOCK
    assert {request.bytes for request in requests} == {BLOCK}
    by_thread = collections.defaultdict(list)
    for request in requests:
        by_thread[request.thread].append(request.offset)
    assert len(by_thread) == jobs
    every = set(itertools.chain.from_iterable(by_thread.values()))
    assert all((offset - HEADER) % BLOCK == 0 and HEADER <= offset < HEADER + size for offset in every)
    spec = RunSpec(
        engine="psync",
        jobs=jobs,
        order="random",
        read_percent=read_percent,
        region_offset=HEADER,
        region_bytes=size,
        seed=1,
    )
    announced = {}
    for seen in by_thread.values():
        (worker,) = [w for w in range(jobs) if offsets(spec, w, len(seen))[0] == seen]
        announced[worker] = seen
    assert sorted(announced) == list(range(jobs))
    shares = [blocks // jobs + (1 if worker < blocks % jobs else 0) for worker in range(jobs)]
    covered = []
    for worker, share in enumerate(shares):
        for at in range(0, len(announced[worker]), share):
            piece = announced[worker][at : at + share]
            assert len(set(piece)) == len(piece)
        covered += announced[worker][:share]
    assert len(set(covered)) == len(covered), "workers have no block in common"
    if all(len(announced[worker]) >= share for worker, share in enumerate(shares)):
        assert set(covered) == set(range(HEADER, HEADER + size, BLOCK))


def test_strace_saw_the_requests_that_the_record_counts(traced, results):
    # One request at a time per job: strace slows submission so much that no queue forms, which a gate would find.
    suite = """
import pytest

@pytest.mark.workload("micro/randread", "micro/randwrite")
@pytest.mark.parametrize(("datapath", "gpuio_jobs"), [("psync", 3), ("libaio", 1)], indirect=True)
def test_it(gpuio):
    gpuio.run()
"""
    size = 8 * MIB
    result, trace, ahead = traced(suite, f"--gpuio-size={size}", "--gpuio-qd=1")
    result.assert_outcomes(passed=4)
    found = requests_of(trace)
    cells = {(cell["axes"]["datapath"], cell["axes"]["workload"]): cell for cell in results()["cells"]}
    for path, jobs, workload, file, call in (
        ("psync", 3, "micro/randread", "gpuio-read.dat", "pread64"),
        ("psync", 3, "micro/randwrite", "gpuio-write.dat", "pwrite64"),
        ("libaio", 1, "micro/randread", "gpuio-read.dat", "io_submit PREAD"),
        ("libaio", 1, "micro/randwrite", "gpuio-write.dat", "io_submit PWRITE"),
    ):
        # The header and the layout's pieces aside.
        requests = [one for one in found[file, call] if one.bytes == BLOCK and one.offset >= HEADER]
        cell = cells[path, workload]
        check_windows(cell, requests, ahead)
        check_offsets(requests, jobs, size, 100 if workload == "micro/randread" else 0)
        # A8: memory that direct I/O takes on any device.
        assert all(one.address % BLOCK == 0 for one in requests if one.address is not None)
        assert cell["effective"]["direct"] is True
    # What read cells did to their file: the layout, then nothing that writes.
    writes = found["gpuio-read.dat", "pwrite64"]
    assert sum(one.bytes for one in writes) == HEADER + size + BLOCK
    assert max(one.ns for one in writes) < min(one.ns for one in found["gpuio-read.dat", "io_submit PREAD"])
    # How the measuring children opened the files.
    opened = re.findall(r'openat\([^"]*"[^"]*gpuio-(read|write)\.dat", (O_\S*O_DIRECT\S*)', trace.read_text())
    assert ("read", True) in {(file, "O_RDONLY" in flags) for file, flags in opened}
    assert not any("O_TRUNC" in flags for _, flags in opened)


# ---- /proc/PID/io ----------------------------------------------------------------------------------------------------


def test_the_kernels_account_of_the_measuring_child_agrees(gpuio_run, pytester, results):
    pytester.makeconftest(
        """
import json, os
from pathlib import Path
import pytest

def account():
    found = {}
    for pid in Path(f"/proc/self/task/{os.getpid()}/children").read_text().split():
        name = Path(f"/proc/{pid}/cmdline").read_text().split("\\0")[5]
        lines = Path(f"/proc/{pid}/io").read_text().splitlines()
        found[name] = {key: int(value) for key, value in (line.split(": ") for line in lines)}
    return found

@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item):
    before = account()
    yield
    with open("account.jsonl", "a") as file:
        file.write(json.dumps([before.get("posix"), account().get("posix")]) + "\\n")
"""
    )
    # Windows of whole passes over the region: warm-up's are known then too. The first cell only starts the child.
    suite = """
import pytest

@pytest.mark.workload("micro/randread")
def test_first(gpuio):
    gpuio.run()

@pytest.mark.workload("finetune/model_load", "pretrain/checkpoint_save")
def test_whole(gpuio):
    gpuio.run()
"""
    # Small requests, so that a pass takes long enough for a window on a fast disk too.
    size, block = 192 * MIB, 16 << 10
    arguments = ("--gpuio-datapath=psync", f"--gpuio-bs={block}", f"--gpuio-size={size}")
    gpuio_run(*arguments, suite=suite).assert_outcomes(passed=3)
    rows = [json.loads(line) for line in (pytester.path / "account.jsonl").read_text().splitlines()]
    slack = 2 * MIB  # what the child reads besides: /proc, modules, the sweep's blocks, messages
    for (before, after), cell in list(zip(rows, results()["cells"], strict=True))[1:]:
        passes = cell["windows"]["count"] + cell["windows"]["warmup"]
        assert cell["bytes"] == cell["windows"]["count"] * size
        moved, other = ("rchar", "wchar") if cell["reads"] else ("wchar", "rchar")
        calls = "syscr" if cell["reads"] else "syscw"
        assert 0 <= after[moved] - before[moved] - passes * size < slack
        assert after[other] - before[other] < slack
        assert 0 <= after[calls] - before[calls] - passes * size // block < 2000
        # Direct I/O: the storage moved it, not the page cache.
        storage = "read_bytes" if cell["reads"] else "write_bytes"
        assert after[storage] - before[storage] >= passes * size


# ---- the block layer -------------------------------------------------------------------------------------------------


def sectors_of(device):
    """Sectors read and written, as the block layer counts them."""
    fields = Path(f"/sys/class/block/{Path(device).name}/stat").read_text().split()
    return int(fields[2]), int(fields[6])


@pytest.mark.parametrize("engine", ["psync", "libaio", "io_uring"])
@pytest.mark.parametrize("read_percent", [100, 0, 70])
def test_the_block_layer_moved_the_bytes_of_the_windows_and_no_more(loop_over_tmpfs, engine, read_percent):
    reason = probe(engine)
    if reason is not None:
        pytest.skip(reason)
    device = loop_over_tmpfs(sector=512)
    if shutil.which("udevadm"):
        subprocess.run(["udevadm", "settle", "--timeout=10"], capture_output=True, check=False, timeout=60)
    fd = os.open(device, os.O_RDWR | os.O_DIRECT)
    try:
        spec = RunSpec(
            engine=engine,
            fd=fd,
            jobs=2,
            depth=1 if engine == "psync" else 8,
            block=8192,
            order="random",
            read_percent=read_percent,
            region_offset=512,
            region_bytes=15 * MIB,
        )
        with Run(spec, Clock.calibrate(), Pool()) as run:
            before = sectors_of(device)
            windows = [run.window(ios) for ios in (500, 1, 333)]
            after = sectors_of(device)
    finally:
        os.close(fd)
    assert sum(window.ios for window in windows) == 834
    assert after[0] - before[0] == sum(window.reads for window in windows) * 16
    assert after[1] - before[1] == sum(window.writes for window in windows) * 16
    assert sum(window.bytes for window in windows) == 834 * 8192


@pytest.mark.parametrize("path", ["psync", "libaio", "io_uring"])
def test_the_disk_under_a_run_moved_at_least_what_the_record_claims(gpuio_run, results, target, path):
    reason = probe(path)
    if reason is not None:
        pytest.skip(reason)
    number = target.stat().st_dev
    stat = Path(f"/sys/dev/block/{os.major(number)}:{os.minor(number)}/stat")
    if not stat.exists():
        pytest.skip("no block device lies directly under the folder for temporary files")
    arguments = (f"--gpuio-datapath={path}", "--gpuio-workload=micro/randread", "--gpuio-qd=1")
    before = int(stat.read_text().split()[2])
    gpuio_run(*arguments, "--gpuio-bs=64k", suite=ANY).assert_outcomes(passed=1)
    moved = (int(stat.read_text().split()[2]) - before) * 512
    (cell,) = results()["cells"]
    assert cell["device"]["read_bytes"] is not None
    assert moved >= cell["device"]["read_bytes"] >= cell["bytes"] * 0.95
    assert moved >= cell["bytes"] * 0.95
