"""Laying out a devdax device, which only maps reach: our header, then the pattern, stored past the CPU's caches."""

from __future__ import annotations

import mmap
import os
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Final

from pytest_gpuio import engine
from pytest_gpuio.core.errors import ConfigError, TargetError
from pytest_gpuio.core.sizes import describe_size
from pytest_gpuio.targets.devdax_map import devdax_geometry, devdax_map
from pytest_gpuio.targets.device_layout import Announce, FoundContent, sampled
from pytest_gpuio.targets.geometry import round_up
from pytest_gpuio.targets.header import HEADER_BYTES, HEADER_RECORD, Header, decode
from pytest_gpuio.targets.layout import DATA_MULTIPLE, LayoutStopped, Progress, Stop, TargetFile
from pytest_gpuio.targets.raw_device import FORCE_OPTION, RawDevice, check_allowed, check_unused, claimed
from pytest_gpuio.targets.signatures import EDGE_BYTES, recognize

_PIECE: Final = 8 << 20


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
    if data_bytes <= 0:
        raise ConfigError(f"a target of {data_bytes} bytes: the size must be above zero (--gpuio-size).")
    check_allowed(device, allowed)
    check_unused(device, force=force)
    wanted = round_up(data_bytes, DATA_MULTIPLE)
    size, align = devdax_geometry(device)
    if HEADER_BYTES + wanted > size:
        most = max(size - HEADER_BYTES, 0) // DATA_MULTIPLE * DATA_MULTIPLE
        raise ConfigError(
            f"{device} has {size:,} bytes, and {describe_size(wanted)} of data with a header need "
            f"{HEADER_BYTES + wanted:,}: use --gpuio-size={most >> 10}K or less."
        )
    with claimed(device), devdax_map(device, round_up(HEADER_BYTES + wanted, align), writable=True) as memory:
        head = memory[:EDGE_BYTES]
        header = _header(head, device)
        fits = header is not None and header.state == "complete" and header.data_bytes >= data_bytes
        if header is not None and fits and _unchanged(memory, header, wanted):
            return TargetFile(device.node, HEADER_BYTES, wanted, header.pattern_seed, reused=True)
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
        return _write(device, memory, wanted, progress, stop)


def look_at_devdax(device: RawDevice, data_bytes: int) -> FoundContent:
    """A devdax device for cells that only read: nothing is written, so no permission is needed.

    Args:
        device: a devdax device.
        data_bytes: wanted length of the region; rounded up to :data:`DATA_MULTIPLE`.

    Raises:
        ConfigError: the device is smaller than what is asked for.
        TargetError: it cannot be mapped.
    """
    size, align = devdax_geometry(device)
    wanted = round_up(data_bytes, DATA_MULTIPLE)
    if not 0 < wanted <= size:
        raise ConfigError(f"{device} has {size:,} bytes, and {wanted:,} are to be read: use a --gpuio-size that fits.")
    with devdax_map(device, round_up(wanted, align), writable=False) as memory:
        places = sampled(wanted // DATA_MULTIPLE)
        zeros = sum(not any(memory[at * DATA_MULTIPLE : (at + 1) * DATA_MULTIPLE]) for at in places)
    return FoundContent(device.node, 0, wanted, zeros / len(places), used=False)


def _header(head: bytes, device: RawDevice) -> Header | None:
    try:
        return decode(head[:HEADER_RECORD], device.node)
    except TargetError:  # damaged: nothing proves what follows it, and overwriting was allowed
        return None


def _unchanged(memory: mmap.mmap, header: Header, length: int) -> bool:
    for place in sampled(length // DATA_MULTIPLE):
        offset = HEADER_BYTES + place * DATA_MULTIPLE
        if engine.pattern_check(memory[offset : offset + DATA_MULTIPLE], offset, header.pattern_seed)[0]:
            return False
    return True


# No system call flushes a devdax device, so all is stored past the CPU's caches.
def _write(
    device: RawDevice, memory: mmap.mmap, wanted: int, progress: Progress | None, stop: Stop | None
) -> TargetFile:
    seed = int.from_bytes(os.urandom(6), "big")
    created = datetime.now(UTC).isoformat(timespec="seconds")
    engine.persist(memory, 0, Header("laying_out", wanted, seed, created).encode().ljust(HEADER_BYTES, b"\0"))
    piece, done = bytearray(_PIECE), 0
    while done < wanted:
        if stop is not None and stop():
            raise LayoutStopped(
                f"laying out {device} was stopped after {done:,} of {wanted:,} bytes: what it held there is gone, and "
                "the next run begins anew."
            )
        size = min(_PIECE, wanted - done)
        with memoryview(piece) as whole, whole[:size] as part:
            engine.pattern_fill(part, HEADER_BYTES + done, seed)
            engine.persist(memory, HEADER_BYTES + done, part)
        done += size
        if progress is not None:
            progress(done, wanted)
    engine.persist(memory, 0, Header("complete", wanted, seed, created).encode())
    return TargetFile(device.node, HEADER_BYTES, wanted, seed, reused=False)
