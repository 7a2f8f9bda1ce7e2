"""Link rates from sysfs, against the figures the standards publish."""

import pytest

from pytest_gpuio.media import classify

SATA = "sys/devices/pci0000:00/0000:00:1f.2/ata1/link1/ata_link/link1/sata_spd"


def device(tree, number):
    tree.mount("/data", "ext4", number, "/dev/x")
    (found,) = classify("/data", root=str(tree.root)).devices
    return found


# PCI-SIG's table of per-direction bandwidth, in GB/s.
@pytest.mark.parametrize(
    ("speed", "width", "gb_per_s"),
    [
        ("2.5 GT/s PCIe", 1, 0.25),
        ("5.0 GT/s PCIe", 2, 1.0),
        ("8.0 GT/s PCIe", 4, 3.938),
        ("8 GT/s", 4, 3.938),
        ("16.0 GT/s PCIe", 4, 7.877),
        ("32.0 GT/s PCIe", 4, 15.754),
        ("64.0 GT/s PCIe", 4, 32.0),
    ],
)
def test_pcie_generations(tree, speed, width, gb_per_s):
    tree.nvme()
    tree.write("sys/devices/pci0000:00/0000:00:03.0/current_link_speed", speed)
    tree.write("sys/devices/pci0000:00/0000:00:03.0/current_link_width", width)
    assert device(tree, "259:0").link_bytes_per_s == pytest.approx(gb_per_s * 1e9, rel=1e-3)


@pytest.mark.parametrize(("speed", "width"), [("Unknown", "4"), ("8.0 GT/s PCIe", "0"), (None, None)])
def test_a_link_that_is_not_told_is_unknown(tree, speed, width):
    tree.nvme()
    if speed is not None:
        tree.write("sys/devices/pci0000:00/0000:00:03.0/current_link_speed", speed)
        tree.write("sys/devices/pci0000:00/0000:00:03.0/current_link_width", width)
    assert device(tree, "259:0").link_bytes_per_s is None


@pytest.mark.parametrize(("speed", "rate"), [("6.0 Gbps", 600_000_000), ("1.5 Gbps", 150_000_000), ("<unknown>", None)])
def test_sata(tree, speed, rate):
    tree.scsi("sda", "8:0")
    tree.write(SATA, speed)
    assert device(tree, "8:0").link_bytes_per_s == rate


def test_a_virtual_disk_has_no_link(tree):
    tree.virtio()
    tree.write("sys/devices/pci0000:00/0000:00:05.0/current_link_speed", "2.5 GT/s PCIe")
    tree.write("sys/devices/pci0000:00/0000:00:05.0/current_link_width", 1)
    assert device(tree, "254:0").link_bytes_per_s is None
