"""The data path ``spdk``: through a stand-in for its libraries, and, where it is installed, through the real ones."""

from __future__ import annotations

import json
import os
import shutil
import socket
import subprocess
import time
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
STANDIN = ROOT / "cnative/tests/standin"
NQN = "nqn.2016-06.io.spdk:gpuio"
SUITE = """
    import pytest

    @pytest.mark.workload("micro/randread", "micro/randwrite")
    def test_cell(gpuio):
        gpuio.run()
"""


@pytest.fixture(scope="module")
def standin(shared_object, tmp_path_factory):
    """A folder with the stand-in under the names of SPDK's libraries."""
    folder = tmp_path_factory.mktemp("standin_spdk")
    for name in ("libspdk_nvme", "libspdk_env_dpdk"):
        shared_object(STANDIN / f"{name}.c", f"{name}.so", folder)
    return folder


def options(target, *more):
    return (
        f"--gpuio-target=lab={target}", "--gpuio-size=4M", "--gpuio-bs=4k", "--gpuio-qd=4", "--gpuio-max-time=0.3",
        "-rs", *more,
    )  # fmt: skip


def records(pytester):
    return json.loads((pytester.path / "gpuio-results.json").read_text())["cells"]


TARGET = f"spdk:tcp:127.0.0.1:4420:{NQN}"


def test_cells_through_the_standin(pytester, standin, monkeypatch):
    monkeypatch.setenv("GPUIO_SPDK_LIBDIR", str(standin))
    pytester.makepyfile(SUITE)
    result = pytester.runpytest_subprocess(*options(TARGET, f"--gpuio-allow-destroy={TARGET}"))
    result.assert_outcomes(passed=2)
    for record in records(pytester):
        assert record["axes"]["datapath"] == "spdk"
        assert record["axes"]["medium"] == "nvmeof"
        # As a raw device of the kernel's is labelled, so that files are no partner to compare with.
        assert record["target"]["file_system"] == "block device"
        assert record["target"]["devices"][0]["model"] == "Stand-in controller"
        assert record["cpu"]["cores_reserved"] >= 1
        assert record["verify"]["checked"] > 0
        assert any("largest_transfer=131072" in sentence for sentence in record["effective"]["evidence"])


def test_without_permission_the_standin_is_read_and_never_written(pytester, standin, monkeypatch):
    monkeypatch.setenv("GPUIO_SPDK_LIBDIR", str(standin))
    pytester.makepyfile(SUITE)
    result = pytester.runpytest_subprocess(*options(TARGET))
    result.assert_outcomes(passed=1, failed=1)
    result.stdout.fnmatch_lines(["*is a raw namespace*--gpuio-allow-destroy=spdk:tcp:127.0.0.1:4420:*"])


def test_a_standin_that_cannot_be_attached_fails_with_the_remedy(pytester, standin, monkeypatch):
    monkeypatch.setenv("GPUIO_SPDK_LIBDIR", str(standin))
    monkeypatch.setenv("STANDIN_SPDK_FAULT", "connect")
    pytester.makepyfile(SUITE)
    result = pytester.runpytest_subprocess(*options(TARGET, "--gpuio-workload=micro/randread"))
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(["*is a target listening there*"])


def test_absent_spdk_is_a_skip_with_the_remedy(pytester, tmp_path, monkeypatch):
    monkeypatch.setenv("GPUIO_SPDK_LIBDIR", str(tmp_path))
    pytester.makepyfile(SUITE)
    result = pytester.runpytest_subprocess(*options(TARGET))
    result.assert_outcomes(skipped=2)
    result.stdout.fnmatch_lines(["*needs spdk: SPDK is not installed*GPUIO_SPDK_LIBDIR=/path/to/lib*"])


