"""Raw devices as targets: which one a name means, and every use that protects it."""

import hashlib
import os
import subprocess
import sys
from pathlib import Path

import pytest

from pytest_gpuio.core.errors import Busy, ConfigError, TargetError
from pytest_gpuio.targets import RawDevice, lay_out_device, open_target, raw_device, target_file
from pytest_gpuio.targets.raw_device import check_allowed, check_unused, claimed
from pytest_gpuio.targets.signatures import recognize

SIZE = 8 << 20


def run(*command, feed=None, check=True):
    environment = dict(os.environ, PATH=f"{os.environ.get('PATH', '')}:/usr/sbin:/sbin")
    try:
        return subprocess.run(
            command, input=feed, capture_output=True, text=True, timeout=60, check=check, env=environment
        )
    except FileNotFoundError:
        pytest.skip(f"needs {command[0]}")


def checksum(device):
    run("blockdev", "--flushbufs", device)
    return hashlib.sha256(Path(device).read_bytes()).hexdigest()


def lay_out(device, *, allowed=None, **more):
    return lay_out_device(raw_device(device), SIZE, allowed=[device] if allowed is None else allowed, **more)


def refused(device, match):
    """The layout refuses, whatever was allowed and forced, and no byte of the device is another one after that."""
    before = checksum(device)
    for force in (False, True):
        with pytest.raises((TargetError, Busy), match=match):
            lay_out(device, force=force)
    assert checksum(device) == before


def only_with_force(device, match, what):
    """The layout refuses without force, changing no byte; with it, it says what is overwritten."""
    before = checksum(device)
    with pytest.raises(TargetError, match=match) as refusal:
        lay_out(device)
    assert "add --gpuio-force, or name another" in str(refusal.value)
    assert checksum(device) == before
    said = []
    made = lay_out(device, force=True, announce=said.append)
    assert (made.reused, said[0].partition("which held ")[2]) == (False, what)
    # From then on it is ours, whatever remnant lies at its end.
    assert lay_out(device).reused


def test_names_that_are_no_device(tmp_path):
    assert raw_device(tmp_path) is None
    assert raw_device(tmp_path / "nothing") is None
    (tmp_path / "file").touch()
    assert raw_device(tmp_path / "file") is None
    with pytest.raises(
        TargetError, match=r"^/dev/null is a character device, and not an NVMe generic one .* nor a devdax one"
    ):
        raw_device("/dev/null")
    with pytest.raises(TargetError, match="character device"):
        target_file("/dev/null", writes=False)


def test_both_names_of_a_link_are_told(loop_over_tmpfs, tmp_path):
    node = loop_over_tmpfs(sector=512)
    link = tmp_path / "by-id"
    link.symlink_to(node)
    device = raw_device(link)
    assert (device.node, device.block, device.generic) == (node, Path(node).name, False)
    assert str(device) == f"{link} ({node})"
    assert str(raw_device(node)) == node
    assert target_file(link, writes=True) == link
    with pytest.raises(
        TargetError, match=rf"^{link} \({node}\) is a raw device, .* add --gpuio-allow-destroy={node}, "
    ):
        check_allowed(device, [])
    check_allowed(device, [str(link)])
    check_allowed(device, [node])


def test_only_exactly_that_device_is_allowed(loop_over_tmpfs, tmp_path):
    node, other = loop_over_tmpfs(sector=512), loop_over_tmpfs(sector=512)
    before = checksum(node)
    (tmp_path / "file").touch()
    for allowed in ([], [other], ["/dev"], [f"{node}x"], [node[:-1]], [str(tmp_path / "file")], ["/dev/null"]):
        with pytest.raises(TargetError, match=rf"^{node} is a raw device, and measuring overwrites what it holds"):
            lay_out(node, allowed=allowed)
    assert checksum(node) == before
    with pytest.raises(TargetError, match=rf"\(--gpuio-allow-destroy names {other}\)"):
        lay_out(node, allowed=[other])


def test_a_generic_device_is_another_one_than_its_block_device(loop_over_tmpfs):
    # Logic only: there is no NVMe here; the character device stands for /dev/ngXnY.
    node = loop_over_tmpfs(sector=512)
    block = raw_device(node)
    generic = RawDevice("/dev/null", "/dev/null", generic=True, block=block.block, number=block.number)
    assert generic.block_path == node
    with pytest.raises(TargetError, match="--gpuio-allow-destroy=/dev/null"):
        check_allowed(generic, [node])
    check_allowed(generic, ["/dev/null"])
    with pytest.raises(TargetError, match="raw device"):
        check_allowed(block, ["/dev/null"])


