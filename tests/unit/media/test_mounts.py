"""The mount table's parser and the choice of a mount."""

from hypothesis import given
from hypothesis import strategies as st

from pytest_gpuio.media.mounts import mount_of, parse_mountinfo

# The example of proc(5).
MANUAL = "36 35 98:0 /mnt1 /mnt2 rw,noatime master:1 - ext3 /dev/root rw,errors=continue\n"


def test_the_manuals_example():
    (mount,) = parse_mountinfo(MANUAL)
    assert mount.device == (98, 0)
    assert (mount.point, mount.file_system, mount.source) == ("/mnt2", "ext3", "/dev/root")
    assert mount.options == "rw,noatime,errors=continue"
    assert mount.option("errors") == "continue"
    assert mount.option("noatime") is None


def test_escapes_and_no_optional_fields():
    (mount,) = parse_mountinfo("1 0 0:5 / /my\\040disk\\134x rw - fuse.a\\040b src\\011tab rw\n")
    assert (mount.point, mount.file_system, mount.source) == ("/my disk\\x", "fuse.a b", "src\ttab")


def test_broken_lines_are_left_out():
    assert len(parse_mountinfo("\n1 2\nx - y z\n1 0 a:b / / rw - ext4 x rw\n" + MANUAL)) == 1


@given(st.text(max_size=200))
def test_any_text_is_survived(text):
    parse_mountinfo(text)


def table(*entries):
    return parse_mountinfo("".join(f"1 0 {number} / {point} rw - {kind} x rw\n" for number, point, kind in entries))


def test_longest_mount_point_wins_whole_names_only():
    mounts = table(("8:1", "/", "ext4"), ("8:2", "/data", "xfs"), ("8:3", "/data2", "btrfs"))
    assert mount_of("/data2/x", mounts, None).file_system == "btrfs"
    assert mount_of("/data/x", mounts, None).file_system == "xfs"
    assert mount_of("/data22", mounts, None).file_system == "ext4"


def test_later_mount_hides_the_earlier_one():
    mounts = table(
        ("0:1", "/", "rootfs"), ("8:1", "/", "ext4"), ("0:23", "/dev/shm", "tmpfs"), ("0:30", "/dev/shm", "ramfs")
    )
    assert mount_of("/x", mounts, None).file_system == "ext4"
    assert mount_of("/dev/shm/x", mounts, None).file_system == "ramfs"


def test_device_number_tells_a_hidden_mount():
    mounts = table(("8:1", "/", "ext4"), ("8:2", "/data/inner", "xfs"), ("8:3", "/data", "ext2"))
    assert mount_of("/data/inner/x", mounts, (8, 3)).file_system == "ext2"


def test_unknown_device_number_falls_back_to_the_path():
    mounts = table(("8:1", "/", "ext4"), ("0:44", "/data", "btrfs"))
    assert mount_of("/data/x", mounts, (0, 45)).file_system == "btrfs"


def test_no_mounts():
    assert mount_of("/x", (), None) is None
