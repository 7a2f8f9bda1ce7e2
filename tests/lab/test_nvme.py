"""NVMe with poll queues and generic devices: polled paths, passthrough commands, and what protects a drive."""

import json
import os
import re
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.lab

JOB = Path(__file__).parent / "guest/nvme.job"
RINGS = {"io_uring", "io_uring_sqpoll", "io_uring_iopoll", "io_uring_full"}


@pytest.fixture(scope="session", params=[512, 4096], ids=["sectors_of_512", "sectors_of_4096"])
def lab(request, boot, tmp_path_factory):
    """Folder of results of one boot; the raw drive has logical blocks of that many bytes."""
    drives = []
    folder = tmp_path_factory.mktemp("drives")
    for name, sector in (("LABFILES", 512), ("LABRAW", request.param)):
        image = folder / name
        image.touch()
        os.truncate(image, 256 << 20)
        drives += ["-drive", f"id={name},if=none,format=raw,file={image},cache=unsafe,aio=threads"]
        drives += ["-device", f"nvme,id=c{name},serial={name}"]
        blocks = f"logical_block_size={sector},physical_block_size={sector}"
        drives += ["-device", f"nvme-ns,drive={name},bus=c{name},{blocks}"]
    share = boot(f"PYTEST={Path(sys.executable).with_name('pytest')}\n{JOB.read_text()}", *drives)
    assert (share / "status").read_text() == "0\n", (share / "job.log").read_text()
    return share


def read(lab, name):
    told = json.loads((lab / f"{name}.json").read_text())
    assert told["failures"] == [], (lab / f"{name}.txt").read_text()
    return told


def cells(lab, name):
    """(workload, data path) -> record; nothing was void or broken."""
    told = read(lab, name)
    assert told["voids"] == [], (lab / f"{name}.txt").read_text()
    return {(cell["axes"]["workload"], cell["axes"]["datapath"]): cell for cell in told["cells"]}


def gates(lab, name):
    """(workload, data path) -> gate -> its state and words, of recorded and of void cells.

    Emulated processors that share one real one are slower than the drive: a poller's ring is full and the drive is not.
    So depth says nothing here; what the bytes did does.
    """
    told = read(lab, name)
    found = {}
    for cell in told["cells"]:
        key = cell["axes"]["workload"], cell["axes"]["datapath"]
        found[key] = {gate["gate"]: (gate["state"], gate["detail"]) for gate in cell["gates"]}
    for void in told["voids"]:
        assert void["gate"] == "depth_achieved", (lab / f"{name}.txt").read_text()
        words = [re.fullmatch(r"(\w+) (\w+): (.*)", line, re.DOTALL) for line in void["evidence"]]
        found[void["axes"]["workload"], void["axes"]["datapath"]] = {word[1]: (word[2], word[3]) for word in words}
    return found


@pytest.mark.parametrize("where", ["files", "block"])
def test_each_ring_moved_the_bytes_by_its_own_path(lab, where):
    found = gates(lab, where)
    assert set(found) == {(workload, path) for workload in ("micro/randread", "micro/randwrite") for path in RINGS}
    for judged in found.values():
        for gate in ("path_proved", "no_errors", "no_short_io", "data_verified", "device_bytes"):
            assert judged[gate][0] == "passed", judged


def test_polled_requests_interrupt_nobody(lab):
    found = gates(lab, "block")
    for workload in ("micro/randread", "micro/randwrite"):
        for path in ("io_uring_iopoll", "io_uring_full"):
            assert "the target interrupted 0 times for" in found[workload, path]["path_proved"][1]
    told = read(lab, "block")
    interrupted = [cell for cell in told["cells"] if cell["axes"]["datapath"] == "io_uring"]
    assert interrupted
    assert all(cell["placement"]["irq_cpus"] for cell in interrupted)


def test_submission_pollers_have_threads_of_their_own(lab):
    for (_, path), judged in gates(lab, "block").items():
        seen = "kernel helper threads seen: iou-sqp" in judged["path_proved"][1]
        assert seen == (path in ("io_uring_sqpoll", "io_uring_full"))


@pytest.mark.parametrize("path", ["psync", "libaio"])
def test_paths_without_a_ring(lab, path):
    assert set(cells(lab, f"files_{path}")) == {("micro/randread", path), ("micro/randwrite", path)}


def test_passthrough_commands_move_the_bytes(lab):
    generic = (lab / "names").read_text().split()[1]
    found = cells(lab, "generic")
    assert set(found) == {("micro/randread", "io_uring_cmd"), ("micro/randwrite", "io_uring_cmd")}
    for cell in found.values():
        assert cell["target"]["path"] == generic
        assert cell["target"]["file_system"] == "NVMe generic device"
        assert cell["target"]["medium"] == "nvme_ssd"
        assert cell["effective"]["datapath"] == "io_uring_cmd"
        assert cell["verify"]["checked"] > 0
        assert cell["verify"]["bad"] == 0
        assert cell["device"]["known"] is False
    # The block device wrote the pattern, and what it laid out is taken over.
    assert "note: overwriting" in (lab / "block.txt").read_text()
    assert "note: overwriting" not in (lab / "generic.txt").read_text()
    skips = {skip["reason"] for skip in json.loads((lab / "generic.json").read_text())["skips"]}
    assert {reason.partition(":")[0] for reason in skips} == {"needs file_io"}


@pytest.mark.parametrize(
    ("why", "said"),
    [
        ("name", "is a raw device, and measuring overwrites what it holds (--gpuio-allow-destroy names /dev/nvme"),
        ("held", " is held by dm-"),
        ("mounted", " is mounted at /mnt/files"),
    ],
)
def test_a_drive_in_use_or_not_given_up_is_left_alone(lab, why, said):
    told = json.loads((lab / f"refused_{why}.json").read_text())
    assert told["cells"] == []
    assert len(told["failures"]) == 2
    assert all(said in failure["reason"] for failure in told["failures"])
    assert (lab / "before").read_text() == (lab / "after").read_text()


def test_without_poll_queues_polling_is_skipped_with_the_remedy(lab):
    told = json.loads((lab / "unpolled.json").read_text())
    assert told["cells"] == []
    assert len(told["skips"]) == 2
    assert all("modprobe nvme poll_queues=N" in skip["reason"] for skip in told["skips"])
