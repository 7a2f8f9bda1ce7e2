"""What GPUDirect Storage needs of the kernel, as /proc and /sys show it; what cannot be read is None."""

from __future__ import annotations

import os
import re
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Literal

from pytest_gpuio.machine.kernel import configuration
from pytest_gpuio.machine.reading import read_text, value_of

#: ``off``; ``passthrough``: devices see physical addresses; ``translating``: peer-to-peer traffic goes up to the root.
Iommu = Literal["off", "passthrough", "translating"]


@dataclass(frozen=True, slots=True)
class NvidiaFs:
    """The kernel module nvidia-fs.

    Attributes:
        version: of the module, ``2.29.4``; None = it does not say.
        operations: reads, writes and batches since it was loaded; None = its statistics are off.
        shadow_mib: bounce buffers in use; None = it does not say.
    """

    version: str | None
    operations: int | None
    shadow_mib: int | None


@dataclass(frozen=True, slots=True)
class GpuStorage:
    """The kernel's side of direct storage.

    Attributes:
        driver: version of NVIDIA's kernel module; None = it is not loaded. driver_open: it is the open one.
        nvidia_fs: None = the module is not loaded.
        p2pdma: the kernel can do PCI peer-to-peer DMA (CONFIG_PCI_P2PDMA).
        static_bar1: the driver maps all of the GPU's memory, which P2PDMA needs (RMForceStaticBar1).
        iommu: what it does to traffic between devices.
        udev_database: udevd keeps one; without it cuFile takes no file on a block device.
        gpus: PCI addresses of the GPUs that NVIDIA's driver has.
    """

    driver: str | None
    driver_open: bool | None
    nvidia_fs: NvidiaFs | None
    p2pdma: bool | None
    static_bar1: bool | None
    iommu: Iommu | None
    udev_database: bool
    gpus: tuple[str, ...]

    def to_json(self) -> dict[str, Any]:
        """The facts by name."""
        return asdict(self)


def nvidia_fs(root: str | Path = "/") -> NvidiaFs | None:
    """The module's own word, from ``/proc/driver/nvidia-fs/stats``; None when it is not loaded."""
    root = Path(root)
    text = read_text(root / "proc/driver/nvidia-fs/stats")
    if text is None:
        return NvidiaFs(None, None, None) if (root / "proc/driver/nvidia-fs").is_dir() else None
    version = re.search(r"NVFS Driver\(version: ([\d.]+)\)", text)
    shadow = re.search(r"Active Shadow-Buffer \(Mi?B\): (\d+)", text)
    counts = re.findall(r"^(?:Reads|Writes|Batches)\s*: n=(\d+)", text, re.MULTILINE)
    enabled = re.search(r"^IO stats: Enabled", text, re.MULTILINE) is not None
    return NvidiaFs(
        version[1] if version else None,
        sum(map(int, counts)) if enabled and counts else None,
        int(shadow[1]) if shadow else None,
    )


def gpu_storage(root: str | Path = "/", release: str | None = None) -> GpuStorage:
    """Look at everything.

    Args:
        root: of /proc, /sys, /run and /boot.
        release: of the kernel, for its configuration; None = the running one's.
    """
    root = Path(root)
    driver = read_text(root / "proc/driver/nvidia/version")
    found = re.search(r"Kernel Module\s+(?:for \S+\s+)?([\d.]+)", driver or "")
    parameters = read_text(root / "proc/driver/nvidia/params")
    config = configuration(root, release or os.uname().release)
    return GpuStorage(
        driver=found[1] if found else None,
        driver_open=None if driver is None else "Open Kernel Module" in driver,
        nvidia_fs=nvidia_fs(root),
        p2pdma=None if config is None else "CONFIG_PCI_P2PDMA=y" in config.splitlines(),
        static_bar1=_static_bar1(parameters),
        iommu=_iommu(root),
        udev_database=(root / "run/udev/data").is_dir(),
        gpus=_gpus(root),
    )


def udev_knows(dev: str, root: str | Path = "/") -> bool:
    """Whether udev's database says what lies on a block device: what cuFile asks before it takes a file there.

    Args:
        dev: ``major:minor``.
        root: of /run.
    """
    text = read_text(Path(root, "run/udev/data") / f"b{dev}")
    return text is not None and re.search(r"^E:ID_FS_(?:USAGE|TYPE)=", text, re.MULTILINE) is not None


def _static_bar1(parameters: str | None) -> bool | None:
    if parameters is None:
        return None
    return re.search(r"RMForceStaticBar1\s*=\s*1", value_of(parameters, "RegistryDwords") or "") is not None


def _iommu(root: Path) -> Iommu | None:
    units = root / "sys/class/iommu"
    if not units.is_dir():
        return None if not (root / "sys/class").is_dir() else "off"
    if not any(units.iterdir()):
        return "off"
    kinds = {read_text(file) for file in (root / "sys/kernel/iommu_groups").glob("*/type")}
    return "passthrough" if kinds == {"identity"} else "translating"


def _gpus(root: Path) -> tuple[str, ...]:
    folder = root / "proc/driver/nvidia/gpus"
    return tuple(sorted(entry.name for entry in folder.iterdir())) if folder.is_dir() else ()
