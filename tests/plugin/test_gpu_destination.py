"""Destination gpu through pytest: cells, skips, records; with a stand-in for the CUDA driver, since no GPU is here."""

import pytest

GPU = "--gpuio-destination=gpu"


def test_without_a_gpu_each_cell_is_skipped_with_the_remedy(gpuio_run, results, monkeypatch):
    monkeypatch.setenv("GPUIO_LIBCUDA", "/nowhere/libcuda.so.1")
    result = gpuio_run("--gpuio-datapath=psync,libaio", GPU, "-rs")
    result.assert_outcomes(skipped=2)
    result.stdout.fnmatch_lines(["*needs cuda: the CUDA driver cannot be opened*"])
    skips = results()["skips"]
    assert all("destination=gpu" in skip["case"] and skip["case"].endswith("|gpus=1") for skip in skips)
    assert all("install NVIDIA's driver" in skip["reason"] for skip in skips)


def test_the_stand_ins_cells_are_measured_verified_and_recorded(gpuio_run, results, libcuda, monkeypatch):
    monkeypatch.setenv("GPUIO_LIBCUDA", libcuda)
    monkeypatch.setenv("STANDIN_CUDA_GPUS", "2")
    result = gpuio_run("--gpuio-datapath=psync", GPU, "--gpuio-gpus=2", "--gpuio-bs=64k", "-m", "gpu", "-v")
    result.assert_outcomes(passed=1)
    result.stdout.fnmatch_lines(["*psync-*-inference-random_read_4k-gpu2-64k-qd1-j1*PASSED*"])
    (record,) = results()["cells"]
    gpu, copies = record["gpu"], record["gpu"]["copies"]
    assert record["axes"]["gpus"] == 2
    assert [share["ordinal"] for share in gpu["shares"]] == [0, 1]
    assert sum(share["ios"] for share in gpu["shares"]) == record["ios"]
    assert gpu["check"] == "kernel"
    assert copies["latency"]["count"] == record["latency"]["lat"]["count"] == record["ios"]
    assert record["latency"]["lat"]["mean_ns"] > copies["device"]["mean_ns"]
    assert copies["bytes"] >= record["bytes"]
    assert copies["pin_seconds"] > 0
    assert record["verify"]["checked"] > 0
    gates = {gate["gate"]: gate for gate in record["gates"]}
    assert "whole way to or from GPU memory" in gates["littles_law"]["detail"]
    assert "GPU memory" in gates["data_verified"]["detail"]


def test_more_gpus_than_there_are_skip(gpuio_run, libcuda, monkeypatch):
    monkeypatch.setenv("GPUIO_LIBCUDA", libcuda)
    result = gpuio_run("--gpuio-datapath=psync", GPU, "--gpuio-gpus=3", "-rs")
    result.assert_outcomes(skipped=1)
    result.stdout.fnmatch_lines(["*GPU 2 is wanted*the CUDA driver shows 1*"])


def test_a_copy_that_never_happened_fails_the_cell(gpuio_run, results, libcuda, monkeypatch):
    monkeypatch.setenv("GPUIO_LIBCUDA", libcuda)
    monkeypatch.setenv("STANDIN_CUDA_LOSE", "20")
    result = gpuio_run("--gpuio-datapath=psync", GPU, "--gpuio-verify=full")
    result.assert_outcomes(failed=1)
    (void,) = results()["voids"]
    assert void["gate"] == "data_verified"
    assert "wrong data" in void["reason"]


def test_a_failing_driver_is_an_error_with_its_words_not_a_number(gpuio_run, libcuda, monkeypatch):
    monkeypatch.setenv("GPUIO_LIBCUDA", libcuda)
    monkeypatch.setenv("STANDIN_CUDA_FAIL", "cuMemcpyHtoDAsync_v2:100:719")
    result = gpuio_run("--gpuio-datapath=libaio", GPU)
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(["*bytes to GPU 0 failed*719*"])


def test_host_and_gpu_are_two_cells_and_the_mark_tells_them_apart(gpuio_run, libcuda, monkeypatch):
    monkeypatch.setenv("GPUIO_LIBCUDA", libcuda)
    both = ("--gpuio-datapath=psync", "--gpuio-destination=host,gpu", "--collect-only", "-q")
    everything = gpuio_run(*both)
    everything.stdout.fnmatch_lines(["*[[]psync-*-4k-qd1-j1]", "*[[]psync-*-gpu-4k-qd1-j1]"])
    marked = gpuio_run(*both, "-m", "gpu")
    marked.stdout.fnmatch_lines(["*[[]psync-*-gpu-4k-qd1-j1]", "*1/2 tests collected*"])


@pytest.mark.parametrize(
    ("option", "words"),
    [
        ("--gpuio-destination=tape", "*'tape' is none of host, gpu*"),
        ("--gpuio-gpus=0", "*'0' is not a whole number above zero*"),
        ("--gpuio-gpu=first", "*'first' is not the number of another GPU*"),
        ("--gpuio-copy=wait=doze", "*'wait=doze' is none of wait=spin|sleep*"),
        ("--gpuio-copy=streams=17", "*'streams=17' is none of*"),
    ],
)
def test_malformed_options_say_how(gpuio_run, option, words):
    result = gpuio_run(option)
    result.stderr.fnmatch_lines([words])
    assert result.ret == pytest.ExitCode.USAGE_ERROR


def test_near_and_far_are_skipped_where_distances_are_not_known(gpuio_run, libcuda, monkeypatch):
    # The stand-in's GPUs are on no bus.
    monkeypatch.setenv("GPUIO_LIBCUDA", libcuda)
    result = gpuio_run("--gpuio-datapath=psync", GPU, "--gpuio-gpu=near", "-rs")
    result.assert_outcomes(skipped=1)
    result.stdout.fnmatch_lines(["*not known how far the GPUs are*"])


def test_near_and_far_are_no_numbers(gpuio_run):
    result = gpuio_run("--gpuio-gpu=near,1")
    assert result.ret != 0
    result.stderr.fnmatch_lines(["*use near or far alone*"])
