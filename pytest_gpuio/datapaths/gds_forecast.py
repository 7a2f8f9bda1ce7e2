"""Which route cuFile would take for files of a target, and what is in the way of a direct one: pure, from facts."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final, Literal

#: ``none``: cuFile does not take the files at all, or is not there.
ForecastRoute = Literal["direct_nvidia_fs", "direct_p2pdma", "compat", "none"]

#: Local file systems with a direct path; others bring their own support for nvidia-fs.
_LOCAL: Final = frozenset({"ext4", "xfs"})
_REMOTE: Final = frozenset({"nfs", "nfs4", "lustre", "beegfs", "gpfs", "wekafs"})


@dataclass(frozen=True, slots=True)
class Forecast:
    """What to expect; ``in_the_way`` are sentences about what is missing for a direct route, each with the remedy."""

    route: ForecastRoute
    because: str
    in_the_way: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class TargetFacts:
    """What the target is.

    Attributes:
        file_system: its type. mount_options: as mounted.
        devices: of each device under it the name, the transport, and whether udev's database knows what lies on it.
    """

    file_system: str
    mount_options: str
    devices: tuple[tuple[str, str | None, bool], ...]


def forecast(
    strict: Mapping[str, Any], compat: Mapping[str, Any], kernel: Mapping[str, Any], target: TargetFacts | None
) -> Forecast:
    """What cuFile would do.

    Args:
        strict: what a child found that opened the driver with falling back forbidden, see
            :func:`pytest_gpuio.measure.cufile.describe`.
        compat: the same with falling back allowed.
        kernel: of :class:`pytest_gpuio.machine.GpuStorage`.
        target: None = of the machine alone.
    """
    way = tuple(_in_the_way(strict, kernel, target))
    if strict["facts"] is not None and strict["takes_target"] is not False:
        properties = strict["facts"]["properties"]
        by_module = properties["nvfs_major"] or properties["nvfs_minor"] or properties["status_flags"]
        whose = "the driver opens" if target is None else "cuFile takes the target"
        return Forecast(
            "direct_nvidia_fs" if by_module else "direct_p2pdma",
            f"{whose} with falling back forbidden; nvidia-fs is {'in use' if by_module else 'not in use'}",
        )
    if compat["facts"] is not None and compat["takes_target"] is not False:
        return Forecast("compat", "cuFile opens only where copies through host memory are allowed", way)
    return Forecast("none", str(compat["reason"] or compat["target_reason"]), way)


def _in_the_way(strict: Mapping[str, Any], kernel: Mapping[str, Any], target: TargetFacts | None) -> Iterable[str]:
    if strict["reason"] or strict["target_reason"]:
        yield f"asked strictly, cuFile says: {strict['reason'] or strict['target_reason']}"
    if kernel["driver"] is None:
        yield "NVIDIA's kernel driver is not loaded: install it"
        return
    if kernel["nvidia_fs"] is None:
        yield "nvidia-fs is not loaded: install nvidia-gds (nvidia-fs-dkms) and modprobe nvidia-fs"
    yield from _p2pdma(kernel)
    if kernel["iommu"] == "translating":
        yield "the IOMMU translates traffic between devices: boot with iommu=pt, or switch it off"
    if target is not None:
        yield from _target(target)


def _p2pdma(kernel: Mapping[str, Any]) -> Iterable[str]:
    if kernel["p2pdma"] is False:
        yield "peer-to-peer DMA: the kernel is built without CONFIG_PCI_P2PDMA: use a distribution's kernel that has it"
    elif kernel["p2pdma"] is None:
        yield "peer-to-peer DMA: the kernel's configuration cannot be read (no /proc/config.gz, no /boot/config-*)"
    if kernel["driver_open"] is False:
        yield "peer-to-peer DMA: NVIDIA's proprietary kernel module is loaded: install the open one (nvidia-open)"
    if kernel["static_bar1"] is False:
        yield (
            "peer-to-peer DMA: BAR1 is not mapped as a whole: in modprobe.d, "
            'options nvidia NVreg_RegistryDwords="RMForceStaticBar1=1"'
        )


def _target(target: TargetFacts) -> Iterable[str]:
    kind = target.file_system
    if kind and kind not in _LOCAL and kind not in _REMOTE and kind != "block device":
        yield f"the file system is {kind}: direct paths exist for ext4 and XFS, and for some network file systems"
    if kind == "ext4" and "data=journal" in target.mount_options.split(","):
        yield "ext4 is mounted with data=journal: mount it with data=ordered"
    for name, transport, known in target.devices:
        if kind not in _REMOTE and not name.startswith("nvme"):
            yield f"{name} is {transport or 'no NVMe drive'}: direct paths of local disks need NVMe"
        if not known:
            yield (
                f"udev's database has no entry for {name}, without which cuFile takes no file on it, directly or not: "
                "run udevd, or mount the host's /run/udev"
            )