def test_foreign_data_is_not_touched_unless_allowed(loop_over_tmpfs):
    device = loop_over_tmpfs(sector=512)
    run("mkfs.ext4", "-q", device)
    before = checksum(device)
    with pytest.raises(TargetError, match="measuring overwrites what it holds"):
        lay_out(device, allowed=[])
    with pytest.raises(TargetError, match="was not made by gpuio"):
        open_target(device, writable=True, direct=True)
    assert checksum(device) == before
    kind = "ext2, ext3 or ext4 file system"
    only_with_force(device, f"carries the signature of {kind}, so somebody may need it", f"the signature of {kind}")
    assert run("blkid", "--probe", device, check=False).stdout == ""


def test_mounted(loop_over_tmpfs, mounted):
    device = loop_over_tmpfs(sector=512)
    run("mkfs.ext4", "-q", device)
    point = mounted("ext4", device)
    refused(device, rf"^{device} is mounted at {point}: unmount it")


def test_mounted_where_this_process_cannot_see_it(loop_over_tmpfs, mounted, monkeypatch):
    device = loop_over_tmpfs(sector=512)
    run("mkfs.ext4", "-q", device)
    mounted("ext4", device)
    # As in a container: no mount table tells, but the kernel's own claim does.
    monkeypatch.setattr("pytest_gpuio.targets.device_layout.check_unused", lambda _device, **_force: None)
    refused(device, rf"^{device} is held exclusively by something \(a mount, also of another container")


def test_swap(loop_over_tmpfs):
    device = loop_over_tmpfs(sector=512)
    run("mkswap", device)
    on = run("swapon", device, check=False)
    if on.returncode:
        pytest.skip(f"no swap can be had here: {on.stderr.strip()}")
    try:
        refused(device, "is swap space in use: run swapoff")
    finally:
        run("swapoff", device)


@pytest.mark.parametrize("label", ["gpt", "dos"])
def test_partitioned(loop_over_tmpfs, label):
    device = loop_over_tmpfs(sector=512)
    run("sfdisk", "--quiet", device, feed=f"label: {label}\n,4M,L\n,4M,L\n")
    # The kernel was not told, only the bytes tell.
    kind = {"gpt": "GPT", "dos": "MBR"}[label]
    only_with_force(device, rf"carries a partition table \({kind}\), so somebody", f"a partition table ({kind})")


def test_partitions_that_the_kernel_knows(loop_over_tmpfs, mounted):
    device = loop_over_tmpfs(sector=512, size=32 << 20)
    run("sfdisk", "--quiet", device, feed="label: gpt\n,12M,L\n,12M,L\n")
    known = run("partx", "--add", device, check=False)
    name = Path(device).name
    if known.returncode or not Path(f"/dev/{name}p1").exists():
        pytest.skip(f"no partitions on loop devices here: {known.stderr.strip()}")
    try:
        with pytest.raises(TargetError, match=rf"holds partitions \({name}p1, {name}p2\): name one of them") as refusal:
            lay_out(device)
        assert "add --gpuio-force" in str(refusal.value)
        run("mkfs.ext4", "-q", f"{device}p2")
        point = mounted("ext4", f"{device}p2")
        refused(device, rf"^{device}: its partition {name}p2 is mounted at {point}")
        with pytest.raises(TargetError, match="raw device"):  # the disk's name does not stand for its partitions
            lay_out(f"{device}p1", allowed=[device])
        assert lay_out(f"{device}p1").path == f"{device}p1"
        assert (point / "lost+found").is_dir()
        with pytest.raises(TargetError, match="is mounted at"):  # a partition in use is not overwritten by force
            lay_out(device, force=True)
        run("umount", str(point))
        assert run("fsck.ext4", "-n", "-f", f"{device}p2").returncode == 0
    finally:
        run("partx", "--delete", device, check=False)


def test_held_by_device_mapper(loop_over_tmpfs):
    device = loop_over_tmpfs(sector=512)
    name = f"gpuio-test-{os.getpid()}"
    made = run("dmsetup", "create", name, "--table", f"0 16384 linear {device} 0", check=False)
    if made.returncode:
        pytest.skip(f"no device mapper here: {made.stderr.strip()}")
    try:
        refused(device, r"is held by dm-\d+ \(device mapper, LVM, RAID or bcache\)")
    finally:
        run("dmsetup", "remove", name)


