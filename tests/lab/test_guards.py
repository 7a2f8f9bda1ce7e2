"""NVMe again: a drive of Optane's model, one on a NUMA node, and what protects a drive in use."""

import json

import pytest
from vmlab.matrix import TIMING

pytestmark = pytest.mark.lab


def read(machine, name):
    return json.loads((machine.outcome.share / f"{name}.json").read_text())


def test_every_device_was_built(drives):
    assert drives.outcome.missing == {}


def test_scheduler_statistics_hold_what_a_process_used(drives):
    """This kernel has no exact sum of its tasks' time, but statistics of the scheduler."""
    before, after = read(drives, "task_time")
    assert before["tasks"]["stolen_too"]
    own, wall = (after[name] - before[name] for name in ("own_ns", "at_ns"))
    tasks = after["tasks"]["ns"] - before["tasks"]["ns"]
    assert own >= 1e9
    assert 0.95 * own <= tasks <= 2 * wall  # it has two processors


def test_optane_is_known_by_its_model(drives):
    told = read(drives, "drives")
    voids = [void for void in told["voids"] if void["axes"]["target"] == "optane"]
    assert {void["gate"] for void in voids} <= TIMING
    measured = [each["axes"] for each in (*told["cells"], *voids) if each["axes"]["target"] == "optane"]
    assert {axes["medium"] for axes in measured} == {"nvme_optane"}
    assert {axes["datapath"] for axes in measured} == {"psync", "io_uring", "io_uring_full"}


def test_workers_and_buffers_are_placed_on_the_node_of_the_drive(drives):
    """Two nodes of a processor each; workers are on the last processor unless the drive says otherwise."""
    cells = {cell["axes"]["target"]: cell for cell in read(drives, "drives")["cells"]}
    near = cells["numa_nvme"]["placement"]
    assert (near["requested"], near["device_nodes"], near["worker_cpus"]) == ("near", [0], [0])
    assert (near["worker_nodes"], near["buffer_nodes"], near["distance"]) == ([0], [0], "same_node")
    # Its bus tells no node, and unknown stays unknown.
    other = cells["optane"]["placement"]
    assert (other["device_nodes"], other["worker_cpus"], other["distance"]) == (None, [1], "unknown")


@pytest.mark.parametrize(
    ("target", "said"),
    [
        ("unnamed", "is a raw device, and measuring overwrites what it holds (--gpuio-allow-destroy names /dev/nvme"),
        ("held", " is held by dm-"),
        ("mounted", " is mounted at /mnt/ext4"),
    ],
)
def test_a_drive_in_use_or_not_given_up_is_left_alone(drives, target, said):
    told = read(drives, "drives")
    (reason,) = [failure["reason"] for failure in told["failures"] if f"|target={target}|" in failure["case"]]
    assert said in reason
    before, after = drives.sums
    assert before == after
