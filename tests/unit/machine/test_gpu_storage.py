"""The kernel's side of direct storage, on trees of files in the forms that NVIDIA's drivers print."""

import gzip

import pytest

from pytest_gpuio.machine import gpu_storage, nvidia_fs, udev_knows

DISABLED = """GDS Version: 1.14.0.31
NVFS statistics(ver: 4.0)
NVFS Driver(version: 2.25.7)
Mellanox PeerDirect Supported: True
IO stats: Disabled, peer IO stats: Disabled
Logging level: info

Active Shadow-Buffer (MiB): 0
Active Process: 0
Reads                           : err=0 io_state_err=0
Sparse Reads                    : n=0 io=0 holes=0 pages=0
Writes                          : err=0 io_state_err=0 pg-cache=0 pg-cache-fail=0 pg-cache-eio=0
Mmap                            : n=1 ok=1 err=0 munmap=2
"""
ENABLED = """GDS Version: 1.16.0.1
NVFS statistics(ver: 4.0)
NVFS Driver(version: 2.24.2)
IO stats: Enabled, peer IO stats: Enabled
Active Shadow-Buffer (MiB): 128
Batches                         : n=100 ok=98 err=2 Avg-Submit-Latency(usec)=50
Reads                           : n=1000 ok=995 err=5 readMiB=4096 io_state_err=2
Reads                           : Bandwidth(MiB/s)=1024 Avg-Latency(usec)=100
Sparse Reads                    : n=10 io=15 holes=20 pages=100
Writes                          : n=500 ok=498 err=2 writeMiB=2048 io_state_err=1 pg-cache=50
Mmap                            : n=7 ok=7 err=0 munmap=2
"""
OPEN = "NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  580.159.04  Release Build  (x)\nGCC version:  gcc\n"
CLOSED = "NVRM version: NVIDIA UNIX x86_64 Kernel Module  535.104.05  Sat Aug 19 01:15:15 UTC 2023\n"


@pytest.fixture
def tree(tmp_path):
    def write(files):
        for path, text in files.items():
            file = tmp_path / path
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_bytes(text if isinstance(text, bytes) else text.encode())
        return tmp_path

    return write


def test_a_machine_without_any_of_it(tmp_path):
    (tmp_path / "sys/class").mkdir(parents=True)
    found = gpu_storage(tmp_path, "6.1")
    assert (found.driver, found.driver_open, found.nvidia_fs, found.p2pdma, found.static_bar1) == (None,) * 5
    assert (found.iommu, found.udev_database, found.gpus) == ("off", False, ())
    assert gpu_storage(tmp_path / "nowhere", "6.1").iommu is None


@pytest.mark.parametrize(
    ("text", "expected"), [(DISABLED, ("2.25.7", None, 0)), (ENABLED, ("2.24.2", 1600, 128)), ("x", (None, None, None))]
)
def test_nvidia_fs_counts_only_where_its_statistics_are_on(tree, text, expected):
    found = nvidia_fs(tree({"proc/driver/nvidia-fs/stats": text}))
    assert (found.version, found.operations, found.shadow_mib) == expected


def test_nvidia_fs_that_may_not_be_read_is_loaded_all_the_same(tmp_path):
    assert nvidia_fs(tmp_path) is None
    (tmp_path / "proc/driver/nvidia-fs").mkdir(parents=True)
    assert nvidia_fs(tmp_path) is not None


@pytest.mark.parametrize(("text", "version", "is_open"), [(OPEN, "580.159.04", True), (CLOSED, "535.104.05", False)])
def test_the_driver_and_its_kind(tree, text, version, is_open):
    found = gpu_storage(tree({"proc/driver/nvidia/version": text, "proc/driver/nvidia/gpus/0000:17:00.0/x": ""}), "6.1")
    assert (found.driver, found.driver_open, found.gpus) == (version, is_open, ("0000:17:00.0",))


@pytest.mark.parametrize(
    ("line", "expected"), [("CONFIG_PCI_P2PDMA=y", True), ("# CONFIG_PCI_P2PDMA is not set", False)]
)
def test_peer_to_peer_dma_is_a_matter_of_the_kernel_s_configuration(tree, line, expected):
    assert (
        gpu_storage(tree({"proc/config.gz": gzip.compress(f"CONFIG_X=y\n{line}\n".encode())}), "6.1").p2pdma is expected
    )


@pytest.mark.parametrize(
    ("line", "expected"),
    [('RegistryDwords: "RMForceStaticBar1=1;ForceP2P=0"', True), ('RegistryDwords: ""', False), ("Mobile: 1", False)],
)
def test_static_bar1(tree, line, expected):
    assert (
        gpu_storage(tree({"proc/driver/nvidia/params": f"ResmanDebugLevel: 1\n{line}\n"}), "6.1").static_bar1
        is expected
    )


@pytest.mark.parametrize(
    ("types", "expected"),
    [(["identity", "identity"], "passthrough"), (["DMA-FQ", "identity"], "translating"), ([], "translating")],
)
def test_iommu(tree, types, expected):
    files = {f"sys/kernel/iommu_groups/{n}/type": kind for n, kind in enumerate(types)}
    assert gpu_storage(tree({"sys/class/iommu/dmar0/x": ""} | files), "6.1").iommu == expected


def test_iommu_without_units_is_off(tmp_path):
    (tmp_path / "sys/class/iommu").mkdir(parents=True)
    assert gpu_storage(tmp_path, "6.1").iommu == "off"


@pytest.mark.parametrize(
    ("text", "expected"),
    [("I:1\nE:ID_FS_USAGE=filesystem\nE:ID_FS_TYPE=ext4\nV:1\n", True), ("I:1\nE:ID_MODEL=x\n", False), (None, False)],
)
def test_udev_must_know_what_lies_on_the_device(tree, text, expected):
    root = tree({"run/udev/data/b8:0": "E:ID_FS_TYPE=xfs\n"} | ({} if text is None else {"run/udev/data/b254:0": text}))
    assert udev_knows("254:0", root) is expected
    assert gpu_storage(root, "6.1").udev_database
