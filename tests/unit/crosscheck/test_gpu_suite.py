"""The suite about GPU memory; what it measures needs a GPU, what it says without one does not."""

import pytest

from pytest_gpuio.cli import crosscheck as command
from pytest_gpuio.crosscheck import gpu, suite
from pytest_gpuio.crosscheck.suite import Settings


def test_every_target_of_the_way_into_gpu_memory_has_a_line():
    targets = {claim.name: str(claim.target) for claim in suite.claims("gpu")}
    assert targets["h2d-1m"] == ">= 0.95"
    assert (targets["tmpfs-cufile-8"], targets["tmpfs-cufile-8-cpu"]) == (">= 1.4", "<= 1")
    assert targets["tmpfs-kvikio-16"] == ">= 1.05"
    assert (targets["loop-64k-io_uring"], targets["loop-64k-libaio-cpu"]) == (">= 1.2", "<= 0.5")
    assert (targets["loop-4k-libaio"], targets["loop-4k-io_uring-cpu"]) == (">= 1", "<= 0.4")
    assert targets["staging-libaio"] == ">= 0.9"
    assert len(targets) == len(suite.claims("gpu"))


def test_the_lines_are_listed(capsys):
    assert command.run(command.parser().parse_args(["--suite", "gpu", "--list"])) == 0
    assert "staging-io_uring" in capsys.readouterr().out


def test_without_a_gpu_a_line_says_why_it_cannot_be_measured(tmp_path, monkeypatch):
    monkeypatch.setenv("GPUIO_LIBCUDA", "/nowhere/libcuda.so.1")
    said = []
    found = suite.run(Settings(tmp_path, only="h2d-1m", pairs=1, seconds=0.4), said.append, gpu.EXPERIMENTS)
    (row,) = found.rows
    assert row.verdict == "not measurable here"
    assert "null needs cuda: the CUDA driver cannot be opened" in row.reason
    assert "GPU 0" in found.conditions


def test_a_line_that_fails_costs_no_other(tmp_path, monkeypatch):
    def broken(lab):
        raise OSError(16, "Device or resource busy")

    experiments = [
        suite.Experiment(gpu.EXPERIMENTS[0].claims, broken),
        suite.Experiment(gpu.EXPERIMENTS[1].claims, broken),
    ]
    found = suite.run(Settings(tmp_path, only="h2d-*"), lambda _line: None, experiments)
    assert [row.verdict for row in found.rows] == ["not decided", "not decided"]
    assert all("Device or resource busy" in row.reason for row in found.rows)


@pytest.mark.parametrize("name", ["overhead", "gpu"])
def test_names_are_told_once(name):
    names = [claim.name for claim in suite.claims(name)]
    assert len(names) == len(set(names))
