"""Sizes, offsets and alignments that broke other tools, by the number of the public case."""

import ctypes
import json
import os
import shutil
import subprocess
from pathlib import Path

import pytest

from pytest_gpuio.core.errors import EngineError
from pytest_gpuio.engine import Clock, Pool, Run, RunSpec, offsets, pattern_check, pattern_fill, probe
from pytest_gpuio.results.validate import validate_file
from pytest_gpuio.targets import HEADER_BYTES, direct_alignment, holes

MIB = 1 << 20
SEED = 20_260_101
ANY = "def test_any(gpuio):\n    gpuio.run()\n"
RANDREAD = "--gpuio-workload=micro/randread"
PSYNC = "--gpuio-datapath=psync"


@pytest.fixture
def alignment(target) -> int:
    """Bytes that direct I/O in the target's folder demands."""
    told = direct_alignment(target)
    if told is None:
        pytest.skip("neither statx nor a block device tells the alignment of the folder for temporary files")
    return told.offset


@pytest.fixture
def file_system(loop_over_tmpfs, mounted):
    """Function: an ext4 on a loop device of a sector size, mounted."""

    def make(sector: int) -> Path:
        mkfs = shutil.which("mkfs.ext4", path="/usr/sbin:/sbin:/usr/bin")
        if mkfs is None:
            pytest.skip("needs mkfs.ext4")
        device = loop_over_tmpfs(sector=sector, size=96 * MIB)
        made = subprocess.run([mkfs, "-q", "-F", device], capture_output=True, text=True, timeout=60, check=False)
        if made.returncode:
            pytest.skip(f"mkfs.ext4 failed: {made.stderr}")
        return mounted("ext4", device)

    return make


@pytest.fixture(scope="module")
def measuring():
    """Clock and pool of this process, for runs below the plugin."""
    return Clock.calibrate(), Pool()


@pytest.fixture(scope="module")
def patterned(tmp_path_factory):
    """A file of 4 MiB and 12,345 bytes whose every sector is the pattern's; the tail is not."""
    path = tmp_path_factory.mktemp("patterned") / "data"
    content = bytearray(4 * MIB)
    pattern_fill(content, 0, SEED)
    path.write_bytes(bytes(content) + b"\x55" * 12_345)
    return path


def failures_by_block(results):
    return {
        failure["case"].partition("|bs=")[2].partition("|")[0]: failure["reason"] for failure in results["failures"]
    }


# ---- A1, A2: blocks that are no multiple of the alignment ------------------------------------------------------------


