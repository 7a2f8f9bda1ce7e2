"""Paths that a library drives: the real NIXL on host memory, and what a machine without GPU says of the others."""

import importlib.util

import pytest

from pytest_gpuio.measure.libraries.nixl import module_name

SUITE = """
import pytest


@pytest.mark.workload("{workload}")
def test_one(gpuio):
    gpuio.run()
"""
needs_nixl = pytest.mark.skipif(module_name() is None, reason="NIXL is not installed: pip install 'pytest-gpuio[nixl]'")


@needs_nixl
@pytest.mark.parametrize("workload", ["micro/randread", "micro/seqwrite"])
def test_real_nixl_measures_with_checked_data(gpuio_run, results, workload):
    done = gpuio_run(
        "--gpuio-datapath=nixl_posix", "--gpuio-qd=8", "--gpuio-jobs=2", "--gpuio-bs=64k",
        suite=SUITE.format(workload=workload),
    )  # fmt: skip
    done.assert_outcomes(passed=1)
    cell = results()["cells"][0]
    assert cell["effective"]["datapath"] == "nixl_posix"
    assert cell["verify"]["checked"] > 0
    assert cell["verify"]["bad"] == 0
    assert "cufile" not in cell
    assert cell["library"]["settings"]["plugin"] == "POSIX"
    assert (cell["library"]["requests_per_call"], cell["library"]["calls_in_flight"]) == (8, 2)
    assert cell["library"]["transfer_ns"] > 0
    assert cell["library"]["prepare_ns"] > 0
    # The block layer, which knows nothing of NIXL, saw the same bytes (where the target has counters).
    if cell["device"]["known"]:
        assert cell["device"]["bytes_ratio"] > 0.95


@needs_nixl
def test_a_smoke_run_of_a_library(gpuio_run):
    gpuio_run("--gpuio-datapath=nixl_posix", "--benchmark-disable").assert_outcomes(passed=1)


@pytest.mark.parametrize(
    ("options", "workload", "words"),
    [
        (("--gpuio-verify=full",), "micro/randread", "--gpuio-verify=full"),
        (("--gpuio-arrivals=poisson:100",), "micro/randread", "arrivals on a schedule"),
        ((), "micro/randrw70", "both reads and writes"),
        (("--gpuio-batch=4x4", "--gpuio-qd=4"), "micro/randread", "batches of 4x4"),
    ],
)
def test_what_calls_cannot_do_is_refused_before_any_io(gpuio_run, target, options, workload, words):
    if module_name() is None:
        pytest.skip("NIXL is not installed")
    done = gpuio_run("--gpuio-datapath=nixl_posix", *options, suite=SUITE.format(workload=workload))
    assert words in done.stdout.str()
    assert not list(target.glob("*"))


@pytest.mark.skipif(module_name() is not None, reason="NIXL is installed")
def test_an_absent_library_is_a_skip_with_the_install_line(gpuio_run):
    done = gpuio_run("--gpuio-datapath=nixl_posix", "-rs")
    done.assert_outcomes(skipped=1)
    done.stdout.fnmatch_lines(["*needs nixl_posix: NIXL is not installed: pip install 'pytest-gpuio[[]nixl[]]'*"])


@pytest.mark.skipif(importlib.util.find_spec("kvikio") is not None, reason="KvikIO is installed")
def test_absent_kvikio_is_told_with_the_install_line():
    from pytest_gpuio.measure.probes import run

    assert run("kvikio", None) == "KvikIO is not installed: pip install 'pytest-gpuio[kvikio]'"
