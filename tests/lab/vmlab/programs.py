"""Programs of the host that the lab stands on."""

import os
import shutil
import subprocess
from pathlib import Path

from vmlab.errors import LabUnavailable

#: program -> Debian package.
NEEDED = {
    "qemu-system-x86_64": "qemu-system-x86",
    "busybox": "busybox-static",
    "apt-get": "apt",
    "apt-cache": "apt",
    "dpkg": "dpkg",
    "modprobe": "kmod",
    "depmod": "kmod",
    # What the guest builds its devices with.
    "dmsetup": "dmsetup",
    "ip": "iproute2",
    "mkfs.ext4": "e2fsprogs",
    "mkfs.xfs": "xfsprogs",
}
_PATH = f"{os.environ.get('PATH', '')}:/usr/sbin:/sbin"


def find(program: str) -> str | None:
    """Path of a program, system administration's folders included."""
    return shutil.which(program, path=_PATH)


def check() -> None:
    """Raises:
    LabUnavailable: programs are missing; the text names the packages.
    """
    missing = {package for program, package in NEEDED.items() if find(program) is None}
    if missing:
        raise LabUnavailable(f"the lab needs {', '.join(sorted(missing))}: apt-get install {' '.join(sorted(missing))}")


def run(*command: str | Path, cwd: Path | None = None, timeout_s: float = 600) -> str:
    """What a command says on stdout.

    Raises:
        subprocess.CalledProcessError, subprocess.TimeoutExpired: as subprocess.run.
    """
    environment = dict(os.environ, PATH=_PATH, LC_ALL="C")
    told = subprocess.run(
        [str(word) for word in command],
        cwd=cwd,
        capture_output=True,
        check=True,
        text=True,
        timeout=timeout_s,
        env=environment,
        stdin=subprocess.DEVNULL,
    )
    return told.stdout