def test_a2_each_block_of_a_set_is_judged_by_itself_and_the_rest_is_measured(
    gpuio_run, pytester, results, target, alignment
):
    blocks = [2, 32, 511, 45 << 10, 8192]
    result = gpuio_run(
        PSYNC, RANDREAD, f"--gpuio-bs={','.join(map(str, blocks))}", "--benchmark-json=out.json", suite=ANY
    )
    bad = [block for block in blocks if block % alignment]
    result.assert_outcomes(failed=len(bad), passed=len(blocks) - len(bad))
    assert len(bad) >= 3
    reasons = failures_by_block(results())
    for block in bad:
        fitting = -(-block // alignment) * alignment
        spelled = f"{fitting >> 10}k" if fitting % 1024 == 0 else str(fitting)
        reason = reasons[str(block)]
        assert f"block size {block} bytes is not a multiple of the {alignment}-byte direct-I/O alignment of" in reason
        assert str(target) in reason
        assert f"use --gpuio-bs={spelled}," in reason
    good = [block for block in blocks if block not in bad]
    assert [cell["axes"]["bs"] for cell in results()["cells"]] == good
    assert len(results("out.json")["benchmarks"]) == len(good)
    assert results()["voids"] == []
    assert validate_file(pytester.path / "gpuio-results.json") == []
    assert validate_file(pytester.path / "out.json") == []


def test_a1_a_refusal_is_a_sentence_and_touches_nothing(gpuio_run, results, target, alignment):
    result = gpuio_run(PSYNC, RANDREAD, f"--gpuio-bs={alignment + 32}", suite=ANY)
    result.assert_outcomes(failed=1)
    text = result.stdout.str()
    assert f"block size {alignment + 32} bytes is not a multiple of the {alignment}-byte" in text
    assert "Traceback" not in text
    assert "Invalid argument" not in text
    assert results()["cells"] == []
    assert list(target.iterdir()) == []


def test_a4_the_remedy_of_the_message_works(gpuio_run, results):
    # The block size of a real trace: no multiple of any sector.
    arguments = ("--gpuio-bs=4000", "--gpuio-cache=cold", "--gpuio-size=96M")
    gpuio_run(PSYNC, RANDREAD, *arguments, suite=ANY).assert_outcomes(passed=1)
    (cell,) = results()["cells"]
    assert cell["effective"]["direct"] is False
    assert cell["bytes"] == cell["ios"] * 4000
    assert cell["verify"]["checked"] > 0


# ---- A3: the grammar of sizes ----------------------------------------------------------------------------------------


def test_a3_binary_spellings_are_one_cell_and_the_decimal_one_is_another(gpuio_run, results, alignment):
    result = gpuio_run("-v", PSYNC, RANDREAD, "--gpuio-bs=4k,4K,4KiB,4096,4KB", suite=ANY)
    result.assert_outcomes(passed=1, failed=1)
    assert [cell["axes"]["bs"] for cell in results()["cells"]] == [4096]
    (reason,) = (failure["reason"] for failure in results()["failures"])
    assert f"block size 4000 bytes is not a multiple of the {alignment}-byte" in reason


# ---- A7: aligned offsets, odd lengths --------------------------------------------------------------------------------


@pytest.mark.parametrize("engine", ["psync", "libaio", "io_uring"])
@pytest.mark.parametrize("start", [0, 4096, MIB])
@pytest.mark.parametrize("length", [1, 511, 512, 4095, 4097, MIB + 1, MIB + 512])
def test_a7_odd_lengths_read_what_lies_there(measuring, patterned, engine, start, length):
    reason = probe(engine)
    if reason is not None:
        pytest.skip(reason)
    clock, pool = measuring
    region = 4 * MIB + 12_345 - start
    # Three requests of 1 MiB + something fit; of the small ones, a few hundred.
    ios = min(region // length, 300)
    fd = os.open(patterned, os.O_RDONLY)
    try:
        spec = RunSpec(
            engine=engine,
            fd=fd,
            block=length,
            order="random",
            region_offset=start,
            region_bytes=region,
            seed=length,
            pattern_seed=SEED,
        )
        with Run(spec, clock, pool) as run:
            places, _ = offsets(spec, 0, 3 * ios)
            # One request in flight uses one buffer: after each window the pool's start holds the last request.
            for number in range(3):
                window = run.window(ios)
                assert (window.ios, window.errors, window.short_ios) == (ios, 0, 0)
                assert window.bytes == ios * length
                last = places[(number + 1) * ios - 1]
                found = ctypes.string_at(pool.info().base, length)
                there = os.pread(fd, length, last)
                assert len(there) == length
                assert found[:64] == there[:64], "head"
                assert found[-64:] == there[-64:], "tail"
                assert found == there, "body"
                swept = run.sweep()
                assert swept.bad == (1 if last + length > 4 * MIB + 511 else 0)
    finally:
        os.close(fd)


@pytest.mark.parametrize("engine", ["psync", "libaio", "io_uring"])
@pytest.mark.parametrize("start", [0, 4096, MIB])
@pytest.mark.parametrize("length", [512, 1536, MIB + 512])
def test_a7_odd_lengths_write_there_and_nowhere_else(measuring, tmp_path, engine, start, length):
    reason = probe(engine)
    if reason is not None:
        pytest.skip(reason)
    clock, pool = measuring
    region = 4 * MIB - start - 5 * 512
    blocks = region // length
    path = tmp_path / "written"
    path.write_bytes(b"\xee" * (4 * MIB))
    fd = os.open(path, os.O_RDWR)
    try:
        spec = RunSpec(
            engine=engine,
            fd=fd,
            block=length,
            order="random",
            read_percent=0,
            region_offset=start,
            region_bytes=region,
            pattern_seed=SEED,
        )
        written = min(blocks, 200)
        with Run(spec, clock, pool) as run:
            assert run.window(written).bytes == written * length
            places, ops = offsets(spec, 0, written)
    finally:
        os.close(fd)
    content = path.read_bytes()
    assert set(ops) == {1}
    assert len(set(places)) == written
    touched = set()
    for place in places:
        assert place >= start
        assert (place - start) % length == 0
        assert pattern_check(content[place : place + length], place, SEED) == (0, 0)
        touched.update(range(place, place + length, 512))
    untouched = [at for at in range(0, 4 * MIB, 512) if at not in touched]
    assert len(untouched) == (4 * MIB - written * length) // 512
    assert all(content[at : at + 512] == b"\xee" * 512 for at in untouched)


def test_a7_written_data_that_could_not_be_checked_is_refused(measuring, tmp_path):
    path = tmp_path / "written"
    path.write_bytes(bytes(MIB))
    with path.open("r+b") as file:
        spec = RunSpec(engine="psync", fd=file.fileno(), block=4097, read_percent=0, region_bytes=MIB)
        with pytest.raises(EngineError, match=r"writes of 4097 bytes from offset 0 on are not whole 512-byte sectors"):
            Run(spec, *measuring)
    assert path.read_bytes() == bytes(MIB)


def test_a7_direct_reads_of_odd_lengths_fail_and_are_counted_as_errors(measuring, target, alignment):
    path = target / "odd"
    path.write_bytes(os.urandom(MIB))
    fd = os.open(path, os.O_RDONLY | os.O_DIRECT)
    try:
        with Run(RunSpec(engine="psync", fd=fd, block=alignment + 1, region_bytes=MIB), *measuring) as run:
            window = run.window(8)
    finally:
        os.close(fd)
    assert (window.ios, window.bytes) == (0, 0)
    assert window.errors == 8
    assert os.strerror(-window.first_error) == "Invalid argument"
    assert window.first_error_offset == 0


# ---- A8: what memory the bytes end in, and whether direct I/O really was ---------------------------------------------


@pytest.mark.parametrize(("cache", "direct"), [("direct", True), ("cold", False)])
def test_a8_direct_io_is_what_the_kernel_says_of_the_open_file(gpuio_run, pytester, results, cache, direct):
    suite = """
import json, os, threading, time
from pathlib import Path
import pytest

def flags_of(seen, stop):
    \"\"\"The flags of the target as /proc shows them in this process's children.\"\"\"
    while not stop.wait(0.02):
        children = Path(f"/proc/{os.getpid()}/task/{os.getpid()}/children").read_text().split()
        for child in children:
            for link in Path(f"/proc/{child}/fd").iterdir():
                try:
                    if link.readlink().name == "gpuio-read.dat":
                        info = Path(f"/proc/{child}/fdinfo/{link.name}").read_text()
                        seen.add(int(info.split("flags:")[1].split()[0], 8))
                except OSError:
                    continue

@pytest.mark.workload("micro/randread")
def test_first(gpuio):
    gpuio.run()  # lays the file out

@pytest.mark.workload("micro/randread")
def test_watched(gpuio):
    seen, stop = set(), threading.Event()
    watcher = threading.Thread(target=flags_of, args=(seen, stop), daemon=True)
    watcher.start()
    try:
        gpuio.run()
    finally:
        stop.set()
        watcher.join()
    Path("seen.json").write_text(json.dumps(sorted(seen)))
"""
    gpuio_run(PSYNC, f"--gpuio-cache={cache}", "--gpuio-size=96M", suite=suite).assert_outcomes(passed=2)
    flags = json.loads((pytester.path / "seen.json").read_text())
    assert flags
    assert {bool(flag & os.O_DIRECT) for flag in flags} == {direct}
    assert {cell["effective"]["direct"] for cell in results()["cells"]} == {direct}


# ---- A9, A10: alignments other than 512 ------------------------------------------------------------------------------


def test_a9_on_a_disk_of_4096_byte_sectors_small_blocks_are_refused_and_the_first_run_works(
    gpuio_run, results, file_system
):
    folder = file_system(4096)
    for _ in range(2):  # the first run on an empty disk failed elsewhere, the next one did not
        result = gpuio_run(PSYNC, RANDREAD, "--gpuio-bs=512,4k", suite=ANY, target=folder)
        result.assert_outcomes(passed=1, failed=1)
        assert {cell["axes"]["bs"] for cell in results()["cells"]} == {4096}
        for failure in results()["failures"]:
            assert "block size 512 bytes is not a multiple of the 4096-byte direct-I/O alignment" in failure["reason"]
            assert "use --gpuio-bs=4k," in failure["reason"]
        assert {cell["target"]["alignment"] for cell in results()["cells"]} == {4096}


def test_a9_on_a_disk_of_512_byte_sectors_the_same_blocks_work(gpuio_run, results, file_system):
    folder = file_system(512)
    gpuio_run(PSYNC, RANDREAD, "--gpuio-bs=512,4k", suite=ANY, target=folder).assert_outcomes(passed=2)
    assert {cell["target"]["alignment"] for cell in results()["cells"]} == {512}


def test_a10_nothing_assumes_4096(gpuio_run, pytester, results, target):
    pytester.makeconftest(
        """
from pytest_gpuio.measure import prepare
from pytest_gpuio.targets import Alignment

def fake_alignment_of_16k(path):
    return Alignment(memory=16384, offset=16384, source="a fake file system of 16 KiB blocks")

prepare.direct_alignment = fake_alignment_of_16k
"""
    )
    result = gpuio_run(PSYNC, RANDREAD, "--gpuio-bs=4k,16k,24k", suite=ANY)
    result.assert_outcomes(passed=1, failed=2)
    assert [cell["axes"]["bs"] for cell in results()["cells"]] == [16384]
    reasons = failures_by_block(results())
    for block, fitting in (("4k", "16k"), ("24k", "32k")):
        assert "16384-byte direct-I/O alignment" in reasons[block]
        assert "(a fake file system of 16 KiB blocks)" in reasons[block]
        assert f"use --gpuio-bs={fitting}," in reasons[block]


# ---- A16: nothing, and what does not divide --------------------------------------------------------------------------


@pytest.mark.parametrize(
    "option", ["--gpuio-bs=0", "--gpuio-size=0", "--gpuio-bs=4k,0", "--gpuio-qd=0", "--gpuio-jobs=0"]
)
def test_a16_nothing_is_refused_before_collection(gpuio_run, target, option):
    result = gpuio_run(option, suite=ANY)
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    name = option.partition("=")[0]
    assert f"{name}: " in result.stderr.str()
    assert "above zero" in result.stderr.str()
    assert list(target.iterdir()) == []


@pytest.mark.parametrize("ios", [0, -1])
def test_a16_a_window_of_nothing_is_refused(measuring, patterned, ios):
    with (
        patterned.open("rb") as file,
        Run(RunSpec(engine="psync", fd=file.fileno(), region_bytes=MIB), *measuring) as run,
        pytest.raises(EngineError, match=f"a window of {ios} I/Os"),
    ):
        run.window(ios)


@pytest.mark.parametrize("order", ["sequential", "random"])
@pytest.mark.parametrize(("jobs", "ios"), [(3, 100), (7, 6), (7, 1000), (5, 5), (1, 1)])
def test_a16_remainders_are_shared_out_and_none_is_lost(measuring, patterned, order, jobs, ios):
    with patterned.open("rb") as file:
        # 1,000 blocks and some bytes: no multiple of jobs or block.
        spec = RunSpec(
            engine="psync",
            fd=file.fileno(),
            jobs=jobs,
            order=order,
            region_bytes=1000 * 4096 + 123,
            pattern_seed=SEED,
            verify=True,
        )
        with Run(spec, *measuring) as run:
            before = Path("/proc/self/io").read_text()
            window = run.window(ios)
            after = Path("/proc/self/io").read_text()
    shares = [worker.ios for worker in window.workers]
    assert sum(shares) == window.ios == window.verified == ios
    assert max(shares) - min(shares) <= 1
    assert window.bad == 0

    def read_bytes(text):
        return int(text.partition("rchar: ")[2].split()[0])

    # The kernel's own count, less the read of that count.
    assert 0 <= read_bytes(after) - read_bytes(before) - ios * 4096 < 4096


@pytest.mark.parametrize("order", ["sequential", "random"])
@pytest.mark.parametrize("jobs", [1, 3, 7])
def test_a16_workers_cover_every_block_once(order, jobs):
    spec = RunSpec(engine="psync", jobs=jobs, order=order, region_offset=MIB, region_bytes=1000 * 4096 + 123, seed=3)
    seen = []
    for worker in range(jobs):
        seen += offsets(spec, worker, 1000 // jobs + (1 if worker < 1000 % jobs else 0))[0]
    assert sorted(seen) == [MIB + block * 4096 for block in range(1000)]


def test_a16_sizes_that_no_block_divides_are_measured_in_whole_blocks(gpuio_run, results, target):
    size = 16 * MIB + 12_345
    gpuio_run(PSYNC, RANDREAD, f"--gpuio-size={size}", "--gpuio-jobs=3", suite=ANY).assert_outcomes(passed=1)
    (cell,) = results()["cells"]
    assert cell["target"]["region_bytes"] == size
    assert cell["bytes"] == cell["ios"] * 4096
    assert (target / "gpuio-read.dat").stat().st_size >= HEADER_BYTES + size


# ---- A18: files that are not whole -----------------------------------------------------------------------------------


def punch(path, offset, length):
    libc = ctypes.CDLL(None, use_errno=True)
    keep_size, punch_hole = 1, 2
    with path.open("r+b") as file:
        done = libc.fallocate(file.fileno(), keep_size | punch_hole, ctypes.c_long(offset), ctypes.c_long(length))
    if done != 0:
        pytest.skip(f"this file system punches no holes: {os.strerror(ctypes.get_errno())}")


def holes_of(path):
    with path.open("rb") as file:
        return holes(file.fileno(), 0, path.stat().st_size)


@pytest.mark.parametrize("damage", ["hole", "truncated"])
def test_a18_a_file_that_is_not_whole_is_laid_out_again_and_never_measured(gpuio_run, results, target, damage):
    arguments = (PSYNC, RANDREAD, "--gpuio-verify=full")
    gpuio_run(*arguments, suite=ANY).assert_outcomes(passed=1)
    file = target / "gpuio-read.dat"
    whole = file.stat().st_size
    first = json.loads(file.read_bytes()[:4096].rstrip(b"\0"))["pattern_seed"]
    if damage == "hole":
        punch(file, HEADER_BYTES + 5 * MIB, MIB)
        assert holes_of(file) == [(HEADER_BYTES + 5 * MIB, HEADER_BYTES + 6 * MIB)]
    else:
        os.truncate(file, HEADER_BYTES + 5 * MIB)
    gpuio_run(*arguments, suite=ANY).assert_outcomes(passed=1)
    (cell,) = results()["cells"]
    assert cell["verify"]["bad"] == 0
    assert cell["verify"]["checked"] >= cell["ios"]
    again = json.loads(file.read_bytes()[:4096].rstrip(b"\0"))
    assert again["pattern_seed"] != first
    assert again["state"] == "complete"
    assert file.stat().st_size == whole
    assert holes_of(file) == []


def test_a18_a_hole_punched_between_two_cells_of_one_run_voids_the_second(gpuio_run, results):
    suite = """
import ctypes, os
from pathlib import Path
import pytest

@pytest.mark.workload("micro/seqread")
@pytest.mark.parametrize("gpuio_jobs", [1, 2], indirect=True)
def test_it(gpuio, gpuio_jobs):
    record = gpuio.run()
    with open(record["target"]["path"], "r+b") as file:
        if ctypes.CDLL(None).fallocate(file.fileno(), 3, ctypes.c_long(8 << 20), ctypes.c_long(16 << 20)) != 0:
            pytest.skip("this file system punches no holes")
"""
    result = gpuio_run(PSYNC, "--gpuio-verify=full", suite=suite)
    outcomes = result.parseoutcomes()
    if outcomes.get("skipped"):
        pytest.skip("the file system of temporary files punches no holes")
    assert (outcomes.get("passed"), outcomes.get("failed")) == (1, 1)
    (void,) = results()["voids"]
    assert void["axes"]["jobs"] == 2
    # Holes move no bytes on the device either, so either gate may speak first.
    assert void["gate"] in ("data_verified", "device_bytes")
    assert [cell["axes"]["jobs"] for cell in results()["cells"]] == [1]
