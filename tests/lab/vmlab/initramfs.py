"""The initial RAM disk: what the kernel needs to reach this machine's root, and nothing else."""

import gzip
import io
import lzma
import os
import subprocess
import tempfile
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import IO, Any

from vmlab import programs
from vmlab.errors import LabUnavailable
from vmlab.kernel import Kernel

GUEST = Path(__file__).parent / "guest"
#: Everything else is loaded from the real root.
MODULES = ("virtio_pci", "9pnet_virtio", "9p", "overlay")
_OPENERS: dict[str, Callable[[Path], IO[Any]]] = {".xz": lzma.open, ".gz": gzip.open}


def initial_disk(kernel: Kernel) -> Path:
    """The initial RAM disk of a kernel as a file beside it.

    Raises:
        LabUnavailable: the package lacks a module.
    """
    order: dict[str, Path] = {}
    try:
        for name in MODULES:
            for path in _modules(kernel, name):
                order[path.name.removesuffix(".xz").removesuffix(".gz")] = path
    except subprocess.SubprocessError as error:
        raise LabUnavailable(f"kernel {kernel.version} cannot reach this machine's files: {error}") from None
    folders = ("bin", "modules", "proc", "sys", "dev", "host", "upper", "new")
    entries: list[tuple[str, int, bytes]] = [(folder, 0o040755, b"") for folder in folders]
    entries += [
        ("bin/busybox", 0o100755, Path(programs.find("busybox") or "busybox").read_bytes()),
        ("init", 0o100755, (GUEST / "init").read_bytes()),
        ("order", 0o100644, "".join(f"{name}\n" for name in order).encode()),
    ]
    entries += [(f"modules/{name}", 0o100644, _read(path)) for name, path in order.items()]
    image = kernel.folder / "initial.gz"
    # Another run may be reading the old one.
    with tempfile.NamedTemporaryFile(dir=kernel.folder, delete=False) as file:
        file.write(gzip.compress(cpio(entries), 1))
    os.replace(file.name, image)  # noqa: PTH105 - a path of the temporary file's own making
    return image


def _modules(kernel: Kernel, name: str) -> list[Path]:
    """Files of a module and of what it depends on, in order of loading."""
    command = ("modprobe", "-C", "/dev/null", "-d", kernel.folder, "-S", kernel.version, "--show-depends", name)
    lines = programs.run(*command).splitlines()
    return [Path(line.split()[1]) for line in lines if line.startswith("insmod ")]


def _read(path: Path) -> bytes:
    with _OPENERS.get(path.suffix, lambda plain: plain.open("rb"))(path) as file:
        return bytes(file.read())


def cpio(entries: Iterable[tuple[str, int, bytes]]) -> bytes:
    """A cpio archive in the ``newc`` form of (name, mode, content)."""
    out = io.BytesIO()
    for number, (name, mode, content) in enumerate((*entries, ("TRAILER!!!", 0, b"")), 1):
        fields = (number, mode, 0, 0, 1, 0, len(content), 0, 0, 0, 0, len(name) + 1, 0)
        out.write(b"070701" + b"".join(b"%08x" % field for field in fields) + name.encode() + b"\0")
        out.write(b"\0" * (-out.tell() % 4) + content)
        out.write(b"\0" * (-out.tell() % 4))
    return out.getvalue()
