"""Whether SPDK can have a device, on hand-made trees of sysfs; memory that a cell needs."""

import pytest

from pytest_gpuio.core.errors import TargetError
from pytest_gpuio.core.spdk_address import SpdkAddress
from pytest_gpuio.targets import check_huge_pages, memory_mib, refuses_namespace

PCI = SpdkAddress("pci", "0000:01:00.0")
TCP = SpdkAddress("tcp", "127.0.0.1", 4420, "nqn.x")


@pytest.fixture
def tree(tmp_path):
    """A machine whose only PCI device is an NVMe controller with a disk of two partitions."""
    folder = tmp_path / "sys/bus/pci/devices/0000:01:00.0"
    for name, number in (("nvme0n1", "259:0"), ("nvme0n1/nvme0n1p1", "259:1"), ("nvme0n1/nvme0n1p2", "259:2")):
        node = folder / "nvme/nvme0" / name
        node.mkdir(parents=True)
        (node / "dev").write_text(number + "\n")
        (node / "holders").mkdir()
    (folder / "class").write_text("0x010802\n")
    (tmp_path / "proc/self").mkdir(parents=True)
    bind(tmp_path, "nvme")
    return tmp_path


def bind(tree, driver):
    link = tree / "sys/bus/pci/devices/0000:01:00.0/driver"
    link.unlink(missing_ok=True)
    if driver:
        (tree / "drivers" / driver).mkdir(parents=True, exist_ok=True)
        link.symlink_to(tree / "drivers" / driver)


@pytest.mark.parametrize("driver", ["vfio-pci", "uio_pci_generic"])
def test_a_device_that_was_given_up_by_the_kernel(tree, driver):
    bind(tree, driver)
    assert refuses_namespace(PCI, str(tree)) is None


def test_the_kernels_driver_refuses_and_says_what_uses_it(tree):
    assert "bound to the kernel's driver nvme: if nothing on it is needed" in refuses_namespace(PCI, str(tree))
    (tree / "proc/swaps").write_text("Filename Type\n/dev/nvme0n1p2 partition 1 0 -2\n")
    assert "its nvme0n1p2 is swap space in use" in refuses_namespace(PCI, str(tree))
    (tree / "proc/self/mountinfo").write_text("30 1 259:1 / /data rw - ext4 /dev/nvme0n1p1 rw\n")
    assert "its nvme0n1p1 is mounted at /data" in refuses_namespace(PCI, str(tree))
    (tree / "sys/bus/pci/devices/0000:01:00.0/nvme/nvme0/nvme0n1/holders/md0").mkdir()
    assert "its nvme0n1 is held by md0" in refuses_namespace(PCI, str(tree))


def test_other_devices(tree):
    bind(tree, None)
    assert "has no driver" in refuses_namespace(PCI, str(tree))
    (tree / "sys/bus/pci/devices/0000:01:00.0/class").write_text("0x020000\n")
    assert "is no NVMe controller (class 0x020000)" in refuses_namespace(PCI, str(tree))
    assert "there is no PCI device 0000:02:00.0" in refuses_namespace(SpdkAddress("pci", "0000:02:00.0"), str(tree))
    assert refuses_namespace(TCP, str(tree)) is None


def test_huge_pages_are_counted_before_anything_starts(tree):
    with pytest.raises(
        TargetError, match=r"needs 128 MiB of huge pages.* and 0 MiB are free: sysctl -w vm.nr_hugepages=64"
    ):
        check_huge_pages(PCI, 128, str(tree))
    for size, free in (("2048kB", 32), ("1048576kB", 0)):
        folder = tree / f"sys/kernel/mm/hugepages/hugepages-{size}"
        folder.mkdir(parents=True)
        (folder / "free_hugepages").write_text(f"{free}\n")
    check_huge_pages(PCI, 64, str(tree))
    with pytest.raises(TargetError, match=r"and 64 MiB are free"):
        check_huge_pages(PCI, 65, str(tree))
    check_huge_pages(TCP, 1 << 20, str(tree))


def test_memory_holds_the_buffers_and_is_shared_by_like_cells():
    assert memory_mib(1, 1, 4096) == memory_mib(1, 32, 4096) == 128
    assert memory_mib(2, 64, 1 << 20) >= 2 * 64 + 64
    assert memory_mib(1, 1, 512) == memory_mib(1, 1, 4096)
