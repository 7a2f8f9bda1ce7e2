"""A lab: the distribution's kernel under QEMU over this machine's own userland, with emulated disks."""

import contextlib
import gzip
import io
import lzma
import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest

GUEST = Path(__file__).parent / "guest"
PROGRAMS = ("qemu-system-x86_64", "busybox", "apt-get", "apt-cache", "dpkg", "modprobe", "depmod")
#: What the initial RAM disk needs to reach the host's root; everything else is loaded from there.
MODULES = ("virtio_pci", "9pnet_virtio", "9p", "overlay")
#: Emulation of several CPUs is not perfect: a boot in some thirty ends in an oops before anything of ours began.
BOOTS = 3
BOOT_S = 1200


def run(*command, cwd=None):
    environment = dict(os.environ, PATH=f"{os.environ['PATH']}:/usr/sbin:/sbin")
    return subprocess.run(command, cwd=cwd, capture_output=True, check=True, text=True, timeout=300, env=environment)


@pytest.fixture(scope="session")
def kernel(tmp_path_factory):
    """Folder with ``boot/`` and ``lib/modules/`` of the newest kernel that apt offers."""
    for program in PROGRAMS:
        if shutil.which(program, path=f"{os.environ['PATH']}:/usr/sbin:/sbin") is None:
            pytest.skip(f"needs {program} (apt-get install qemu-system-x86 busybox-static kmod)")
    folder = tmp_path_factory.mktemp("kernel")
    try:
        told = run("apt-cache", "depends", "linux-image-amd64").stdout
        (package,) = re.findall(r"Depends: (linux-image-\d\S*)", told)[:1]
        # As root: apt's own user may not write into this folder.
        run("apt-get", "-q", "-o", "APT::Sandbox::User=root", "download", package, cwd=folder)
    except (subprocess.CalledProcessError, ValueError) as error:
        pytest.skip(f"apt has no kernel package: {getattr(error, 'stderr', error)}")
    (archive,) = folder.glob("*.deb")
    run("dpkg", "-x", str(archive), str(folder))
    archive.unlink()
    (version,) = [path.name for path in (folder / "lib/modules").iterdir()]
    run("depmod", "-b", str(folder), version)
    return folder


def _module(path):
    opener = {".xz": lzma.open, ".gz": gzip.open}.get(path.suffix, open)
    with opener(path, "rb") as file:
        return file.read()


def _archive(entries):
    """A cpio archive in the ``newc`` form of (name, mode, content)."""
    out = io.BytesIO()
    for number, (name, mode, content) in enumerate((*entries, ("TRAILER!!!", 0, b"")), 1):
        fields = (number, mode, 0, 0, 1, 0, len(content), 0, 0, 0, 0, len(name) + 1, 0)
        out.write(b"070701" + b"".join(b"%08x" % field for field in fields) + name.encode() + b"\0")
        out.write(b"\0" * (-out.tell() % 4) + content)
        out.write(b"\0" * (-out.tell() % 4))
    return out.getvalue()


@pytest.fixture(scope="session")
def initial_disk(kernel):
    """The initial RAM disk, as a file."""
    (version,) = [path.name for path in (kernel / "lib/modules").iterdir()]
    order = {}
    for name in MODULES:
        told = run("modprobe", "-C", "/dev/null", "-d", str(kernel), "-S", version, "--show-depends", name).stdout
        for line in told.splitlines():
            if line.startswith("insmod "):
                path = Path(line.split()[1])
                order[path.name.removesuffix(".xz").removesuffix(".gz")] = path
    folders = ("bin", "modules", "proc", "sys", "dev", "host", "upper", "new")
    entries = [(folder, 0o040755, b"") for folder in folders]
    entries += [
        ("bin/busybox", 0o100755, Path(shutil.which("busybox")).read_bytes()),
        ("init", 0o100755, (GUEST / "init").read_bytes()),
        ("order", 0o100644, "".join(f"{name}\n" for name in order).encode()),
        *((f"modules/{name}", 0o100644, _module(path)) for name, path in order.items()),
    ]
    image = kernel / "initial.gz"
    image.write_bytes(gzip.compress(_archive(entries), 1))
    return image


@pytest.fixture(scope="session")
def boot(kernel, initial_disk, tmp_path_factory):
    """Function: boots with extra QEMU options, runs a shell script as root; returns the folder it saw as ``/lab``."""

    def start(job, *devices):
        share = tmp_path_factory.mktemp("lab")
        (share / "job").write_text(job)
        shutil.copy(GUEST / "second", share / "second")
        # The guest sees this machine's files under their own names.
        (share / "kernel").write_text(f"{kernel}\n")
        (image,) = (kernel / "boot").glob("vmlinuz-*")
        shares = []
        for tag, path, more in (("root", "/", ",readonly=on,multidevs=remap"), ("lab", share, "")):
            shares += ["-fsdev", f"local,id={tag},path={path},security_model=none{more}"]
            shares += ["-device", f"virtio-9p-pci,fsdev={tag},mount_tag={tag}"]
        command = [
            "qemu-system-x86_64", "-accel", "tcg,thread=multi", "-cpu", "max", "-smp", "2", "-m", "4G",
            "-M", "q35,smm=off", "-nodefaults", "-no-user-config", "-nographic", "-no-reboot",
            "-serial", f"file:{share}/console.log", "-kernel", str(image), "-initrd", str(initial_disk),
            "-append", "console=ttyS0 quiet panic=-1 tsc=reliable no_timer_check mitigations=off nopti",
            *shares, *devices,
        ]  # fmt: skip
        for _ in range(BOOTS):
            with contextlib.suppress(subprocess.TimeoutExpired):
                subprocess.run(command, capture_output=True, timeout=BOOT_S, check=False)
            if (share / "status").exists():
                return share
        console = (share / "console.log").read_text(errors="replace")[-2000:]
        log = share / "job.log"
        pytest.fail(f"no boot ended its job; console: {console}; job: {log.read_text() if log.exists() else 'none'}")

    return start
