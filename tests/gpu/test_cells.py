"""Cells that end in GPU memory, through pytest, on a real GPU."""

import json

import pytest

pytestmark = pytest.mark.gpu
SUITE = """
import pytest


@pytest.mark.workload("inference/random_read_4k", "pretrain/checkpoint_save")
def test_cell(gpuio):
    gpuio.run()
"""


@pytest.fixture
def cells(gpus, pytester, tmp_path_factory):
    """Run the suite into GPU memory and give the records."""
    target = tmp_path_factory.mktemp("target")

    def run(*options: str) -> list[dict]:
        pytester.makepyfile(test_suite=SUITE)
        pytester.runpytest_subprocess(
            f"--gpuio-target={target}", "--gpuio-destination=gpu", "--gpuio-size=256M", "--gpuio-max-time=400ms",
            "-p", "no:cacheprovider", "-p", "no:hypothesispytest", "-m", "gpu", "-rs", *options, timeout=300,
        )  # fmt: skip
        found = json.loads((pytester.path / "gpuio-results.json").read_text())
        # A shared machine may void a cell by noise; wrong data and a wrong path are no noise.
        voids = [void for void in found["voids"] if void["gate"] in ("data_verified", "path_proved", "no_errors")]
        assert not voids
        assert not found["failures"]
        return found["cells"]

    yield run
    for file in target.glob("*"):
        file.unlink()


@pytest.mark.parametrize("verify", ["sweep", "full"])
def test_every_kernel_path_ends_in_gpu_memory(cells, verify):
    records = cells(
        "--gpuio-datapath=psync,libaio,io_uring,io_uring_sqpoll,mmap", "--gpuio-bs=64k", f"--gpuio-verify={verify}"
    )
    assert {record["axes"]["datapath"] for record in records} >= {"psync", "libaio", "io_uring"}
    for record in records:
        assert record["verify"]["checked"] > 0
        assert record["verify"]["bad"] == 0
        copies = record["gpu"]["copies"]
        assert copies["bytes"] >= record["bytes"]
        assert record["latency"]["lat"]["mean_ns"] > copies["device"]["mean_ns"]
        assert copies["staging_huge_bytes"] > 0


def test_two_gpus_are_one_cell_with_a_share_each(cells, gpus):
    if len(gpus) < 2:
        pytest.skip("there is one GPU")
    records = cells(
        "--gpuio-datapath=libaio", "--gpuio-bs=64k", "--gpuio-gpus=1,2", "--gpuio-workload=inference/random_read_4k"
    )
    for record in records:
        shares = record["gpu"]["shares"]
        assert len(shares) == record["axes"]["gpus"]
        assert sum(share["bytes"] for share in shares) == record["bytes"]
        assert all(share["gb_per_s"] > 0 for share in shares)
