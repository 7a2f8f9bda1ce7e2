"""Models into a real GPU's memory: every record checked there, and an accelerator's steps as kernels."""

import json
import os
import shutil

import pytest

from pytest_gpuio.engine import Replay, Run, RunSpec, results_for
from pytest_gpuio.engine.replay import GROUP, NEVER, RECORD, RESULTS

pytestmark = pytest.mark.gpu
MIB, MS = 1 << 20, 1_000_000
SUITE = """
import pytest


@pytest.mark.workload({names})
def test_model(gpuio):
    gpuio.run()
"""
#: Reading, writing by ranks, reading by ranks, and steps with data read ahead of them.
MODELS = {
    "inference/cold_start": "model=qwen2.5-0.5b,scale=0.3",
    "pretrain/checkpoint_ranks": "ranks=2,scale=0.005",
    "pretrain/checkpoint_restore": "ranks=2,scale=0.005",
    "finetune/optimizer_offload": "model=qwen2.5-0.5b,scale=0.1",
    "inference/weights_stream": "model=qwen2.5-0.5b,scale=0.3,compute_ms=2",
}


@pytest.fixture
def cells(gpus, pytester, tmp_path):
    # On the disk, not in memory: durable writes and direct I/O are part of these.
    target = tmp_path / "target"
    target.mkdir()

    def run(names, *options):
        suite = SUITE.format(names=", ".join(repr(f"{name}[{MODELS[name]}]") for name in names))
        pytester.makepyfile(test_suite=suite)
        done = pytester.runpytest_subprocess(
            f"--gpuio-target={target}", "--gpuio-destination=gpu", "--gpuio-max-time=400ms", "-p", "no:cacheprovider",
            "-p", "no:hypothesispytest", "-rs", *options, timeout=300,
        )  # fmt: skip
        found = json.loads((pytester.path / "gpuio-results.json").read_text())
        # A shared machine may void a cell by noise; wrong data and a wrong path are no noise.
        voids = [void for void in found["voids"] if void["gate"] in ("data_verified", "path_proved", "no_errors")]
        assert not voids, done.stdout.str()
        assert not found["failures"], done.stdout.str()
        return {cell["axes"]["workload"].partition("[")[0]: cell for cell in found["cells"]}, done

    yield run
    shutil.rmtree(target)


def test_every_record_of_a_model_is_verified_in_gpu_memory(cells):
    found, done = cells(MODELS, "--gpuio-datapath=io_uring", "--gpuio-verify=full")
    assert len(found) >= len(MODELS) - 1, done.stdout.str()
    for cell in found.values():
        assert cell["verify"]["checked"] > 0
        assert cell["verify"]["bad"] == 0
        assert cell["gpu"]["copies"]["bytes"] >= cell["bytes"]
        assert cell["bytes"] == cell["replay"]["moved_bytes"] * cell["windows"]["count"]


def test_synchronous_reads_load_a_model_too(cells):
    found, done = cells(["inference/cold_start"], "--gpuio-datapath=psync", "--gpuio-jobs=8", "--gpuio-verify=full")
    assert found["inference/cold_start"]["verify"]["bad"] == 0, done.stdout.str()


def test_steps_are_kernels_and_what_the_io_takes_from_them_is_told(cells):
    found, done = cells(["inference/weights_stream"], "--gpuio-datapath=io_uring")
    stalled = found["inference/weights_stream"]["replay"]["stall"]
    kernel = stalled["kernel"]
    print(kernel, stalled, done.stdout.str())
    # That the calibration hit at all; how well is in the record.
    assert 0.5 < kernel["alone_ns"] / kernel["step_ns"] < 2
    assert 0.5 < kernel["stretch"] < 5
    assert 0 < stalled["utilization"] <= 1


def test_ranks_have_a_gpu_each(cells, gpus):
    if len(gpus) < 2:
        pytest.skip("there is one GPU")
    found, _ = cells(["pretrain/checkpoint_restore"], "--gpuio-datapath=io_uring", "--gpuio-gpus=2")
    shares = found["pretrain/checkpoint_restore"]["gpu"]["shares"]
    assert [share["ordinal"] for share in shares] == [0, 1]
    assert all(share["bytes"] > 0 for share in shares)


@pytest.mark.parametrize("prefetch", [0, 2])
def test_the_gpu_computes_one_step_after_the_other_on_what_is_there(gpus, clock, pool, files, prefetch):
    steps = 20
    records = b"".join(RECORD.pack(MIB * i % (32 * MIB), MIB, 0, 0, 0) for i in range(2 * steps))
    groups = b"".join(GROUP.pack(2 * i, -1, 3 * MS, 0, prefetch) for i in range(steps))
    fd = os.open(files("reads"), os.O_RDONLY | os.O_DIRECT)
    try:
        replay = Replay(records, groups, 1, (fd,), (7,))
        spec = RunSpec(
            engine="libaio", depth=4, block=MIB, gpus=(0,), replay=replay, verify=True, compute="kernel", timeout_s=60.0
        )
        with Run(spec, clock, pool) as run:
            alone = run.compute_alone(3 * MS, 20)
            results = results_for(steps)
            window = run.replay(0, steps, results)
            assert (window.ios, window.verified, window.bad) == (2 * steps, 2 * steps, 0)
    finally:
        os.close(fd)
    rows = [results[RESULTS * i : RESULTS * (i + 1)] for i in range(steps)]
    free = 0
    for number, (_due, start, end, consume, took) in enumerate(rows):
        assert NEVER not in (start, end, consume)
        assert end <= consume + 2
        assert consume + 2 >= free
        if prefetch == 0:
            assert start + 2 >= free, number
        free = consume + took
    print(
        f"prefetch {prefetch}: 3 ms alone {alone / MS:.3f} ms, in the window", [round(row[4] / MS, 3) for row in rows]
    )
