from dataclasses import replace

import pytest

from pytest_gpuio.media import BlockDevice, Medium
from pytest_gpuio.sweep.expand import expand
from pytest_gpuio.sweep.identity import changes, identity, key_of, series_of
from pytest_gpuio.sweep.plan import Environment

PLAN = '[axes]\ndatapath = "null"\nworkload = "micro/randread"\nbs = ["4k", "8k"]\n'
DISK = BlockDevice("nvme0n1", "259:0", model="P5800X", firmware="1.0", transport="pcie", logical_block=512)


@pytest.fixture
def root(tmp_path):
    """A host with one NVMe drive."""
    for file, text in {
        "proc/sys/kernel/osrelease": "6.1.0-1\n",
        "proc/cpuinfo": "model name : X\n",
        "sys/block/nvme0n1/wwid": "eui.1\n",
    }.items():
        (tmp_path / file).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / file).write_text(text)
    return tmp_path


def of(placed, root, disk=DISK, text=PLAN, **medium):
    return identity(placed(text), {"default": Medium("nvme_ssd", (), devices=(disk,), **medium)}, str(root))


def test_the_same_machine_is_the_same_series(placed, root):
    assert series_of(of(placed, root)) == series_of(of(placed, root))
    overlay = of(placed, root, mount_options="rw,upperdir=/a/1,lowerdir=/b:/c")
    assert series_of(overlay) == series_of(of(placed, root, mount_options="rw,upperdir=/a/2,lowerdir=/b:/d"))
    # Of no consequence for a figure: the evidence, the number a boot gave to a device, permissions, the order's seed.
    assert series_of(of(placed, root, replace(DISK, dev="259:3"))) == series_of(of(placed, root))
    assert series_of(of(placed, root, text="seed = 5\n" + PLAN)) == series_of(of(placed, root))


@pytest.mark.parametrize(
    ("change", "told"),
    [
        (lambda root: (root / "proc/sys/kernel/osrelease").write_text("6.2\n"), "kernel: 6.1.0-1 -> 6.2"),
        (lambda root: (root / "sys/block/nvme0n1/wwid").write_text("eui.2\n"), "target default: devices"),
    ],
)
def test_another_kernel_or_drive_is_another_series(placed, root, change, told):
    before = of(placed, root)
    change(root)
    after = of(placed, root)
    assert series_of(before) != series_of(after)
    assert any(told in line for line in changes(before, after))


def test_firmware_mount_options_and_windows_are_part_of_it(placed, root):
    before = of(placed, root)
    for after in (
        of(placed, root, replace(DISK, firmware="1.1")),
        of(placed, root, mount_options="rw,discard"),
        of(placed, root, text='[windows]\nlength = "20ms"\n' + PLAN),
        of(placed, root, text='[options]\nverify = "none"\n' + PLAN),
    ):
        assert series_of(before) != series_of(after)
        assert changes(before, after)


def test_serial_numbers_are_never_in_it(placed, root):
    (root / "sys/block/nvme0n1/wwid").write_text("eui.SECRET\n")
    assert "SECRET" not in str(of(placed, root))


def test_keys_tell_cells_series_and_environments_apart(placed):
    one, two = expand(placed(PLAN))
    plain = Environment("default")
    keys = {
        key_of("a", one, plain),
        key_of("a", two, plain),
        key_of("b", one, plain),
        key_of("a", one, Environment("default", {"A": "1"})),
        key_of("a", one, Environment("default", before="true")),
        key_of("a", one, plain, rung="2"),
    }
    assert len(keys) == 6
    assert key_of("a", one, plain) in keys
    assert all(len(key) == 16 for key in keys)