def test_held_as_sysfs_shows_it(loop_over_tmpfs, tmp_path):
    # Logic only, for kernels without device mapper: a tree in which dm-0 holds the device, then its partition.
    device = raw_device(loop_over_tmpfs(sector=512))
    folder = tmp_path / f"sys/dev/block/{device.number[0]}:{device.number[1]}"
    (folder / "holders/dm-0").mkdir(parents=True)
    with pytest.raises(TargetError, match=r"^/dev/loop\d+ is held by dm-0 "):
        check_unused(device, str(tmp_path))
    (folder / "holders/dm-0").rmdir()
    check_unused(device, str(tmp_path))
    part = folder / f"{folder.name}p1"
    (part / "holders/md127").mkdir(parents=True)
    (part / "partition").write_text("1\n")
    with pytest.raises(TargetError, match=r"its partition .*p1 is held by md127 "):
        check_unused(device, str(tmp_path))


def test_zoned_devices_take_no_random_writes(loop_over_tmpfs, tmp_path):
    # Logic only: a tree of a host-managed device.
    device = raw_device(loop_over_tmpfs(sector=512))
    folder = tmp_path / f"sys/dev/block/{device.number[0]}:{device.number[1]}"
    (folder / "queue").mkdir(parents=True)
    (folder / "queue/zoned").write_text("host-managed\n")
    with pytest.raises(TargetError, match="host-managed zoned"):
        check_unused(device, str(tmp_path))
    with pytest.raises(TargetError, match="is it gone"):
        check_unused(device, str(tmp_path / "elsewhere"))


def test_backing_another_loop_device(loop_over_tmpfs):
    device = loop_over_tmpfs(sector=512)
    above = run("losetup", "--find", "--show", device).stdout.strip()
    try:
        refused(device, rf"backs {Path(above).name}: detach it \(losetup -d {above}\)")
    finally:
        run("losetup", "--detach", above)


def test_open_for_writing_by_another_process(loop_over_tmpfs):
    device = loop_over_tmpfs(sector=512)
    code = f"import os; os.open({device!r}, os.O_RDWR); print('open', flush=True); input()"
    with subprocess.Popen([sys.executable, "-c", code], stdin=-1, stdout=-1, text=True) as other:
        assert other.stdout.readline() == "open\n"
        refused(device, rf"is open for writing by process {other.pid} \(python")
        other.communicate("\n")
    lay_out(device)


def test_read_only(loop_over_tmpfs):
    device = loop_over_tmpfs(sector=512)
    run("blockdev", "--setro", device)
    try:
        refused(device, rf"^{device} is read-only")
    finally:
        run("blockdev", "--setrw", device)  # a loop device keeps it beyond its file


@pytest.mark.parametrize(("at", "mark", "what"), [(512, b"LABELONE", "LVM"), (4096, b"\xfc\x4e\x2b\xa9", "md RAID")])
def test_members_of_volumes_that_are_not_running(loop_over_tmpfs, at, mark, what):
    device = loop_over_tmpfs(sector=512)
    with Path(device).open("r+b") as file:
        file.seek(at)
        file.write(mark)
    content = Path(device).read_bytes()
    member = recognize(content[: 1 << 20], content[-(1 << 20) :], len(content)).member
    only_with_force(device, f"carries the mark of a {what}", f"the mark of a {member}")


def test_too_small(loop_over_tmpfs):
    device = loop_over_tmpfs(sector=512)
    before = checksum(device)
    with pytest.raises(ConfigError, match=r"has 16,777,216 bytes, .* need 18,874,368: use --gpuio-size=14336K or less"):
        lay_out_device(raw_device(device), 16 << 20, allowed=[device])
    assert checksum(device) == before
    lay_out_device(raw_device(device), 14 << 20, allowed=[device])
    with pytest.raises(ConfigError, match="above zero"):
        lay_out_device(raw_device(device), 0, allowed=[device])


def test_while_it_is_claimed_nobody_mounts_it(loop_over_tmpfs, tmp_path):
    device = loop_over_tmpfs(sector=512)
    run("mkfs.ext4", "-q", device)
    (tmp_path / "point").mkdir()
    with claimed(raw_device(device)):
        assert run("mount", device, str(tmp_path / "point"), check=False).returncode != 0
        with pytest.raises(Busy, match="another gpuio run"), claimed(raw_device(device)):
            pass
    assert not os.path.ismount(tmp_path / "point")


def test_a_node_that_became_another_device_is_not_opened(loop_over_tmpfs):
    first, second = raw_device(loop_over_tmpfs(sector=512)), raw_device(loop_over_tmpfs(sector=512))
    stale = RawDevice(first.named, first.node, generic=False, block=first.block, number=second.number)
    with pytest.raises(TargetError, match="is not the device"), claimed(stale):
        pass
