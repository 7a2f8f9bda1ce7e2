"""GPU memory reached by copies, on a real GPU: bytes are there, wrong ones are found, no other GPU is used."""

import os
import subprocess
import sys
from array import array

import pytest

from pytest_gpuio import engine
from pytest_gpuio.engine import Run, RunSpec, pattern_check

pytestmark = pytest.mark.gpu
MIB = 1 << 20
SIZE = 64 * MIB
ENGINES = [("psync", 1), ("mmap", 1), ("libaio", 32), ("io_uring", 32), ("io_uring_sqpoll", 16)]


@pytest.fixture
def opened():
    fds = []

    def open_file(path, *, direct=True, writable=False):
        flags = (os.O_RDWR if writable else os.O_RDONLY) | (os.O_DIRECT if direct else 0)
        fds.append(os.open(path, flags))
        return fds[-1]

    yield open_file
    for fd in fds:
        os.close(fd)


def spec_for(name, depth, fd, **fields):
    knobs = {"fixed_buffers", "registered_files"} if name.startswith("io_uring") else set()
    plain = {"region_bytes": SIZE, "order": "random", "pattern_seed": 7, "gpus": (0,), "timeout_s": 60.0}
    return RunSpec(engine=name, fd=fd, depth=depth, knobs=frozenset(knobs), **{**plain, **fields})


