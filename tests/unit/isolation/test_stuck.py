"""A child really stuck in the kernel: a FUSE file system that never answers keeps it in state D despite SIGKILL."""

import ctypes
import os
import struct
import threading

import pytest

from pytest_gpuio.core.errors import ChildDied
from pytest_gpuio.isolation import process
from pytest_gpuio.isolation.child import Child

LONG = 30.0
INIT = 26
MNT_DETACH = 2


class SilentFilesystem:
    """Answers the kernel's greeting, takes one more request and says no more."""

    def __init__(self, folder):
        self.folder = folder
        self.libc = ctypes.CDLL(None, use_errno=True)
        self.fd = os.open("/dev/fuse", os.O_RDWR)
        self.asked = threading.Event()
        options = f"fd={self.fd},rootmode=40000,user_id={os.getuid()},group_id={os.getgid()}".encode()
        if self.libc.mount(b"gpuio-silent", bytes(folder), b"fuse", 0, options) != 0:
            os.close(self.fd)
            raise OSError(ctypes.get_errno(), "mount")
        self.thread = threading.Thread(target=self._serve, daemon=True)
        self.thread.start()

    def _serve(self):
        while True:
            _, opcode, unique = struct.unpack_from("=IIQ", os.read(self.fd, 1 << 20))
            if opcode != INIT:
                break
            body = struct.pack("=IIIIHHIIHH32x", 7, 31, 65_536, 0, 0, 0, 65_536, 1, 0, 0)
            os.write(self.fd, struct.pack("=IiQ", 16 + len(body), 0, unique) + body)
        self.asked.set()

    def close(self):
        """Ends the connection, and with it the wait of everybody who is stuck in it."""
        self.libc.umount2(bytes(self.folder), MNT_DETACH)
        os.close(self.fd)


@pytest.fixture
def silent(tmp_path):
    folder = tmp_path / "silent"
    folder.mkdir()
    try:
        filesystem = SilentFilesystem(folder)
    except OSError as error:
        pytest.skip(f"needs /dev/fuse and the right to mount: {error}")
    yield filesystem
    filesystem.close()


def test_a_child_in_uninterruptible_sleep_is_given_up_and_reaped_later(child_env, silent, gone):
    child = Child("gpuio_test_child", name="stuck", env=child_env, grace_s=0.3)
    try:
        child.request("echo", deadline_s=LONG)
        with pytest.raises(ChildDied, match=rf"is in uninterruptible sleep \(D\) .* given up, pid {child.pid}"):
            child.request("stat", {"path": str(silent.folder / "file")}, deadline_s=1.0)
        assert silent.asked.is_set()
        assert not child.alive
        child.close()
        assert process.reap_given_up() == 1
    finally:
        silent.close()
        silent.close = lambda: None
    assert gone(child.pid)
    assert process.reap_given_up() == 0
