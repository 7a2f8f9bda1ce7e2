from __future__ import annotations

import errno
import mmap
import os
import subprocess
import sys
import threading
import time
from dataclasses import replace
from pathlib import Path

import pytest

from pytest_gpuio.core.errors import EngineError
from pytest_gpuio.engine import KNOBS, Clock, Pool, Run, RunSpec, offsets, pattern_check, probe

MIB = 1 << 20
BLOCK = 16384
ENGINES = ("psync", "mmap", "libaio", "io_uring", "io_uring_sqpoll")
SYNCHRONOUS = ("psync", "mmap")


@pytest.fixture(params=ENGINES)
def spec(request) -> RunSpec:
    """Random reads of a 4 MiB target by one engine; the file descriptor is still missing."""
    reason = probe(request.param)
    if reason is not None:
        pytest.skip(reason)
    return RunSpec(
        engine=request.param, depth=1 if request.param in SYNCHRONOUS else 8, block=BLOCK, order="random",
        region_bytes=4 * MIB, pattern_seed=7, seed=5, timeout_s=60,
        knobs=frozenset(KNOBS) if request.param == "io_uring" else frozenset(),
    )  # fmt: skip


def folders(tmp_path: Path) -> list[Path]:
    return [folder for folder in (tmp_path, Path("/dev/shm")) if os.access(folder, os.W_OK)]


def bad_sectors(fd: int, size: int = 4 * MIB) -> int:
    return pattern_check(os.pread(fd, size, 0), 0, 7)[0]


def test_reads_are_what_the_file_holds(spec, clock: Clock, pool: Pool, target, tmp_path):
    for folder in folders(tmp_path):
        fd = target(folder=folder)
        with Run(replace(spec, fd=fd, verify=True), clock, pool) as run:
            window = run.window(1000)
            swept = run.sweep()
        assert (window.ios, window.reads, window.writes, window.bytes) == (1000, 1000, 0, 1000 * BLOCK)
        assert (window.verified, window.bad, window.errors, window.short_ios) == (1000, 0, 0, 0)
        assert (swept.checked, swept.bad) == (spec.depth, 0)