@pytest.mark.parametrize(("name", "depth"), ENGINES)
@pytest.mark.parametrize("block", [4096, 65536, MIB])
@pytest.mark.parametrize("check", ["kernel", "copy"])
def test_every_read_is_verified_in_gpu_memory(gpus, clock, pool, files, opened, name, depth, block, check):
    reason = engine.probe(name)
    if reason is not None:
        pytest.skip(reason)
    fd = opened(files("reads"), direct=name != "mmap")
    spec = spec_for(name, depth, fd, block=block, verify=True, gpu_check=check, jobs=2, gpus=(0, 0))
    with Run(spec, clock, pool) as run:
        ios = min(2 * SIZE // block, 4096)
        window = run.window(ios)
        assert (window.ios, window.errors, window.short_ios) == (ios, 0, 0)
        assert (window.verified, window.bad) == (ios, 0)
        assert run.histograms()["total"].count == ios
        swept = run.sweep()
        assert swept.checked > 0
        assert swept.bad == 0
        if name == "io_uring":
            assert "fixed_buffers" in run.effective_knobs


@pytest.mark.parametrize("block", [4096, MIB])
def test_the_kernel_and_the_host_find_the_same_wrong_bytes(gpus, clock, pool, files, opened, block):
    path = files(f"wrong-{block}", 8 * MIB)
    with path.open("r+b") as file:
        for sector, byte in ((3, 0), (3 + 128, 17), (9000, 511)):
            file.seek(sector * 512 + byte)
            old = file.read(1)[0]
            file.seek(sector * 512 + byte)
            file.write(bytes([old ^ 0x40]))
        file.flush()
        os.fsync(file.fileno())
    expected_bad = len({sector * 512 // block for sector in (3, 131, 9000)})
    assert pattern_check(path.read_bytes(), 0, 7) == (3, 3 * 512)
    for check in ("kernel", "copy"):
        spec = spec_for(
            "libaio",
            8,
            opened(path),
            block=block,
            region_bytes=8 * MIB,
            order="sequential",
            verify=True,
            gpu_check=check,
        )
        with Run(spec, clock, pool) as run:
            window = run.window(8 * MIB // block)
            assert window.bad == expected_bad, check
            assert window.first_bad_offset == 3 * 512, check
            assert window.verified == 8 * MIB // block


def test_another_seed_is_wrong_everywhere(gpus, clock, pool, files, opened):
    with Run(spec_for("psync", 1, opened(files("reads")), verify=True, pattern_seed=8), clock, pool) as run:
        window = run.window(256)
        assert window.verified == window.bad == 256


@pytest.mark.parametrize("check", ["kernel", "copy"])
@pytest.mark.parametrize(("name", "depth"), [("psync", 1), ("libaio", 16), ("io_uring", 16)])
@pytest.mark.parametrize("percent", [0, 50])
def test_writes_come_from_gpu_memory(gpus, clock, pool, files, opened, tmp_path, check, name, depth, percent):
    path = files(f"writes-{name}-{check}-{percent}", 16 * MIB)
    spec = spec_for(
        name, depth, opened(path, writable=True), block=65536, region_bytes=16 * MIB, read_percent=percent, sync="end",
        gpu_check=check, verify=True,
    )  # fmt: skip
    with Run(spec, clock, pool) as run:
        window = run.window(1024)
        assert (window.ios, window.errors, window.bad) == (1024, 0, 0)
        swept = run.sweep()
        assert swept.checked > 0
        assert swept.bad == 0
    assert pattern_check(path.read_bytes(), 0, 7) == (0, 0)


@pytest.mark.parametrize("wait", ["spin", "sleep"])
@pytest.mark.parametrize("streams", [1, 3])
def test_an_open_loop_ends_in_gpu_memory(gpus, clock, pool, files, opened, wait, streams):
    arrivals = array("Q", [i * 200_000 for i in range(500)])
    spec = spec_for(
        "libaio", 32, opened(files("reads")), arrivals=arrivals, copy_wait=wait, copy_streams=streams, verify=True
    )
    with Run(spec, clock, pool) as run:
        window = run.window(500)
        assert (window.ios, window.verified, window.bad) == (500, 500, 0)
        histograms = run.histograms()
        assert histograms["response"].count == 500
        assert histograms["response"].sum_ns >= histograms["total"].sum_ns


def test_littles_law_holds_on_the_whole_way(gpus, clock, pool, files, opened):
    with Run(spec_for("libaio", 16, opened(files("reads")), block=65536), clock, pool) as run:
        run.window(500)
        window = run.window(4000)
        for part in ("steady", "total"):
            rate, lat = getattr(window, f"{part}_rate"), getattr(window, f"{part}_lat_ns")
            predicted = rate * lat / getattr(window, f"{part}_ios") / 1e9
            seen = window.mean_in_flight if part == "steady" else window.total_in_flight
            assert predicted == pytest.approx(seen, rel=0.05)


def compute_pids(gpu):
    nvml = pytest.importorskip("pynvml")
    nvml.nvmlInit()
    try:
        handle = nvml.nvmlDeviceGetHandleByUUID(gpu.uuid)
        return {process.pid for process in nvml.nvmlDeviceGetComputeRunningProcesses(handle)}
    finally:
        nvml.nvmlShutdown()


def test_only_the_asked_gpu_has_a_context(gpus, clock, files, opened):
    if len(gpus) < 2:
        pytest.skip("there is one GPU")
    script = (
        "import os, sys, time\n"
        "from pytest_gpuio.engine import Clock, Pool, Run, RunSpec\n"
        f"fd = os.open({str(files('reads'))!r}, os.O_RDONLY)\n"
        "pool = Pool()\n"
        f"spec = RunSpec(engine='psync', fd=fd, region_bytes={SIZE}, pattern_seed=7, gpus=(1,))\n"
        "with Run(spec, Clock.calibrate(), pool) as run:\n"
        "    run.window(100)\n"
        "    print('ready', flush=True)\n"
        "    sys.stdin.readline()\n"
    )
    child = subprocess.Popen(
        [sys.executable, "-P", "-c", script], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    try:
        assert child.stdout.readline() == "ready\n"
        assert child.pid in compute_pids(gpus[1])
        assert child.pid not in compute_pids(gpus[0])
    finally:
        child.communicate("\n", timeout=30)


def test_two_gpus_each_get_their_workers_bytes(gpus, clock, pool, files, opened):
    if len(gpus) < 2:
        pytest.skip("there is one GPU")
    fd = opened(files("reads"))
    with Run(spec_for("libaio", 16, fd, jobs=4, gpus=(0, 0, 1, 1), verify=True, block=65536), clock, pool) as run:
        window = run.window(4000)
        assert (window.verified, window.bad) == (4000, 0)
        assert [worker.gpu for worker in window.workers] == [0, 0, 1, 1]
        assert [worker.ios for worker in window.workers] == [1000] * 4
        assert run.sweep().bad == 0
