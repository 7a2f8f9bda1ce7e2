"""Models into GPU memory through pytest; with a stand-in for the CUDA driver, since no GPU is here."""

import shutil

import pytest

GPU = "--gpuio-destination=gpu"
SUITE = """
import pytest


@pytest.mark.workload({names})
def test_model(gpuio):
    gpuio.run()
"""
LOAD = "inference/cold_start[model=qwen2.5-0.5b,scale=0.03]"
SAVE = "pretrain/checkpoint_ranks[ranks=2,scale=0.002]"
STREAM = "inference/weights_stream[model=qwen2.5-0.5b,scale=0.05,compute_ms=2]"


@pytest.fixture
def target(target):
    yield target
    shutil.rmtree(target / "models", ignore_errors=True)


@pytest.fixture
def run(gpuio_run, results, libcuda, monkeypatch):
    monkeypatch.setenv("GPUIO_LIBCUDA", libcuda)
    monkeypatch.setenv("STANDIN_CUDA_GPUS", "2")

    def run(*names, options=(), passed):
        suite = SUITE.format(names=", ".join(map(repr, names)))
        outcome = gpuio_run("--gpuio-datapath=io_uring", GPU, "-rs", *options, suite=suite)
        report = results()
        assert not report["voids"], report["voids"]
        outcome.assert_outcomes(**passed)
        return outcome, {cell["axes"]["workload"].partition("[")[0]: cell for cell in report["cells"]}

    return run


def test_records_end_in_the_stand_ins_memory_checked(run) -> None:
    _, found = run(LOAD, SAVE, options=["--gpuio-verify=full"], passed={"passed": 2})
    load, save = found["inference/cold_start"], found["pretrain/checkpoint_ranks"]
    for cell in (load, save):
        assert cell["gpu"]["copies"]["bytes"] >= cell["bytes"]
        assert cell["verify"]["checked"] > 0
        assert cell["verify"]["bad"] == 0
        assert cell["bytes"] == cell["replay"]["moved_bytes"] * cell["windows"]["count"]
    assert load["verify"]["checked"] >= load["reads"]
    # Two processes with one GPU between them.
    assert save["replay"]["ranks"]["processes"] == 2
    assert [share["ordinal"] for share in save["gpu"]["shares"]] == [0]


def test_ranks_have_a_gpu_each_and_one_rank_has_one(run) -> None:
    outcome, found = run(LOAD, SAVE, options=["--gpuio-gpus=2"], passed={"passed": 1, "skipped": 1})
    shares = found["pretrain/checkpoint_ranks"]["gpu"]["shares"]
    assert [share["ordinal"] for share in shares] == [0, 1]
    assert all(share["bytes"] > 0 for share in shares)
    outcome.stdout.fnmatch_lines(["*use --gpuio-gpus=1 instead of 2*"])


def test_an_accelerators_steps_are_kernels(run) -> None:
    outcome, found = run(STREAM, passed={"passed": 1})
    stalled = found["inference/weights_stream"]["replay"]["stall"]
    kernel = stalled["kernel"]
    assert kernel["step_ns"] == 2_000_000
    assert kernel["took_s"] > 0
    assert kernel["alone_ns"] > 0
    assert 0 < stalled["utilization"] <= 1
    outcome.stdout.fnmatch_lines(["*kernels *x as long as alone*"])


def test_into_host_memory_computing_is_time_that_passes(gpuio_run, results) -> None:
    gpuio_run("--gpuio-datapath=io_uring", suite=SUITE.format(names=repr(STREAM))).assert_outcomes(passed=1)
    (cell,) = results()["cells"]
    assert "kernel" not in cell["replay"]["stall"]
