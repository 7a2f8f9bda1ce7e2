"""Whole runs on raw devices: nothing without permission, cells like those of files with it."""

from __future__ import annotations

import hashlib
import subprocess
from pathlib import Path

import pytest

BOTH = """
import pytest


@pytest.mark.workload("micro/randread", "micro/randwrite")
def test_both(gpuio):
    gpuio.run()
"""


@pytest.fixture
def device(loop_over_tmpfs) -> str:
    made = loop_over_tmpfs(sector=512, size=80 << 20)
    with Path(made).open("r+b") as file:
        file.write(b"precious" * 512)
    return made


def checksum(device: str) -> str:
    return hashlib.sha256(Path(device).read_bytes()).hexdigest()


def test_without_the_option_it_is_read_and_nothing_is_written(gpuio_run, results, device):
    before = checksum(device)
    result = gpuio_run("--gpuio-datapath=psync", suite=BOTH, target=Path(device))
    result.assert_outcomes(passed=1, failed=1)
    result.stdout.fnmatch_lines(
        [
            f"{device} is a raw device, * add --gpuio-allow-destroy={device}, or name another *",
            f"note: {device} is read as it is and never written; *",
        ]
    )
    assert checksum(device) == before
    assert len(results()["failures"]) == 1
    (cell,) = results()["cells"]
    assert cell["verify"] == {"mode": "none", "checked": 0, "bad": 0}
    gates = {gate["gate"]: (gate["state"], gate["detail"]) for gate in cell["gates"]}
    assert gates["data_verified"][0] == "unknown"
    assert gates["content_known"][0] == "failed"
    assert "98% of its sampled places hold only zeros" in gates["content_known"][1]


def test_only_reading_works_on_a_device_that_cannot_be_written(gpuio_run, device):
    subprocess.run(["/sbin/blockdev", "--setro", device], check=True)
    try:
        gpuio_run("--gpuio-datapath=psync,libaio", target=Path(device)).assert_outcomes(passed=2)
        gpuio_run("--gpuio-datapath=psync", "--benchmark-disable", target=Path(device)).assert_outcomes(passed=1)
    finally:
        subprocess.run(["/sbin/blockdev", "--setrw", device], check=True)


def test_a_file_system_is_overwritten_by_force_only(gpuio_run, results, device):
    made = subprocess.run(["/sbin/mkfs.ext4", "-q", "-F", device], capture_output=True, check=False)
    if made.returncode:
        pytest.skip("needs mkfs.ext4")
    before = checksum(device)
    options = (f"--gpuio-allow-destroy={device}", "--gpuio-datapath=psync")
    refused = gpuio_run(*options, suite=BOTH, target=Path(device))
    refused.assert_outcomes(failed=2)
    refused.stdout.fnmatch_lines(["*carries the signature of ext2, ext3 or ext4 file system*add --gpuio-force*"])
    assert checksum(device) == before
    gpuio_run(*options, "--gpuio-force", suite=BOTH, target=Path(device)).assert_outcomes(passed=2)


def test_reads_and_writes_share_one_region(gpuio_run, results, device):
    options = (f"--gpuio-allow-destroy={device}", "--gpuio-datapath=psync,io_uring_cmd", "-rs")
    result = gpuio_run(*options, suite=BOTH, target=Path(device))
    result.assert_outcomes(passed=2, skipped=2)
    result.stdout.fnmatch_lines(
        [
            "*needs nvme_passthrough: * is not an NVMe generic device*",
            f"note: overwriting the first * of 83,886,080 bytes of {device}, which held unknown data",
        ]
    )
    reads, writes = results()["cells"]
    for cell in (reads, writes):
        assert cell["target"]["path"] == device
        assert cell["target"]["file_system"] == "block device"
        assert cell["effective"]["direct"] is True
        assert cell["verify"]["bad"] == 0
        assert cell["verify"]["checked"] > 0
        assert {gate["state"] for gate in cell["gates"] if gate["gate"] == "device_bytes"} == {"passed"}
    again = gpuio_run(*options, suite=BOTH, target=Path(device))
    again.assert_outcomes(passed=2, skipped=2)
    again.stdout.no_fnmatch_line("note: overwriting*")


def test_through_the_page_cache(gpuio_run, results, device):
    options = (f"--gpuio-allow-destroy={device}", "--gpuio-datapath=psync", "--gpuio-cache=hot")
    gpuio_run(*options, target=Path(device)).assert_outcomes(passed=1)
    (cell,) = results()["cells"]
    assert cell["cache"]["resident_before"] >= 32 << 20


def test_a_smoke_run_tells_what_it_overwrote(gpuio_run, device):
    result = gpuio_run(
        f"--gpuio-allow-destroy={device}", "--gpuio-datapath=psync", "--benchmark-disable", target=Path(device)
    )
    result.assert_outcomes(passed=1)
    result.stdout.fnmatch_lines(["note: overwriting the first *"])


@pytest.mark.parametrize("value", ["yes", "nvme0n1", ","])
def test_the_option_names_devices(gpuio_run, value):
    result = gpuio_run(f"--gpuio-allow-destroy={value}")
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines(["*--gpuio-allow-destroy: *"])
