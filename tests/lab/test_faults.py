"""Drives that fail: the cell says so within its deadline, the others go on, and nothing that was done is lost."""

import json
import re
import subprocess
import sys

import pytest
from vmlab import programs
from vmlab.devices import BAD_SECTOR

from pytest_gpuio.results import journal

pytestmark = pytest.mark.lab


def slow_down(machine):
    """Two thousand requests a second, which even an emulated drive surpasses by far."""
    with machine.monitor() as monitor:
        (name,) = [each["device"] for each in monitor("query-block") if each["device"] == "throttled"]
        limits = dict.fromkeys(("bps", "bps_rd", "bps_wr", "iops_rd", "iops_wr"), 0)
        monitor("block_set_io_throttle", device=name, iops=2000, **limits)


def unplug(machine):
    with machine.monitor() as monitor:
        monitor("device_del", id="removable")


@pytest.fixture(scope="session")
def broken(boot):
    return boot("broken", "nvme", "brd", "bad_nvme", "bad_virtio")


@pytest.fixture(scope="session")
def dying(boot):
    actions = {"slow": slow_down, "unplug": unplug}
    return boot("dying", "nvme", "under_dm", "throttled", "removable", actions=actions)


def read(outcome, name):
    return json.loads((outcome.share / f"{name}.json").read_text())


def words(told, target):
    """Data path -> what was said of its cell on a target that fails."""
    found = {}
    for kind in ("voids", "failures"):
        for each in told[kind]:
            axes = dict(part.split("=", 1) for part in each["case"].split("|") if "=" in part)
            if axes["target"] == target:
                found[axes["datapath"]] = each["reason"]
    return found


def good(told):
    """Data paths of the target that does not fail whose bytes were right."""
    voids = [each for each in told["voids"] if each["axes"]["target"] == "nvme"]
    assert {void["gate"] for void in voids} <= {"depth_achieved"}
    return {cell["axes"]["datapath"] for cell in (*told["cells"], *voids) if cell["axes"]["target"] == "nvme"}


@pytest.mark.parametrize("target", ["bad_nvme", "bad_virtio"])
def test_a_sector_that_cannot_be_read_is_named(broken, target):
    said = words(read(broken, "broken"), target)
    assert set(said) == {"psync", "libaio", "io_uring"}
    for reason in said.values():
        match = re.match(
            r"no_errors: \d+ requests failed; the first was a read of 4,096 bytes at offset ([\d,]+) of", reason
        )
        assert match, reason
        assert int(match[1].replace(",", "")) == BAD_SECTOR * 512
        # NVMe drives say that the medium failed, virtio disks that the host did.
        assert ("ENODATA" if target == "bad_nvme" else "EIO") in reason


def test_a_full_file_system_is_an_error_before_any_window(broken):
    said = words(read(broken, "broken"), "full")
    assert set(said) == {"psync", "libaio", "io_uring"}
    assert all("/mnt/full" in reason and "--gpuio-size" in reason for reason in said.values()), said


def test_a_drive_that_slows_down_half_way_is_unsettled(dying):
    told = read(dying, "dying")
    cells = {cell["axes"]["datapath"]: cell for cell in told["cells"] if cell["axes"]["target"] == "throttled"}
    stable = {gate["gate"]: gate for gate in cells["psync"]["gates"]}["stable"]
    assert stable["state"] == "failed"
    seconds = cells["psync"]["windows"]["seconds"]
    assert max(seconds) > 2 * min(seconds)


def test_a_drive_that_is_pulled_out_ends_its_cells(dying):
    said = words(read(dying, "dying"), "removable")
    assert set(said) == {"psync", "io_uring"}
    # Reads of a drive that is being taken away end early or fail, as the kernel likes.
    assert re.match(r"(no_short_io|no_errors): ", said["psync"]), said
    # Afterwards there must be no file of that name in memory that would be measured instead.
    assert "is no device any more since the run began: it was pulled out" in said["io_uring"]


def test_a_drive_that_never_answers_ends_its_cells_in_time(dying):
    said = words(read(dying, "dying"), "hung")
    assert set(said) == {"psync", "io_uring"}
    assert "worker 0 of engine psync did not come back within 10 s" in said["psync"]
    # The child of the first one cannot be killed: the others are not tried, so that the run ends.
    assert "still waits for it in the kernel and cannot be killed" in said["io_uring"]


@pytest.mark.parametrize(
    ("name", "paths"), [("broken", {"psync", "libaio", "io_uring"}), ("dying", {"psync", "io_uring"})]
)
def test_other_cells_go_on_and_the_results_are_valid(request, name, paths):
    outcome = request.getfixturevalue(name)
    assert good(read(outcome, name)) == paths
    assert f"/lab/{name}.json: valid" in outcome.log


def test_a_power_cut_loses_no_finished_cell(boot, tmp_path):
    images = tmp_path / "images"
    images.mkdir()
    outcome = boot(
        "power_cut", "nvme", "ext4", images=images, actions={"cut": lambda machine: machine.kill()}, expected=None
    )
    # The next boot would replay the file system's journal; here e2fsck does.
    disk = images / "files.img"
    subprocess.run([programs.find("e2fsck"), "-fy", str(disk)], capture_output=True, check=False)
    found = tmp_path / "found"
    found.mkdir()
    programs.run("debugfs", "-R", f"rdump /results {found}", disk)
    (path,) = (found / "results").glob("*.jsonl")
    kept = journal.read(path)
    assert len(kept.entries) >= 2
    told = programs.run(sys.executable, "-m", "pytest_gpuio.cli", "validate", path)
    assert told == f"{path}: valid\n"
    assert {entry.kind for entry in kept.entries} == {"cell"}
    assert all(entry.body["verify"]["bad"] == 0 for entry in kept.entries)
    assert not (found / "results/gpuio-results.json").exists(), outcome.log
