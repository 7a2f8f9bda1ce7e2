"""Real block devices and mounts for tests that run as root; skipped with a reason elsewhere."""

import os
import shutil
import subprocess
import tempfile
from pathlib import Path

import pytest
from hypothesis import settings

# The same examples in every run of CI: a rare example is found by developers, not by a change that did not cause it.
settings.register_profile("ci", derandomize=True)
if os.environ.get("CI"):
    settings.load_profile("ci")


def need_root(*programs):
    """Skips unless this process may mount and attach loop devices with these programs."""
    if os.geteuid() != 0:
        pytest.skip("needs root: mounts and loop devices")
    for program in programs:
        if shutil.which(program, path=f"{os.environ.get('PATH', '')}:/usr/sbin:/sbin") is None:
            pytest.skip(f"needs {program}")


def run(*command):
    environment = dict(os.environ, PATH=f"{os.environ.get('PATH', '')}:/usr/sbin:/sbin")
    return subprocess.run(command, capture_output=True, text=True, timeout=60, check=False, env=environment)


@pytest.fixture
def loop_over_tmpfs():
    """Function: a loop device over a 16 MiB file in tmpfs with a sector size; detached and removed afterwards."""
    need_root("losetup")
    if not Path("/dev/loop-control").exists() or not Path("/dev/shm").is_dir():
        pytest.skip("needs loop devices and /dev/shm")
    devices = []
    with tempfile.TemporaryDirectory(dir="/dev/shm", prefix="gpuio-test-") as folder:

        def attach(sector: int, size: int = 16 << 20) -> str:
            image = Path(folder) / f"disk{len(devices)}.img"
            image.touch()
            os.truncate(image, size)
            attached = run("losetup", "--find", "--show", "--sector-size", str(sector), str(image))
            if attached.returncode:
                pytest.skip(f"no loop device can be attached here: {attached.stderr.strip()}")
            devices.append(attached.stdout.strip())
            return devices[-1]

        yield attach
        for device in devices:
            run("losetup", "--detach", device)


@pytest.fixture
def mounted(tmp_path):
    """Function: mounts a file system (type, source, options) on a new directory; unmounted afterwards."""
    need_root("mount", "umount")
    points = []

    def mount(kind: str, source: str = "none", options: str = "rw") -> Path:
        point = tmp_path / f"mount{len(points)}"
        point.mkdir()
        made = run("mount", "-t", kind, "-o", options, source, str(point))
        if made.returncode:
            pytest.skip(f"{kind} cannot be mounted here: {made.stderr.strip()}")
        points.append(point)
        return point

    yield mount
    for point in reversed(points):
        run("umount", str(point))
