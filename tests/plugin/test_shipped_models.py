"""The packaged models at a small scale, measured for real, and what becomes of them where they cannot run."""

import shutil

import pytest

from pytest_gpuio.phases.records import READ
from pytest_gpuio.phases.workloads import MODELS

SUITE = """
import pytest


@pytest.mark.workload({names})
def test_model(gpuio):
    gpuio.run()
"""
#: Small enough for a test; steps and requests as large as they are.
SMALL = {
    "pretrain/dataset_text": "scale=0.004",
    "pretrain/dataset_media": "profile=retinanet_b200,epochs=1,scale=0.003",
    "pretrain/dataset_columnar": "scale=0.002",
    "pretrain/checkpoint_ranks": "ranks=2,scale=0.002",
    "pretrain/checkpoint_async": "ranks=2,checkpoints=2,compute_ms=20,scale=0.002",
    "pretrain/checkpoint_restore": "ranks=2,scale=0.002",
    "finetune/base_load": "model=qwen2.5-0.5b,scale=0.03",
    "finetune/adapter_checkpoint": "saves=2,loads=4,scale=0.05",
    "finetune/optimizer_offload": "model=qwen2.5-0.5b,scale=0.03",
    "inference/cold_start": "model=qwen2.5-0.5b,scale=0.03",
    "inference/kv_prefix_fetch": "model=qwen2.5-0.5b,requests=48,scale=0.02",
    "inference/kv_offload": "model=qwen2.5-0.5b,requests=48,scale=0.02",
    "inference/kv_objects": "requests=4,scale=0.005",
    "inference/weights_stream": "model=qwen2.5-0.5b,scale=0.05",
    "inference/kv_stream": "batch=4,prompt=64,scale=0.0005",
    "inference/vector_read": "vectors=10000,queries=512",
    "inference/mix_kv": "model=qwen2.5-0.5b,requests=48,scale=0.01",
    "inference/mix_cold_start": "model=qwen2.5-0.5b,requests=48,scale=0.01",
    "pretrain/mix_checkpoint": "epochs=1,scale=0.0005",
}


@pytest.fixture
def target(target):
    yield target
    shutil.rmtree(target / "models", ignore_errors=True)


def test_every_packaged_model_is_tried_here():
    assert {model.name for model in MODELS} == {*SMALL, "inference/kv_trace", "micro/block_trace"}


def test_the_packaged_models_are_measured(gpuio_run, results):
    names = [f"{name}[{small}]" for name, small in SMALL.items()]
    outcome = gpuio_run("--gpuio-datapath=io_uring", suite=SUITE.format(names=", ".join(map(repr, names))))
    report = results()
    assert not report["voids"], report["voids"]
    outcome.assert_outcomes(passed=len(SMALL))
    measured = {cell["axes"]["workload"].partition("[")[0]: cell for cell in report["cells"]}
    assert set(measured) == set(SMALL)
    for model in MODELS:
        if model.name not in SMALL:
            continue
        records = model.with_values(dict(pair.split("=") for pair in SMALL[model.name].split(","))).records()
        cell = measured[model.name]
        assert cell["replay"]["groups"] == records.groups, model.name
        assert cell["replay"]["wanted_bytes"] == records.bytes_of(), model.name
        assert cell["verify"]["checked"] > 0 or records.bytes_of(READ) == 0, model.name


def test_a_file_as_target_is_a_skip_because_models_have_files_of_their_own(gpuio_run, tmp_path):
    file = tmp_path / "target.dat"
    file.touch()
    outcome = gpuio_run(
        "--gpuio-datapath=io_uring", "-rs", suite=SUITE.format(names="'inference/cold_start'"), target=file
    )
    outcome.assert_outcomes(skipped=1)
    outcome.stdout.fnmatch_lines(["*lays out several files: name a directory as --gpuio-target, not a file*"])


def test_a_replay_without_its_file_says_how_to_name_one(gpuio_run):
    outcome = gpuio_run("--gpuio-datapath=io_uring", suite=SUITE.format(names="'inference/kv_trace'"))
    outcome.assert_outcomes(failed=1)
    outcome.stdout.fnmatch_lines(["*--gpuio-workload-param file=PATH*"])
