"""NVMe again: a drive of Optane's model, what protects a drive in use, and a driver without poll queues."""

import hashlib
import json

import pytest
from vmlab.devices import optane_qemu
from vmlab.errors import LabUnavailable
from vmlab.matrix import TIMING

pytestmark = pytest.mark.lab


@pytest.fixture(scope="session")
def seen(boot, tmp_path_factory):
    """What the job left, and the checksums of the drives before and after what is refused."""
    images = tmp_path_factory.mktemp("images")
    checksums = []

    def look(_machine):
        # On the host: emulated processors would take a minute.
        checksums.append(
            [hashlib.sha256((images / f"{name}.img").read_bytes()).digest() for name in ("nvme", "nvme4k")]
        )

    try:
        program = optane_qemu(tmp_path_factory.mktemp("qemu"))
    except LabUnavailable as error:
        pytest.skip(str(error))
    actions = {"before": look, "after": look}
    outcome = boot("guards", "nvme", "nvme4k", "under_dm", "ext4", program=program, images=images, actions=actions)
    assert outcome.missing == {}
    return outcome.share, checksums


@pytest.fixture
def share(seen):
    return seen[0]


def read(share, name):
    return json.loads((share / f"{name}.json").read_text())


def test_optane_is_known_by_its_model(share):
    told = read(share, "guarded")
    assert {void["gate"] for void in told["voids"]} <= TIMING
    measured = [cell["axes"] for cell in told["cells"]] + [void["axes"] for void in told["voids"]]
    assert {axes["target"] for axes in measured} == {"optane"}
    assert {axes["medium"] for axes in measured} == {"nvme_optane"}
    assert {axes["datapath"] for axes in measured} == {"io_uring", "io_uring_full"}


@pytest.mark.parametrize(
    ("target", "said"),
    [
        ("unnamed", "is a raw device, and measuring overwrites what it holds (--gpuio-allow-destroy names /dev/nvme"),
        ("held", " is held by dm-"),
        ("mounted", " is mounted at /mnt/ext4"),
    ],
)
def test_a_drive_in_use_or_not_given_up_is_left_alone(seen, target, said):
    told = read(seen[0], "guarded")
    (reason,) = [failure["reason"] for failure in told["failures"] if f"|target={target}|" in failure["case"]]
    assert said in reason
    before, after = seen[1]
    assert before == after


def test_without_poll_queues_polling_is_skipped_with_the_remedy(share):
    told = read(share, "unpolled")
    assert len(told["skips"]) == 2
    assert all("modprobe nvme poll_queues=N" in skip["reason"] for skip in told["skips"])
    # The drive itself works as before.
    assert [cell["axes"]["datapath"] for cell in (*told["cells"], *told["voids"])] == ["io_uring"]
