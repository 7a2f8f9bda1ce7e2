"""Near and far GPUs in a faked two-socket server with switches: none of our machines has any."""

import os

import pytest

from pytest_gpuio.core.errors import CapabilityMissing
from pytest_gpuio.measure.gpu_placement import gpu_distance, ordered_gpus
from pytest_gpuio.media import BlockDevice

SWITCH = "pci0000:15/0000:15:01.0/0000:16:00.0"
#: As cuDeviceGetPCIBusId gives them: GPU 0 on the other socket, GPU 1 below the drive's switch, GPU 2 in its root
#: complex, GPU 3 nowhere that sysfs shows.
GPUS = {
    "0000:98:00.0": ("pci0000:97/0000:97:01.0", 1),
    "0000:18:00.0": (f"{SWITCH}/0000:17:00.0", 0),
    "0000:20:00.0": ("pci0000:15/0000:15:05.0", 0),
}
BUS_IDS = [*GPUS, "0000:ee:00.0"]
DRIVE = ("0000:19:00.0", f"{SWITCH}/0000:17:01.0", 0)
FAR_DRIVE = ("0000:99:00.0", "pci0000:98/0000:98:02.0", 1)


@pytest.fixture
def root(tmp_path):
    for name, path, node in (*((name, *where) for name, where in GPUS.items()), DRIVE, FAR_DRIVE):
        folder = tmp_path / "sys/devices" / path / name
        folder.mkdir(parents=True)
        (folder / "numa_node").write_text(f"{node}\n")
        link = tmp_path / "sys/bus/pci/devices" / name
        link.parent.mkdir(parents=True, exist_ok=True)
        link.symlink_to(os.path.relpath(folder, link.parent))
    return str(tmp_path)


def drive(address):
    return BlockDevice(name="nvme0n1", dev="259:0", pci_address=address)


def test_each_gpu_has_its_way_to_the_drive(root):
    found = [gpu_distance(bus_id, [drive(DRIVE[0])], root).distance for bus_id in BUS_IDS]
    assert found == ["other_node", "same_switch", "same_root_complex", "unknown"]
    # A stripe over both drives is as far as its farther one.
    assert gpu_distance(BUS_IDS[1], [drive(DRIVE[0]), drive(FAR_DRIVE[0])], root).distance == "other_node"
    assert gpu_distance(BUS_IDS[1], [drive(None)], root).evidence == "nvme0n1 tells no PCI address."


def test_near_gpus_come_first_and_unknown_ones_last(root):
    assert ordered_gpus("near", BUS_IDS, [drive(DRIVE[0])], root) == (1, 2, 0, 3)


def test_far_gpus_are_all_but_the_nearest_farthest_first(root):
    assert ordered_gpus("far", BUS_IDS, [drive(DRIVE[0])], root) == (0, 2)


def test_from_the_other_drive_it_is_the_other_way_round(root):
    assert ordered_gpus("near", BUS_IDS, [drive(FAR_DRIVE[0])], root)[0] == 0
    assert set(ordered_gpus("far", BUS_IDS, [drive(FAR_DRIVE[0])], root)) == {1, 2}


@pytest.mark.parametrize("order", ["near", "far"])
def test_without_knowledge_there_is_no_near_and_far(root, order):
    with pytest.raises(CapabilityMissing, match="not known how far"):
        ordered_gpus(order, BUS_IDS, [drive(None)], root)
    with pytest.raises(CapabilityMissing, match="not known how far"):
        ordered_gpus(order, BUS_IDS, [], root)
    with pytest.raises(CapabilityMissing, match="there is no GPU"):
        ordered_gpus(order, [], [drive(DRIVE[0])], root)


def test_where_all_are_equally_near_there_is_no_far(root):
    assert ordered_gpus("near", BUS_IDS[1:2], [drive(DRIVE[0])], root) == (0,)
    with pytest.raises(CapabilityMissing, match="as near as the others"):
        ordered_gpus("far", BUS_IDS[1:2], [drive(DRIVE[0])], root)