def test_a_changed_bit_is_found(spec, clock: Clock, pool: Pool, target):
    fd = target()
    spoiled = bytearray(os.pread(fd, 512, 2 * MIB))
    spoiled[100] ^= 2
    os.pwrite(fd, spoiled, 2 * MIB)
    spec = replace(spec, fd=fd)
    with Run(replace(spec, verify=True), clock, pool) as run:
        window = run.window(4 * MIB // BLOCK)
    assert (window.verified, window.bad, window.first_bad_offset) == (4 * MIB // BLOCK, 1, 2 * MIB)
    with Run(replace(spec, region_offset=2 * MIB, region_bytes=BLOCK), clock, pool) as run:
        run.window(32)
        swept = run.sweep()
    assert (swept.checked, swept.bad, swept.first_bad_offset) == (spec.depth, spec.depth, 2 * MIB)


@pytest.mark.parametrize("jobs", [1, 3])
def test_writes_fill_the_file(spec, clock: Clock, pool: Pool, target, tmp_path, jobs):
    for folder in folders(tmp_path):
        fd = target(folder=folder, seed=8)
        assert bad_sectors(fd) == 4 * MIB // 512
        with Run(replace(spec, fd=fd, read_percent=0, jobs=jobs, sync="end"), clock, pool) as run:
            window = run.window(4 * MIB // BLOCK)
            swept = run.sweep()
        assert (window.ios, window.writes, window.bytes, window.syncs) == (4 * MIB // BLOCK, window.ios, 4 * MIB, jobs)
        assert window.sync_ns > 0
        assert (swept.checked, swept.bad) == (jobs * spec.depth, 0)
        assert bad_sectors(fd) == 0


def test_direct_io_is_what_the_block_layer_counts(spec, clock: Clock, pool: Pool, target):
    def read_bytes() -> int:
        lines = Path("/proc/self/io").read_text().splitlines()
        return int(dict(line.split(": ") for line in lines)["read_bytes"])

    if spec.engine == "mmap":
        pytest.skip("a map goes through the page cache, however the file is open")
    fd = target(direct=True)
    with Run(replace(spec, fd=fd, verify=True, submit_batch=spec.depth, reap_batch=spec.depth), clock, pool) as run:
        before = read_bytes()
        window = run.window(800)
        counted = read_bytes() - before
    assert (window.ios, window.verified, window.bad) == (800, 800, 0)
    if counted == 0:
        pytest.skip("the file system of the temporary folder does not count direct reads (tmpfs)")
    assert counted == 800 * BLOCK


def test_a_mix_leaves_the_file_whole(spec, clock: Clock, pool: Pool, target):
    # One block per worker in flight, or a read could race with the write of the same block.
    spec = replace(spec, fd=target(), read_percent=30, verify=True, depth=1)
    expected = offsets(spec, 0, 700)[1]
    with Run(spec, clock, pool) as run:
        window = run.window(700)
        swept = run.sweep()
    assert (window.reads, window.writes) == (expected.count(0), expected.count(1))
    assert (window.verified, window.bad, swept.bad) == (window.reads, 0, 0)
    assert bad_sectors(spec.fd) == 0


def test_histograms_hold_every_io(spec, clock: Clock, pool: Pool, target):
    spec = replace(spec, fd=target(), jobs=2, knobs=spec.knobs - {"merged_wait"})
    with Run(spec, clock, pool) as run:
        window = run.window(1001)
        histograms = run.histograms()
    slat, clat, lat = (histograms[name] for name in ("slat", "clat", "lat"))
    assert lat.count == clat.count == window.ios == 1001
    assert sum(lat.bins().values()) == 1001
    if spec.engine in SYNCHRONOUS:
        assert slat.count == 0
        assert clat.bins() == lat.bins()
    else:
        assert slat.count == 1001
        assert slat.sum_ns + clat.sum_ns <= lat.sum_ns <= slat.sum_ns + clat.sum_ns + 3 * 1001
    assert lat.max_ns <= window.end_ns - window.start_ns + 1000
    assert [worker.ios for worker in window.workers] == [501, 500]


def test_littles_law_holds(spec, clock: Clock, pool: Pool, target):
    """Counter and latencies share no stamp, so this could fail; the tolerance is the gate's own.

    In one of five windows: they are short, and a loss of the CPU just between two stamps is more than that.
    """
    spec = replace(spec, fd=target(direct=True))
    ratios = []
    with Run(spec, clock, pool) as run:
        run.window(200)
        for _ in range(5):
            window = run.window(1000)
            assert window.mean_in_flight <= window.max_in_flight <= spec.depth
            in_flight = window.steady_rate * window.steady_lat_ns / window.steady_ios / 1e9
            ratios.append(in_flight / window.mean_in_flight)
    assert min(ratios, key=lambda ratio: abs(ratio - 1.0)) == pytest.approx(1.0, abs=0.05)


@pytest.mark.parametrize(
    ("depth", "batch", "knobs"),
    [
        (8, 1, frozenset()),  # a stamp per request
        (32, 1, frozenset()),
        (32, 1, frozenset({"merged_wait"})),  # a stamp per call
        (32, 32, frozenset({"merged_wait", "single_issuer"})),
        (32, 8, frozenset()),
    ],
)
@pytest.mark.parametrize("engine", ["io_uring", "libaio"])
def test_littles_law_holds_however_stamps_are_taken(clock: Clock, pool: Pool, target, engine, depth, batch, knobs):
    reason = probe(engine)
    if reason is not None:
        pytest.skip(reason)
    spec = RunSpec(
        engine=engine, fd=target(), depth=depth, submit_batch=batch, reap_batch=batch, knobs=knobs, order="random",
        region_bytes=4 * MIB, timeout_s=60,
    )  # fmt: skip
    ratios = []
    with Run(spec, clock, pool) as run:
        for _ in range(5):
            window = run.window(5000)
            in_flight = window.steady_rate * window.steady_lat_ns / window.steady_ios / 1e9
            ratios.append(in_flight / window.mean_in_flight)
    assert min(ratios, key=lambda ratio: abs(ratio - 1.0)) == pytest.approx(1.0, abs=0.05)


def test_workers_that_take_turns_are_not_counted_as_if_at_once(spec, clock: Clock, pool: Pool, target):
    """Many workers on one CPU, each done with its share in a blink; their own ends are the other witness."""
    if "sqpoll" in spec.engine:
        pytest.skip("a submission poller has a CPU of its own: 32 of them do not take turns, they starve their workers")
    cpu = min(os.sched_getaffinity(0))
    spec = replace(spec, fd=target(), jobs=32, depth=1, cpus=(cpu,) * 32)
    with Run(spec, clock, pool) as run:
        run.window(32 * 20)
        window = run.window(32 * 500)
    in_flight = window.steady_rate * window.steady_lat_ns / window.steady_ios / 1e9
    # Wide: a switch to another process between two stamps weighs a lot here.
    assert in_flight == pytest.approx(window.mean_in_flight, rel=0.25)
    at_work = sum(worker.end_ns - worker.start_ns for worker in window.workers)
    whole = max(worker.end_ns for worker in window.workers) - min(worker.start_ns for worker in window.workers)
    assert window.mean_in_flight <= 1.05 * at_work / whole


def test_short_reads_are_counted_and_not_retried(spec, clock: Clock, pool: Pool, target):
    fd = target(MIB)
    spec = replace(spec, fd=fd, order="sequential", region_offset=512, region_bytes=MIB, verify=True)
    with Run(spec, clock, pool) as run:
        window = run.window(64)
    assert (window.ios, window.short_ios, window.errors) == (63, 1, 0)
    assert window.bytes == 63 * BLOCK


def test_errors_are_counted_and_end_a_share(spec, clock: Clock, pool: Pool, target):
    fd = target(flags=os.O_WRONLY)
    if spec.engine == "mmap":
        with pytest.raises(EngineError, match="open it for reading") as raised:
            Run(replace(spec, fd=fd), clock, pool)
        assert raised.value.errno == errno.EACCES
        return
    with Run(replace(spec, fd=fd, order="sequential", region_offset=512), clock, pool) as run:
        window = run.window(10_000)
    assert window.ios == 0
    assert 64 <= window.errors < 64 + spec.depth
    assert (window.first_error, window.first_error_op, window.first_error_offset) == (-errno.EBADF, 0, 512)


def test_written_data_must_be_readable_for_the_sweep(spec, clock: Clock, pool: Pool, target):
    if spec.engine == "mmap":
        pytest.skip("a map that is written must be readable from the start")
    with Run(replace(spec, fd=target(flags=os.O_WRONLY), read_percent=0), clock, pool) as run:
        with pytest.raises(EngineError, match="no finished window"):
            run.sweep()
        assert run.window(32).writes == 32
        with pytest.raises(EngineError, match="open the file for reading and writing") as raised:
            run.sweep()
        assert raised.value.errno == errno.EBADF


@pytest.mark.parametrize("kind", ["mmap", "memoryview"])
def test_the_stop_flag_ends_a_window(spec, clock: Clock, pool: Pool, target, kind):
    shared = mmap.mmap(-1, 4096)
    stop = memoryview(shared) if kind == "memoryview" else shared
    with Run(replace(spec, fd=target()), clock, pool, stop) as run:
        # Python runs on while the window does: the GIL is free.
        timer = threading.Timer(0.05, shared.__setitem__, (0, 1))
        timer.start()
        window = run.window(1 << 40)
        timer.join()
        assert window.stopped == 1
        assert 0 < window.ios < 1 << 40
        assert run.histograms()["lat"].count == window.ios
        shared[0] = 0
        assert run.window(10).ios == 10
    if kind == "memoryview":
        stop.release()
    shared.close()  # the run has let go of it


@pytest.mark.parametrize("engine", SYNCHRONOUS)
def test_sync_every(clock: Clock, pool: Pool, target, engine):
    spec = RunSpec(
        engine=engine, fd=target(), region_bytes=4 * MIB, read_percent=0, sync="every", sync_every=5, pattern_seed=7
    )
    with Run(spec, clock, pool) as run:
        assert run.window(12).syncs == 2
        assert run.window(3).syncs == 1


def test_pinned_workers(clock: Clock, pool: Pool):
    cpu = min(os.sched_getaffinity(0))
    spec = RunSpec(engine="null", jobs=2, region_bytes=MIB, cpus=(-1, cpu))
    with Run(spec, clock, pool) as run:
        workers = run.window(100).workers
    assert [worker.cpu for worker in workers] == [-1, cpu]
    assert len({worker.tid for worker in workers}) == 2


def test_null_moves_nothing(clock: Clock, pool: Pool):
    spec = RunSpec(engine="null", depth=32, region_bytes=MIB, verify=True, sync="end", read_percent=50)
    with Run(spec, clock, pool) as run:
        window = run.window(5000)
        swept = run.sweep()
    assert (window.ios, window.verified, window.syncs) == (5000, 0, 0)
    assert swept.checked == 0


def test_cpu_of_a_window_is_the_process(clock: Clock, pool: Pool):
    with Run(RunSpec(engine="null", depth=8, region_bytes=MIB), clock, pool) as run:
        before = time.process_time_ns()
        window = run.window(200_000)
        spent = time.process_time_ns() - before
    assert 0 < window.workers[0].cpu_ns <= window.cpu_ns <= spent


@pytest.mark.parametrize(
    ("change", "code", "words"),
    [
        ({"engine": "warp"}, errno.ENOENT, "no engine named warp"),
        ({"jobs": 0}, errno.EINVAL, "0 jobs"),
        ({"depth": 2}, errno.EINVAL, "synchronous"),
        ({"submit_batch": 2}, errno.EINVAL, "submit batch 2"),
        ({"block": 8 * MIB}, errno.EINVAL, "holds 0 blocks of 8388608 bytes"),
        ({"read_percent": 101}, errno.EINVAL, "101 % reads"),
        ({"read_percent": 0, "block": 1000}, errno.EINVAL, "not whole 512-byte sectors"),
        ({"sync": "every"}, errno.EINVAL, "number of writes"),
        ({"sync": "often"}, 0, "sync 'often' is not known: use none, end, every"),
        ({"fd": -1}, errno.EBADF, "file descriptor -1 is not open"),
        ({"cpus": (0, 1)}, 0, "2 CPUs are given for 1 jobs"),
        ({"cpus": (99999,)}, errno.EINVAL, "pinned to CPU 99999"),
        ({"knobs": frozenset({"turbo"})}, 0, "the knobs turbo are not known"),
        (
            {"knobs": frozenset({"merged_wait"}), "require_knobs": True},
            errno.ENOTSUP,
            "psync does not have: merged_wait",
        ),
        ({"timeout_s": -1.0}, 0, "time-out of -1.0 s"),
        ({"region_offset": 1 << 63}, errno.EINVAL, "ends beyond any file"),
        ({"depth": 1 << 32}, 0, "depth = 4294967296 does not fit"),
    ],
)
def test_specs_that_cannot_work(clock: Clock, pool: Pool, target, change, code, words):
    spec = replace(RunSpec(engine="psync", fd=target(), region_bytes=4 * MIB), **change)
    with pytest.raises(EngineError, match=words) as raised:
        Run(spec, clock, pool)
    assert raised.value.errno == code
    # Nothing is left behind: the pool is free.
    with Run(RunSpec(engine="null", region_bytes=MIB), clock, pool) as run:
        assert run.window(1).ios == 1


def test_knobs_that_an_engine_has_not_are_recorded(clock: Clock, pool: Pool):
    with Run(RunSpec(engine="null", region_bytes=MIB, knobs=frozenset({"fixed_buffers"})), clock, pool) as run:
        assert run.effective_knobs == frozenset()
        assert run.knob_reason == "the engine null does not have: fixed_buffers"


def test_a_stop_flag_that_is_too_small(clock: Clock, pool: Pool):
    with pytest.raises(EngineError, match="has 3 bytes: 4 are needed"):
        Run(RunSpec(engine="null", region_bytes=MIB), clock, pool, bytearray(3))


@pytest.mark.parametrize("ios", [0, -1, 1 << 64])
def test_windows_that_cannot_be(clock: Clock, pool: Pool, ios):
    with Run(RunSpec(engine="null", region_bytes=MIB), clock, pool) as run, pytest.raises(EngineError, match="use 1"):
        run.window(ios)


def test_a_closed_run(clock: Clock, pool: Pool):
    run = Run(RunSpec(engine="null", region_bytes=MIB), clock, pool)
    run.close()
    run.close()
    for call in (
        lambda: run.window(1),
        run.histograms,
        run.sweep,
        lambda: run.effective_knobs,
        lambda: run.knob_reason,
    ):
        with pytest.raises(EngineError, match="run is closed"):
            call()


def test_an_engine_that_breaks(shared_object, tmp_path):
    """In a process of its own: the engine reads the environment of C."""
    code = """
import sys
from pytest_gpuio.core.errors import EngineError
from pytest_gpuio.engine import Clock, Pool, Run, RunSpec, load_engine, probe
load_engine(sys.argv[1])
print(probe("broken"))
pool = Pool()
with Run(RunSpec(engine="broken", region_bytes=1 << 20), Clock.calibrate(), pool) as run:
    for _ in range(2):
        try:
            run.window(10)
        except EngineError as error:
            print(error.errno, error)
"""
    environment = {**os.environ, "BROKEN_AT": "reap"}
    done = subprocess.run(
        [sys.executable, "-P", "-c", code, shared_object(Path("tests/engines/broken.c"))],
        capture_output=True, text=True, env=environment, timeout=60, check=True,
    )  # fmt: skip
    assert done.stdout.splitlines() == [
        "the device is broken: buy another",
        f"{errno.EIO} worker 0: the engine broken failed (Input/output error)",
        f"{errno.ECANCELED} a window of this run failed or passed its deadline: close the run",
    ]


def test_a_stuck_worker_is_named_and_given_up(shared_object):
    code = """
import os, sys
from pytest_gpuio.core.errors import EngineError
from pytest_gpuio.engine import Clock, Pool, Run, RunSpec, load_engine
load_engine(sys.argv[1])
try:
    with Run(RunSpec(engine="sleeping", jobs=2, region_bytes=1 << 20, timeout_s=0.2), Clock.calibrate(), Pool()) as run:
        run.window(100)
except EngineError as error:
    print(error.errno, error)
    print(*error.__notes__)
sys.stdout.flush()
os._exit(0)
"""
    started = time.monotonic()
    done = subprocess.run(
        [sys.executable, "-P", "-c", code, shared_object(Path("tests/engines/sleeping.c"))],
        capture_output=True, text=True, env={**os.environ, "SLEEPING_MS": "60000"}, timeout=60, check=True,
    )  # fmt: skip
    assert time.monotonic() - started < 40  # the device sleeps for 60 s
    first, note = done.stdout.splitlines()
    assert first.startswith(f"{errno.ETIMEDOUT} worker 1 of engine sleeping did not come back within 0.2 s")
    assert "did not end within 2 s" in note
    assert "give this process up" in note


def test_a_struct_of_another_build_is_refused():
    from pytest_gpuio.engine import run as module

    with pytest.raises(EngineError, match="struct gpuio_window has other fields: build the package again"):
        module._layout("gpuio_window", ("start_ns", "end_ns"))
