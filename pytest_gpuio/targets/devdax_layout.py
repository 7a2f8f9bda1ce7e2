"""Laying out a devdax device, which only maps reach: our header, then the pattern, stored past the CPU's caches."""

from __future__ import annotations

import mmap
from collections.abc import Sequence

from pytest_gpuio import engine
from pytest_gpuio.core.errors import TargetError
from pytest_gpuio.targets.devdax_map import devdax_geometry, devdax_map
from pytest_gpuio.targets.geometry import round_up
from pytest_gpuio.targets.header import HEADER_BYTES
from pytest_gpuio.targets.layout import Progress, Stop, TargetFile
from pytest_gpuio.targets.raw_device import FORCE_OPTION, RawDevice, check_allowed, check_unused, claimed
from pytest_gpuio.targets.raw_layout import (
    Announce,
    FoundContent,
    check_readable,
    check_room,
    data_region,
    header_in,
    intact,
    write_layout,
    zero_share,
)
from pytest_gpuio.targets.signatures import EDGE_BYTES, recognize


def lay_out_devdax(
    device: RawDevice,
    data_bytes: int,
    *,
    allowed: Sequence[str],
    force: bool = False,
    announce: Announce | None = None,
    progress: Progress | None = None,
    stop: Stop | None = None,
) -> TargetFile:
    """As :func:`~pytest_gpuio.targets.device_layout.lay_out_device`, by stores to a map of the device.

    Args:
        device: a devdax device.
        data_bytes: wanted length of the data region; rounded up to :data:`DATA_MULTIPLE`.
        allowed: values of ``--gpuio-allow-destroy``.
        force: overwrite although signatures of a former use are there.
        announce: gets one sentence about what is overwritten, before that.
        progress: called with bytes done and bytes in all, after every piece.
        stop: asked before every piece; true ends the work.

    Raises:
        ConfigError: the device is smaller than what is asked for.
        TargetError: not allowed, in use, signed without ``force``, or it cannot be mapped.
        LayoutStopped: ``stop`` said so.
        Busy: another run of ours holds it.
    """
    wanted = data_region(data_bytes)
    check_allowed(device, allowed)
    check_unused(device, force=force)
    size, align = devdax_geometry(device)
    check_room(device, size, wanted)
    with claimed(device), devdax_map(device, round_up(HEADER_BYTES + wanted, align), writable=True) as memory:
        space = _Mapped(device, memory)
        head = memory[:EDGE_BYTES]
        header = header_in(head, device.node)
        ours = intact(space, header, data_bytes, wanted)
        if ours is not None:
            return ours
        content = recognize(head, b"", size)
        if content.signature and header is None and not force:
            raise TargetError(
                f"{device} carries {content.signature}, so somebody may need it; if nothing on it is needed, add "
                f"{FORCE_OPTION}, or name another --gpuio-target."
            )
        if announce is not None:
            what = "an older layout of ours" if header is not None else content.signature or content.other or "zeros"
            announce(
                f"overwriting the first {HEADER_BYTES + wanted:,} of {size:,} bytes of {device}, which held {what}"
            )
        return write_layout(space, wanted, progress, stop)


def look_at_devdax(device: RawDevice, data_bytes: int) -> FoundContent:
    """A devdax device for cells that only read: nothing is written, so no permission is needed.

    Args:
        device: a devdax device.
        data_bytes: wanted length of the region; rounded up to :data:`DATA_MULTIPLE`.

    Raises:
        ConfigError: the device is smaller than what is asked for.
        TargetError: it cannot be mapped.
    """
    wanted = data_region(data_bytes)
    size, align = devdax_geometry(device)
    check_readable(device, size, wanted)
    with devdax_map(device, round_up(wanted, align), writable=False) as memory:
        zeros = zero_share(_Mapped(device, memory), wanted)
    return FoundContent(device.node, 0, wanted, zeros, used=False)


class _Mapped:
    """A devdax device in memory. No system call flushes it, so all is stored past the CPU's caches."""

    def __init__(self, device: RawDevice, memory: mmap.mmap) -> None:
        self.path = device.node
        self._device = device
        self._memory = memory

    def __str__(self) -> str:
        return str(self._device)

    def read(self, length: int, offset: int) -> bytes:
        return self._memory[offset : offset + length]

    def write(self, content: memoryview, offset: int) -> None:
        engine.persist(self._memory, offset, content)

    def flush(self) -> None:
        pass
