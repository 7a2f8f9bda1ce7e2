"""Targets that add no noise of their own, made for one run and taken away again: zram, tmpfs, loop."""

from __future__ import annotations

import contextlib
import os
import shutil
import subprocess
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from pytest_gpuio.core.errors import CapabilityMissing, errno_text

_DEADLINE_S: Final = 60.0
_CONTROL: Final = Path("/sys/class/zram-control")
_SHM: Final = Path("/dev/shm")
_SBIN: Final = "/usr/sbin:/sbin"


@contextlib.contextmanager
def zram(size: int) -> Iterator[str]:
    """A new zram device of ``size`` bytes, never written: its reads fill the buffer with zeros.

    Raises:
        CapabilityMissing: not root, or the kernel has no zram.
    """
    _need_root("a zram device")
    if not _CONTROL.is_dir():
        with contextlib.suppress(OSError, subprocess.SubprocessError):
            _run("modprobe", "zram")
    try:
        number = int((_CONTROL / "hot_add").read_text())
    except (OSError, ValueError) as error:
        raise CapabilityMissing(f"no zram device can be made here ({error}): modprobe zram.") from None
    try:
        try:
            Path(f"/sys/block/zram{number}/disksize").write_text(str(size))
        except OSError as error:
            raise CapabilityMissing(
                f"zram{number} cannot be given {size:,} bytes: {errno_text(error.errno or 0)}."
            ) from None
        yield f"/dev/zram{number}"
    finally:
        with contextlib.suppress(OSError):
            (_CONTROL / "hot_remove").write_text(str(number))


@contextlib.contextmanager
def tmpfs_folder(needed: int) -> Iterator[Path]:
    """A new folder on tmpfs with room for ``needed`` bytes.

    Raises:
        CapabilityMissing: there is no tmpfs, or too little room on it.
    """
    if not _SHM.is_dir() or not os.access(_SHM, os.W_OK):
        raise CapabilityMissing(f"{_SHM} is not there or cannot be written: mount a tmpfs on it.")
    free = shutil.disk_usage(_SHM).free
    if free < 2 * needed:
        raise CapabilityMissing(f"{_SHM} has {free:,} bytes free, {2 * needed:,} are needed.")
    with tempfile.TemporaryDirectory(dir=_SHM, prefix="gpuio-crosscheck-") as folder:
        yield Path(folder)


@contextlib.contextmanager
def _huge_tmpfs_folder(needed: int) -> Iterator[Path]:
    """A new tmpfs in huge pages while it is used; where there is none, or no right to it, a :func:`tmpfs_folder`.

    What a request through a kernel thread costs beyond the thread's copy is told apart the better, the less that copy
    takes: in small pages it is a third slower, and varies with the place in memory of each.
    """
    with contextlib.ExitStack() as stack:
        folder = stack.enter_context(tmpfs_folder(needed))
        options = f"huge=always,size={2 * needed},mode=700"
        with contextlib.suppress(CapabilityMissing):
            if _run("mount", "-t", "tmpfs", "-o", options, "gpuio-crosscheck", str(folder)).returncode == 0:
                stack.callback(_unmount, str(folder))
        yield folder


@contextlib.contextmanager
def loop_over_tmpfs(size: int) -> Iterator[str]:
    """A new loop device over a fully written file in tmpfs, in huge pages and with direct I/O where it can be had.

    Raises:
        CapabilityMissing: not root, or loop devices cannot be had.
    """
    _need_root("a loop device")
    with _huge_tmpfs_folder(size) as folder:
        image = folder / "disk.img"
        piece = os.urandom(1 << 20)
        with image.open("xb") as file:
            for _ in range(size >> 20):
                file.write(piece)
        device = None
        try:
            for direct in ("on", "off"):
                made = _run("losetup", "--find", "--show", f"--direct-io={direct}", str(image))
                if made.returncode == 0:
                    device = made.stdout.strip()
                    break
            if device is None:
                raise CapabilityMissing(f"no loop device can be attached here: {made.stderr.strip()}.")
            yield device
        finally:
            if device is not None:
                _run("losetup", "--detach", device)


@contextlib.contextmanager
def ext4_on_loop(size: int) -> Iterator[Path]:
    """A new ext4 file system on a loop device over tmpfs, with room for a file of ``size`` bytes.

    Raises:
        CapabilityMissing: not root, or loop devices, mkfs.ext4 or mount cannot be had.
    """
    room = size + size // 4 + (64 << 20)
    with loop_over_tmpfs(room) as device, tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
        for command in (("mkfs.ext4", "-q", "-F", device), ("mount", device, folder)):
            made = _run(*command)
            if made.returncode != 0:
                raise CapabilityMissing(f"{command[0]} failed on {device}: {made.stderr.strip()}.")
        try:
            yield Path(folder)
        finally:
            _unmount(folder)


def _unmount(folder: str) -> None:
    """Take the file system away; what still holds it (a ring that the kernel clears up) gets a moment."""
    for _ in range(20):
        if _run("umount", folder).returncode == 0:
            return
        time.sleep(0.1)
    _run("umount", "--lazy", folder)


def _need_root(what: str) -> None:
    if os.geteuid() != 0:
        raise CapabilityMissing(f"needs root, to make {what}.")


def _run(*command: str) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "PATH": f"{os.environ.get('PATH', os.defpath)}:{_SBIN}"}
    try:
        return subprocess.run(
            command, capture_output=True, text=True, timeout=_DEADLINE_S, check=False, env=environment
        )
    except (OSError, subprocess.SubprocessError) as error:
        raise CapabilityMissing(f"{command[0]} cannot be run: {error}.") from None
