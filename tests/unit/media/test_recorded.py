"""Every device of recorded machines: QEMU's under kernels 6.1 and 6.12, classified from what their sysfs said."""

import pytest

from pytest_gpuio.media import classify

# From how the machines were started (QEMU's command line and nvmet's attributes), not from sysfs.
COMMON = {
    "nvme0n1": "nvme_ssd",
    "nvme1n1": "nvme_ssd",
    "nullb0": "null_blk",
    "pmem0": "pmem",
    "pmem1": "pmem",
    "pmem2": "virtual",  # virtio-pmem
    "sda": "sata_ssd",
    "vda": "virtual",
}
MACHINES = {
    "6.1": COMMON,
    "6.12": COMMON | {"sdb": "hdd", "zram0": "ram", "nvme2n1": "nvmeof"},
}


@pytest.fixture(params=MACHINES)
def machine(request, recorded):
    return request.param, *recorded(request.param)


def at(machine, name, kind="ext4"):
    _kernel, root, _numbers = machine
    return classify(f"/dev/{name}", root=str(root))


def test_every_device_has_its_class(machine):
    kernel, _root, numbers = machine
    found = {name: at(machine, name).name for name in numbers if "c" not in name.removeprefix("nvme")}
    assert found == MACHINES[kernel]


def test_by_the_mount_it_is_the_same(machine):
    kernel, root, numbers = machine
    for name, expected in MACHINES[kernel].items():
        device = tuple(map(int, numbers[name].split(":")))
        (root / "data").mkdir(exist_ok=True)
        table = root / "proc/self/mountinfo"
        table.write_text(f"20 1 {numbers[name]} / /data rw - xfs /dev/{name} rw\n")
        medium = classify("/data/x", root=str(root), device=device)
        assert (medium.name, medium.file_system) == (expected, "xfs")


def test_every_class_has_evidence_that_names_the_device(machine):
    for name in machine[2]:
        medium = at(machine, name)
        assert medium.file_system == ("" if name == "nvme2c2n1" else "block device")
        assert name == "nvme2c2n1" or name in " ".join(medium.evidence)


def test_what_a_nvme_record_says(machine):
    (device,) = at(machine, "nvme0n1").devices
    assert (device.pci_address, device.model, device.firmware, device.transport) == (
        "0000:00:03.0",
        "QEMU NVMe Ctrl",
        "7.2.22",
        "pcie",
    )
    assert (device.io_poll, device.poll_queues, device.numa_node, device.dax) == (True, 1, None, False)
    assert (device.scheduler, device.nr_requests, device.max_sectors_kb) == ("none", 1023, 512)
    assert device.max_segments == {"6.1": 127, "6.12": 128}[machine[0]]
    assert (device.write_cache, device.logical_block) == ("write back", 512)
    assert at(machine, "nvme1n1").devices[0].logical_block == 4096


def test_polling_is_told_of_each_kind(machine):
    told = {name: at(machine, name).devices[0].poll_queues for name in ("nullb0", "sda", "vda", "pmem0")}
    assert told == {"nullb0": 1, "sda": 0, "vda": 0, "pmem0": 0}


def test_nvme_over_tcp_is_never_local(recorded):
    root, _numbers = recorded("6.12")
    medium = classify("/dev/nvme2n1", root=str(root))
    (path,) = medium.devices
    assert (medium.name, path.name, path.transport, path.pci_address) == ("nvmeof", "nvme2c2n1", "tcp", None)
    assert (path.model, path.poll_queues) == ("INTEL SSDPE21K375GA", 1)
    assert medium.counted == ("nvme2c2n1",)
    assert medium.evidence[0] == "nvme2n1 is the multipath head of nvme2c2n1."


def test_persistent_memory_modes(recorded):
    modes = {}
    for kernel in MACHINES:
        root, _numbers = recorded(kernel)
        for name in ("pmem0", "pmem1", "pmem2"):
            (device,) = classify(f"/dev/{name}", root=str(root)).devices
            modes[kernel, name] = (device.pmem_mode, device.dax, device.persistence_domain, device.numa_node)
    # As `ndctl list` showed them on these machines; in 6.1 the second one was never converted.
    assert modes == {
        ("6.1", "pmem0"): ("fsdax", True, "cpu_cache", 0),
        ("6.1", "pmem1"): ("raw", False, "cpu_cache", 0),
        ("6.1", "pmem2"): ("fsdax", True, None, None),
        ("6.12", "pmem0"): ("fsdax", True, "cpu_cache", 0),
        ("6.12", "pmem1"): ("fsdax", True, "cpu_cache", 0),
        ("6.12", "pmem2"): ("fsdax", True, None, 0),
    }
    raw = classify("/dev/pmem1", root=str(recorded("6.1")[0]))
    assert "ndctl create-namespace" in raw.evidence[-1]


def test_no_serial_number_leaves_a_recorded_machine(machine):
    for name in machine[2]:
        assert "LAB" not in repr(at(machine, name))
