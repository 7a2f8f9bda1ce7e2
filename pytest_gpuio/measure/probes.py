"""Child side: the real probe behind each capability name."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Final

from pytest_gpuio import engine
from pytest_gpuio.core.errors import GpuioError, errno_text
from pytest_gpuio.core.spdk_address import spdk_address
from pytest_gpuio.datapaths.base import CuFileMode
from pytest_gpuio.measure import cufile
from pytest_gpuio.measure.frameworks import FRAMEWORKS
from pytest_gpuio.measure.libraries.kvikio import import_kvikio
from pytest_gpuio.measure.libraries.nixl import check_plugin
from pytest_gpuio.media import MEMORY_FILE_SYSTEMS, classify, top_device
from pytest_gpuio.targets import raw_device, refuses_dax, refuses_direct, refuses_namespace


def run(name: str, target: str | None) -> str | None:
    """None when the capability is there, else one sentence with the remedy.

    Args:
        name: of the capability.
        target: directory, file or device, for capabilities of a target.
    """
    try:
        if name in _OF_TARGET:
            return _OF_TARGET[name](target or ".")
        if name in _OF_MACHINE:
            _OF_MACHINE[name]()
            return None
        return engine.probe(name)
    except GpuioError as error:
        return str(error)


def _try_cufile(mode: CuFileMode, target: str) -> str | None:
    try:
        cufile.try_target(mode, target)
    except OSError as error:
        return f"no file can be opened with O_DIRECT in {target} to try it: {errno_text(error.errno or 0)}"
    return None


def _io_poll(target: str) -> str | None:
    medium = classify(target)
    if not medium.devices:
        return (
            f"no block device with poll queues lies under {target} ({medium.name}, {medium.file_system or 'unknown'})"
        )
    without = [device.name for device in medium.devices if not device.io_poll]
    if not without:
        return _unpolled_top(target, [device.name for device in medium.devices])
    nvme = all(name.startswith("nvme") for name in without)
    remedy = (
        "boot with nvme.poll_queues=N, or reload the driver: modprobe -r nvme; modprobe nvme poll_queues=N"
        if nvme
        else "only drivers with poll queues (nvme, null_blk, virtio_blk with num_poll_queues) can be polled"
    )
    return f"{', '.join(without)}: queue/io_poll is 0, so completions would come by interrupt; {remedy}"


def _unpolled_top(target: str, below: Sequence[str]) -> str | None:
    """The sentence for a device that requests enter by (md, loop) and that does not pass polling on."""
    top = top_device(target)
    if top is None or top.io_poll is not False:
        return None
    return (
        f"{top.name} does not pass polling on (queue/io_poll is 0), though {', '.join(below)} below it could be "
        "polled: measure that, or stack with device mapper, which does pass it on"
    )


def _cold_cache(target: str) -> str | None:
    kind = classify(target).file_system
    if kind not in MEMORY_FILE_SYSTEMS:
        return None
    return f"the page cache of {kind} is where its files lie and cannot be emptied: use --gpuio-cache=hot"


def _nvme_passthrough(target: str) -> str | None:
    device = raw_device(target)
    if device is not None and device.generic:
        return None
    return f"{target} is not an NVMe generic device: passthrough commands need /dev/ngXnY as target"


def _spdk_target(target: str) -> str | None:
    address = spdk_address(target)
    if address is not None:
        return refuses_namespace(address)
    return (
        f"{target} is the kernel's: SPDK drives raw namespaces, named --gpuio-target=NAME=spdk:pci:0000:01:00.0 or "
        "spdk:tcp:ADDRESS:PORT:NQN"
    )


def _usrbio_target(target: str) -> str | None:
    if spdk_address(target) is not None:
        return f"{target} is driven from user space: usrbio needs a folder or file below a mount of 3FS"
    path = Path(target).absolute()
    while not path.exists():
        path = path.parent
    engine.accepts_usrbio(path)
    return None


def _page_cache(target: str) -> str | None:
    if spdk_address(target) is not None or refuses_dax(target) is not None:
        return None
    return f"{target} is persistent memory, mapped as it is, without page cache: use --gpuio-datapath=dax"


def _file_io(target: str) -> str | None:
    if spdk_address(target) is not None:
        return f"{target} is driven from user space: use --gpuio-datapath=spdk, or the kernel's device as target"
    device = raw_device(target)
    if device is not None and device.devdax:
        return f"{target} is reached by maps only: use --gpuio-datapath=dax"
    if device is None or not device.generic:
        return None
    return (
        f"{target} takes NVMe commands only: use --gpuio-datapath=io_uring_cmd, or the namespace's block device "
        f"({device.block_path}) as --gpuio-target"
    )


#: Raise an error whose text is the reason.
_OF_MACHINE: Final[Mapping[str, Callable[[], object]]] = {
    "engine": engine.engine_names,
    "cuda": engine.gpu_count,
    "cufile": partial(cufile.opened, "compat"),
    "gds": partial(cufile.opened, "strict"),
    "kvikio": import_kvikio,
    "torch": FRAMEWORKS["torch_dcp"],
    "safetensors": FRAMEWORKS["safetensors"],
    "nixl_posix": partial(check_plugin, "nixl_posix"),
    "nixl_gds": partial(check_plugin, "nixl_gds"),
    "nixl_gds_mt": partial(check_plugin, "nixl_gds_mt"),
}
_OF_TARGET: Final[Mapping[str, Callable[[str], str | None]]] = {
    "cufile_target": partial(_try_cufile, "compat"),
    "gds_target": partial(_try_cufile, "strict"),
    "o_direct": refuses_direct,
    "cold_cache": _cold_cache,
    "dax": refuses_dax,
    "file_io": _file_io,
    "io_poll": _io_poll,
    "nvme_passthrough": _nvme_passthrough,
    "page_cache": _page_cache,
    "spdk_target": _spdk_target,
    "usrbio_target": _usrbio_target,
}
