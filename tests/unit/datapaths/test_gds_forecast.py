"""What a target's files would take, from facts (our own logic; no machine here has direct storage)."""

import pytest

from pytest_gpuio.datapaths.gds_forecast import TargetFacts, forecast
from pytest_gpuio.machine.gpu_storage import GpuStorage, NvidiaFs

READY = GpuStorage("580.1", True, NvidiaFs("2.26.6", None, 0), True, True, "off", True, ("0000:17:00.0",)).to_json()
NVME = TargetFacts("xfs", "rw,noatime", (("nvme0n1", "pcie", True),))


def answer(*, nvfs=(2, 26), flags=0, takes=True, reason=None, target_reason=None):
    facts = None if reason else {"properties": {"nvfs_major": nvfs[0], "nvfs_minor": nvfs[1], "status_flags": flags}}
    return {"facts": facts, "reason": reason, "takes_target": takes, "target_reason": target_reason}


REFUSED = answer(takes=None, reason="cuFileDriverOpen was refused (cuFile code 5001)")


@pytest.mark.parametrize(
    ("nvfs", "flags", "route"),
    [((2, 26), 0, "direct_nvidia_fs"), ((0, 0), 16, "direct_nvidia_fs"), ((0, 0), 0, "direct_p2pdma")],
)
def test_a_target_taken_strictly_goes_direct(nvfs, flags, route):
    found = forecast(answer(nvfs=nvfs, flags=flags), answer(), READY, NVME)
    assert (found.route, found.in_the_way) == (route, ())


def test_a_target_refused_strictly_falls_back_and_says_why():
    strict = answer(takes=False, target_reason="cuFileHandleRegister refused the file (cuFile code 5008)")
    found = forecast(strict, answer(), READY, NVME)
    assert found.route == "compat"
    assert "5008" in found.in_the_way[0]


def test_a_target_that_cufile_does_not_take_at_all():
    found = forecast(REFUSED, answer(takes=False, target_reason="5027: no udev"), READY, NVME)
    assert (found.route, found.because) == ("none", "5027: no udev")


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"driver": None}, "kernel driver is not loaded"),
        ({"nvidia_fs": None}, "modprobe nvidia-fs"),
        ({"p2pdma": False}, "CONFIG_PCI_P2PDMA"),
        ({"p2pdma": None}, "configuration cannot be read"),
        ({"driver_open": False}, "nvidia-open"),
        ({"static_bar1": False}, "RMForceStaticBar1=1"),
        ({"iommu": "translating"}, "iommu=pt"),
    ],
)
def test_each_lack_of_the_kernel_is_told_with_the_remedy(change, words):
    found = forecast(REFUSED, answer(), READY | change, NVME)
    assert found.route == "compat"
    assert any(words in sentence for sentence in found.in_the_way)
    well = forecast(REFUSED, answer(), READY, NVME)
    assert not any(words in sentence for sentence in well.in_the_way)


@pytest.mark.parametrize(
    ("target", "words"),
    [
        (TargetFacts("btrfs", "rw", (("nvme0n1", "pcie", True),)), "the file system is btrfs"),
        (TargetFacts("ext4", "rw,data=journal", (("nvme0n1", "pcie", True),)), "data=ordered"),
        (TargetFacts("ext4", "rw", (("vda", "virtio", True),)), "vda is virtio"),
        (TargetFacts("ext4", "rw", (("nvme0n1", "pcie", False),)), "no entry for nvme0n1"),
    ],
)
def test_each_lack_of_the_target_is_told(target, words):
    assert any(words in sentence for sentence in forecast(REFUSED, answer(), READY, target).in_the_way)


def test_a_network_file_system_needs_no_local_nvme():
    assert forecast(REFUSED, answer(), READY, TargetFacts("nfs4", "rw,proto=rdma", ())).in_the_way == (
        "asked strictly, cuFile says: cuFileDriverOpen was refused (cuFile code 5001)",
    )
    assert forecast(answer(takes=None), answer(takes=None), READY, None).because.startswith("the driver opens")
