"""Distances in PCI trees: a two-socket server with switches, faked as sysfs shows such machines."""

import os
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_gpuio.machine import (
    DISTANCES,
    Placed,
    cpu_distance,
    farthest,
    node_cpus,
    online_nodes,
    pci_distance,
    pci_node,
)
from pytest_gpuio.machine.topology import normal_address

# Where nvidia-smi topo -m says PIX or PXB, PHB, NODE and SYS: a GPU and two drives below one switch of socket 0, a
# drive on a port of its own in the same root complex, one in another root complex of the socket, one on socket 1.
SWITCH = "pci0000:15/0000:15:01.0/0000:16:00.0"
DEVICES = {
    "gpu": (f"{SWITCH}/0000:17:00.0/0000:18:00.0", 0),
    "behind the switch": (f"{SWITCH}/0000:17:01.0/0000:19:00.0", 0),
    "one more switch down": (f"{SWITCH}/0000:17:02.0/0000:1a:00.0/0000:1b:03.0/0000:1c:00.0", 0),
    "own port": ("pci0000:15/0000:15:05.0/0000:20:00.0", 0),
    "behind VMD": ("pci0000:15/0000:15:00.5/pci10000:00/10000:00:02.0/10000:01:00.0", 0),
    "other root complex": ("pci0000:37/0000:37:01.0/0000:38:00.0", 0),
    "other socket": ("pci0000:97/0000:97:01.0/0000:98:00.0", 1),
    "no node": ("pci0000:b7/0000:b7:01.0/0000:b8:00.0", -1),
}


@pytest.fixture
def server(tmp_path):
    for path, node in DEVICES.values():
        folder = tmp_path / "sys/devices" / path
        folder.mkdir(parents=True)
        (folder / "numa_node").write_text(f"{node}\n")
        link = tmp_path / "sys/bus/pci/devices" / folder.name
        link.parent.mkdir(parents=True, exist_ok=True)
        link.symlink_to(os.path.relpath(folder, link.parent))
    nodes = tmp_path / "sys/devices/system/node"
    for number, cpus in ((0, "0-3,8-11"), (1, "4-7,12-15")):
        (nodes / f"node{number}").mkdir(parents=True)
        (nodes / f"node{number}/cpulist").write_text(f"{cpus}\n")
    (nodes / "online").write_text("0-1\n")
    return str(tmp_path)


def address(name):
    return Path(DEVICES[name][0]).name


@pytest.mark.parametrize(
    ("name", "distance", "words"),
    [
        ("behind the switch", "same_switch", "below the PCI bridge 0000:16:00.0"),
        ("one more switch down", "same_switch", "below the PCI bridge 0000:16:00.0"),
        ("own port", "same_root_complex", "root complex pci0000:15"),
        ("behind VMD", "same_root_complex", "root complex pci0000:15"),
        ("other root complex", "same_node", "0000:18:00.0 hangs on node 0, 0000:38:00.0 on node 0"),
        ("other socket", "other_node", "0000:18:00.0 hangs on node 0, 0000:98:00.0 on node 1"),
        ("no node", "unknown", "0000:b8:00.0 tells no NUMA node"),
    ],
)
def test_from_the_gpu(server, name, distance, words):
    for first, second in (("gpu", name), (name, "gpu")):
        found = pci_distance(address(first), address(second), server)
        assert found.distance == distance
    assert words in pci_distance(address("gpu"), address(name), server).evidence


def test_two_drives_behind_one_vmd_controller(server, tmp_path):
    folder = tmp_path / "sys/devices/pci0000:15/0000:15:00.5/pci10000:00/10000:00:04.0/10000:02:00.0"
    folder.mkdir(parents=True)
    (tmp_path / "sys/bus/pci/devices/10000:02:00.0").symlink_to(folder)
    assert pci_distance("10000:01:00.0", "10000:02:00.0", server).evidence.endswith("root complex pci10000:00.")


def test_a_device_that_is_not_there(server):
    for other in ("0000:ff:00.0", "nonsense", ""):
        assert pci_distance(address("gpu"), other, server) == Placed("unknown", f"sysfs has no PCI device {other}.")
        assert pci_node(other, server) is None


def test_spellings_of_cuda_and_nvml(server):
    assert pci_distance("00000000:18:00.0", "19:00.0", server).distance == "same_switch"
    assert normal_address("0000:18:00") == "0000:18:00.0"
    assert normal_address("00010000:01:00.0") == "10000:01:00.0"
    assert normal_address("0000:AB:1F.7") == "0000:ab:1f.7"


@given(st.text(max_size=30))
def test_any_text_is_an_address_or_none(text):
    normal = normal_address(text)
    assert normal is None or normal_address(normal) == normal


@pytest.mark.parametrize(
    ("node", "cpus", "distance"),
    [
        (0, (0, 9), "same_node"),
        (1, (15,), "same_node"),
        (0, (0, 4), "other_node"),
        (1, (0,), "other_node"),
        (None, (0,), "unknown"),
        (-1, (0,), "unknown"),
        (0, (), "unknown"),
        (7, (0,), "unknown"),
    ],
)
def test_devices_and_cpus(server, node, cpus, distance):
    assert cpu_distance(node, cpus, server).distance == distance


def test_a_stripe_is_as_far_as_its_farthest_part():
    assert [farthest([Placed("same_switch", ""), Placed(name, "")]).distance for name in DISTANCES] == list(DISTANCES)
    assert farthest([]).distance == "unknown"


def test_nodes(server):
    assert online_nodes(server) == (0, 1)
    assert node_cpus(1, server) == (4, 5, 6, 7, 12, 13, 14, 15)
    assert (pci_node(address("other socket"), server), pci_node(address("no node"), server)) == (1, None)


def test_this_machines_devices_and_nodes():
    devices = sorted(Path("/sys/bus/pci/devices").glob("*")) if Path("/sys/bus/pci/devices").is_dir() else []
    for first in devices[:4]:
        for second in devices[:4]:
            assert pci_distance(first.name, second.name).distance in DISTANCES
    for node in online_nodes():
        assert set(node_cpus(node)) <= set(range(os.cpu_count() or 1))