def test_other_paths_and_targets_do_not_mix_with_it(pytester, standin, monkeypatch):
    monkeypatch.setenv("GPUIO_SPDK_LIBDIR", str(standin))
    pytester.makepyfile(SUITE)
    (pytester.path / "folder").mkdir()
    more = ("--gpuio-target=f=folder", "--gpuio-datapath=spdk,psync", "--gpuio-workload=micro/randread", "--gpuio-qd=1")
    result = pytester.runpytest_subprocess(*options(TARGET, "--collect-only", "-q", *more))
    assert result.ret == 0
    result = pytester.runpytest_subprocess(*options(TARGET, "--benchmark-disable", *more))
    result.assert_outcomes(passed=2, skipped=2)
    result.stdout.fnmatch_lines_random(
        ["*needs file_io: spdk:tcp:*is driven from user space*", "*needs spdk_target: *folder is the kernel's*"]
    )


def test_what_is_no_address_is_a_usage_error(pytester):
    pytester.makepyfile(SUITE)
    result = pytester.runpytest_subprocess("--gpuio-target=lab=spdk:pci:01:00.0")
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines(["*--gpuio-target: *is no target for SPDK: write spdk:pci:*"])


def answers(port):
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0


@pytest.fixture
def real_target(tmp_path):
    """A target of the installed SPDK on the loopback, ended afterwards."""
    folder = os.environ.get("GPUIO_SPDK_LIBDIR")
    if not folder:
        pytest.skip("GPUIO_SPDK_LIBDIR names no installed SPDK")
    found = [
        path for path in (Path(folder) / "../bin/nvmf_tgt", Path(shutil.which("nvmf_tgt") or "")) if path.is_file()
    ]
    if not found:
        pytest.skip(f"no nvmf_tgt in {folder}/../bin or PATH")
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    address = {"trtype": "TCP", "adrfam": "IPv4", "traddr": "127.0.0.1", "trsvcid": str(port)}
    disk = {"name": "M0", "num_blocks": 65536, "block_size": 512}
    steps = [
        ("nvmf_create_transport", {"trtype": "TCP"}),
        (
            "nvmf_create_subsystem",
            {"nqn": NQN, "allow_any_host": True, "serial_number": "1", "model_number": "real"},
        ),
        ("nvmf_subsystem_add_ns", {"nqn": NQN, "namespace": {"nsid": 1, "bdev_name": "M0"}}),
        ("nvmf_subsystem_add_listener", {"nqn": NQN, "listen_address": address}),
    ]
    subsystems = [
        {"subsystem": "bdev", "config": [{"method": "bdev_malloc_create", "params": disk}]},
        {"subsystem": "nvmf", "config": [{"method": method, "params": params} for method, params in steps]},
    ]
    (tmp_path / "target.json").write_text(json.dumps({"subsystems": subsystems}))
    command = [found[0], "--no-huge", "-s", "512", "--no-pci", "-m", "0x1", "--msg-mempool-size", "8191"]
    path = f"{folder}:{os.environ.get('LD_LIBRARY_PATH', '')}"
    with (tmp_path / "log").open("wb") as log:
        process = subprocess.Popen(
            [*command, "-r", tmp_path / "rpc", "--json", tmp_path / "target.json"],
            stdout=log, stderr=log, env=os.environ | {"LD_LIBRARY_PATH": path},
        )  # fmt: skip
    try:
        deadline = time.monotonic() + 20
        while not answers(port):
            assert process.poll() is None, (tmp_path / "log").read_text()
            assert time.monotonic() < deadline, (tmp_path / "log").read_text()
            time.sleep(0.1)
        yield f"spdk:tcp:127.0.0.1:{port}:{NQN}"
    finally:
        process.terminate()
        try:
            process.wait(10)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait(10)


@pytest.mark.spdk
def test_cells_through_the_real_spdk(pytester, real_target):
    pytester.makepyfile(SUITE)
    # Requests above the largest transfer (128 KiB over TCP) go in parts.
    more = ("--gpuio-bs=4k,512k", f"--gpuio-allow-destroy={real_target}", "--gpuio-verify=full", "--gpuio-size=16M")
    result = pytester.runpytest_subprocess(*options(real_target, *more))
    result.assert_outcomes(passed=4)
    for record in records(pytester):
        assert record["effective"]["datapath"] == "spdk"
        assert record["target"]["devices"][0]["model"] == "real"
        assert record["verify"]["checked"] > 0
        assert record["verify"]["bad"] == 0
