"""GPU memory as destination, with a stand-in for the CUDA driver: no GPU is here, its memory is the host's."""

import pytest

from pytest_gpuio import engine
from pytest_gpuio.core.errors import EngineError
from pytest_gpuio.engine import Run, RunSpec


@pytest.fixture
def two_gpus(libcuda, monkeypatch):
    monkeypatch.setenv("GPUIO_LIBCUDA", libcuda)
    monkeypatch.setenv("STANDIN_CUDA_GPUS", "2")


def test_gpus_of_the_stand_in_are_described(two_gpus):
    first, second = engine.gpus()
    assert engine.gpu_count() == 2
    assert (first.ordinal, first.name, first.bus_id) == (0, "stand-in GPU 0", "0000:01:00.0")
    assert second.uuid == "GPU-00000000-0000-0000-0000-000000000001"
    assert first.compute_capability == "9.0"
    assert first.driver_version == "12.4"
    assert first.copy_engines == 2
    assert first.bytes == 1 << 30


@pytest.mark.parametrize(("name", "depth"), [("psync", 1), ("mmap", 1), ("libaio", 8), ("io_uring", 8)])
def test_reads_end_in_the_memory_of_the_stand_in(two_gpus, clock, pool, target, name, depth):
    if engine.probe(name) is not None:
        pytest.skip(engine.probe(name))
    spec = RunSpec(
        engine=name, fd=target(), jobs=2, depth=depth, region_bytes=4 << 20, order="random", pattern_seed=7,
        gpus=(1, 0), verify=True,
        knobs=frozenset({"fixed_buffers", "merged_wait"}) if name == "io_uring" else frozenset(),
    )  # fmt: skip
    with Run(spec, clock, pool) as run:
        window = run.window(500)
        histograms = run.histograms()
        assert (window.ios, window.errors, window.bad, window.verified) == (500, 0, 0, 500)
        assert [worker.gpu for worker in window.workers] == [1, 0]
        assert histograms["total"].count == histograms["copy"].count == histograms["lat"].count == 500
        assert histograms["total"].sum_ns >= histograms["lat"].sum_ns
        assert run.slots > depth
        assert window.copied_bytes >= 500 * 4096
        swept = run.sweep()
        assert swept.checked > 0
        assert swept.bad == 0
        if name == "io_uring":
            assert "fixed_buffers" in run.effective_knobs
    info = pool.info()
    assert info.pinned_bytes == info.bytes
    assert info.pin_seconds > 0


@pytest.mark.parametrize("check", ["kernel", "copy"])
def test_writes_come_from_the_memory_of_the_stand_in(two_gpus, clock, pool, target, check):
    fd = target(seed=1)  # what is there now is no valid content
    spec = RunSpec(
        engine="libaio", fd=fd, depth=4, region_bytes=1 << 20, order="sequential", read_percent=0, pattern_seed=7,
        gpus=(0,), gpu_check=check, copy_wait="sleep", copy_streams=2, copy_ahead=3,
    )  # fmt: skip
    with Run(spec, clock, pool) as run:
        assert run.slots == 7
        assert run.window(256).writes == 256
        swept = run.sweep()
        assert swept.checked > 0
        assert swept.bad == 0


def test_a_lost_copy_voids_nothing_silently(two_gpus, clock, pool, target, monkeypatch):
    monkeypatch.setenv("STANDIN_CUDA_LOSE", "3")
    spec = RunSpec(engine="psync", fd=target(), region_bytes=4 << 20, pattern_seed=7, gpus=(0,), verify=True)
    with Run(spec, clock, pool) as run:
        assert 0 < run.window(200).bad < 200


def test_without_a_driver_the_remedy_is_named(monkeypatch):
    monkeypatch.setenv("GPUIO_LIBCUDA", "/nowhere/libcuda.so.1")
    with pytest.raises(EngineError, match=r"cannot be opened.*install NVIDIA's driver.*GPUIO_LIBCUDA"):
        engine.gpus()


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ({"gpus": (0, 0)}, "2 GPUs are given for 1 jobs"),
        ({"gpus": (5,)}, "there is no GPU 5: the CUDA driver shows 2"),
        ({"gpus": (-1,)}, "numbered from 0"),
        ({"gpus": (0,), "copy_streams": 99}, "99 streams"),
        ({"gpus": (0,), "copy_wait": "doze"}, "copy wait 'doze' is not known"),
        ({"gpus": (0,), "gpu_check": "trust"}, "GPU check 'trust' is not known"),
        ({"gpus": (0,), "copy_ahead": -1}, "-1 slots ahead"),
    ],
)
def test_what_cannot_work_is_refused(two_gpus, clock, pool, target, fields, words):
    with pytest.raises(EngineError, match=words):
        Run(RunSpec(engine="psync", fd=target(), region_bytes=4 << 20, **fields), clock, pool)
