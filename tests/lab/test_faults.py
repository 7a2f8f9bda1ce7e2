"""Drives that fail: the cell says so within its deadline, the others go on, and nothing that was done is lost."""

import json
import re
import subprocess

import pytest
from vmlab import programs
from vmlab.devices import BAD_SECTOR
from vmlab.matrix import TIMING

from pytest_gpuio.results import journal
from pytest_gpuio.results.runs import read_run
from pytest_gpuio.results.validate import validate_file

pytestmark = pytest.mark.lab
READS = ("micro/randread", "micro/seqread")


def read(machine, name):
    return json.loads((machine.outcome.share / f"{name}.json").read_text())


def words(told, target):
    """Data path -> what was said of its cell on a target that fails."""
    found = {}
    for kind in ("voids", "failures"):
        for each in told[kind]:
            axes = dict(part.split("=", 1) for part in each["case"].split("|") if "=" in part)
            if axes["target"] == target:
                found[axes["datapath"]] = each["reason"]
    return found


def good(told, target):
    """Data paths of a target that does not fail whose bytes were right."""
    voids = [each for each in told["voids"] if each["axes"]["target"] == target]
    assert {void["gate"] for void in voids} <= TIMING
    reads = [cell["axes"] for cell in (*told["cells"], *voids) if cell["axes"]["workload"] in READS]
    return {axes["datapath"] for axes in reads if axes["target"] == target}


@pytest.mark.parametrize(
    ("target", "paths"), [("bad_nvme", {"psync", "libaio", "io_uring"}), ("bad_virtio", {"io_uring"})]
)
def test_a_sector_that_cannot_be_read_is_named(drives, target, paths):
    said = words(read(drives, "drives"), target)
    assert set(said) == paths
    for reason in said.values():
        match = re.match(
            r"no_errors: \d+ requests failed; the first was a read of 32,768 bytes at offset ([\d,]+) of", reason
        )
        assert match, reason
        # Neighbours in flight may be merged into one request, which then fails as a whole.
        assert 0 <= BAD_SECTOR * 512 - int(match[1].replace(",", "")) < 4 * 32768
        # NVMe drives say that the medium failed, virtio disks that the host did.
        assert ("ENODATA" if target == "bad_nvme" else "EIO") in reason


def test_a_full_file_system_is_an_error_before_any_window(drives):
    said = words(read(drives, "drives"), "full")
    assert set(said) == {"psync"}
    assert all("/mnt/full" in reason and "--gpuio-size" in reason for reason in said.values()), said


def test_a_drive_that_slows_down_half_way_is_unsettled(dying):
    told = read(dying, "dying")
    cells = {cell["axes"]["datapath"]: cell for cell in told["cells"] if cell["axes"]["target"] == "throttled"}
    stable = {gate["gate"]: gate for gate in cells["psync"]["gates"]}["stable"]
    assert stable["state"] == "failed"
    seconds = cells["psync"]["windows"]["seconds"]
    assert max(seconds) > 1.5 * min(seconds)


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


def test_a_thin_volume_whose_pool_is_full_ends_its_cell(dying):
    said = words(read(dying, "dying"), "thin")
    assert set(said) == {"psync"}
    assert re.match(r"no_errors: \d+ requests failed; the first was a write of 4,096 bytes at offset ", said["psync"])
    assert "ENOSPC" in said["psync"]


def test_other_cells_go_on_beside_drives_with_errors(drives):
    assert good(read(drives, "drives"), "optane") == {"psync", "io_uring"}
    assert validate_file(drives.outcome.share / "drives.json") == []


def test_other_cells_go_on_beside_drives_that_die(dying):
    assert good(read(dying, "dying"), "nvme") == {"psync"}
    assert validate_file(dying.outcome.share / "dying.json") == []


@pytest.fixture(scope="session")
def after_the_cut(drives, tmp_path_factory):
    """What was on the disk with the results when the power came back."""
    # The next boot would replay the file system's journal; here e2fsck does.
    disk, folder = drives.images / "virtio.img", tmp_path_factory.mktemp("found")
    subprocess.run([programs.find("e2fsck"), "-fy", str(disk)], capture_output=True, check=False)
    programs.run("debugfs", "-R", f"rdump / {folder}", disk)
    assert not (folder / "gpuio-results.json").exists(), drives.outcome.log
    return folder


def test_a_power_cut_loses_no_fate_of_a_cell(after_the_cut):
    (path,) = after_the_cut.glob("*.jsonl")
    assert validate_file(path) == []
    entries = journal.read(path).entries
    kinds = [entry.kind for entry in entries]
    assert kinds[:9] == ["start", *["skip"] * 8]
    assert len(kinds[9:]) >= 2
    assert set(kinds[9:]) <= {"cell", "void"}
    assert all(entry.body["verify"]["bad"] == 0 for entry in entries if entry.kind == "cell")


def test_without_poll_queues_polling_is_skipped_with_the_remedy(after_the_cut):
    """On Linux 6.1, too, where such requests would silently be completed by interrupts."""
    (path,) = after_the_cut.glob("*.jsonl")
    run = read_run(path)
    assert {case.split("|")[1] for case in run.skips} == {"datapath=io_uring_iopoll", "datapath=io_uring_full"}
    assert all("modprobe nvme poll_queues=N" in reason for reason in run.skips.values())
    # The drive itself works as before.
    assert {case.split("|")[1] for case in (*run.cells, *run.voids)} == {"datapath=io_uring"}
