"""The block device behind an NVMe generic device, on trees as a 6.12 kernel shows them."""

from pytest_gpuio.media import classify, generic_block_device
from pytest_gpuio.media.classification import _generic

CONTROLLER = "sys/devices/pci0000:00/0000:00:03.0/nvme/nvme0"


def char(tree, folder, number):
    tree.write(f"{folder}/dev", number)
    tree.link(f"sys/dev/char/{number}", folder)


def test_of_a_local_namespace(tree):
    tree.nvme(0, "259:0")
    char(tree, f"{CONTROLLER}/ng0n1", "244:0")
    assert generic_block_device((244, 0), str(tree.root)) == ("nvme0n1", (259, 0))


def test_of_a_namespace_with_several_paths(tree):
    tree.multipath("tcp")
    char(tree, "sys/devices/virtual/nvme-subsystem/nvme-subsys2/ng2n1", "244:3")
    assert generic_block_device((244, 3), str(tree.root)) == ("nvme2n1", (259, 7))


def test_of_a_namespace_without_a_block_device(tree):
    char(tree, f"{CONTROLLER}/ng0n2", "244:1")  # such as one of the key-value command set
    assert generic_block_device((244, 1), str(tree.root)) is None


def test_of_other_character_devices(tree):
    char(tree, "sys/devices/virtual/mem/null", "1:3")
    char(tree, CONTROLLER, "245:0")  # /dev/nvme0: the controller, not a namespace
    assert generic_block_device((1, 3), str(tree.root)) is None
    assert generic_block_device((245, 0), str(tree.root)) is None
    assert generic_block_device((9, 9), str(tree.root)) is None
    assert generic_block_device((1, 3)) is None


def test_its_medium_is_the_namespace_s_without_counters_that_commands_go_past(tree):
    tree.nvme(0, "259:0")
    found = _generic("/dev/ng0n1", ("nvme0n1", (259, 0)), tree.root, frozenset())
    assert (found.name, found.file_system, found.counted) == ("nvme_ssd", "NVMe generic device", ())
    assert [device.name for device in found.devices] == ["nvme0n1"]
    assert found.evidence[0] == "/dev/ng0n1 sends NVMe commands to the namespace of nvme0n1."
    tree.write(f"{CONTROLLER}/nvme0n1/queue/iostats_passthrough", 1)
    assert _generic("/dev/ng0n1", ("nvme0n1", (259, 0)), tree.root, frozenset()).counted == ("259:0",)


def test_other_character_devices_lie_on_their_file_system():
    assert classify("/dev/null").file_system != "NVMe generic device"
