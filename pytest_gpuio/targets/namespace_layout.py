"""Laying out a namespace that SPDK drives, or looking at it as it is."""

from __future__ import annotations

from collections.abc import Sequence

from pytest_gpuio import engine
from pytest_gpuio.core.errors import EngineError, TargetError
from pytest_gpuio.core.spdk_address import PREFIX, SpdkAddress, spdk_address
from pytest_gpuio.targets.header import HEADER_BYTES
from pytest_gpuio.targets.layout import Progress, Stop, TargetFile
from pytest_gpuio.targets.raw_device import ALLOW_OPTION, FORCE_OPTION
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


def namespace_is_allowed(address: SpdkAddress, allowed: Sequence[str]) -> bool:
    """Whether the user gave up exactly this namespace: its whole address, the first one's number may be missing."""
    return any(spdk_address(name) == address for name in allowed if name.startswith(PREFIX))


def lay_out_namespace(
    namespace: engine.SpdkNamespace,
    data_bytes: int,
    *,
    writes: bool,
    allowed: Sequence[str],
    force: bool = False,
    announce: Announce | None = None,
    progress: Progress | None = None,
    stop: Stop | None = None,
) -> TargetFile | FoundContent:
    """Our header and pattern on a namespace that was given up; else, for cells that only read, what is there.

    Args:
        namespace: attached.
        data_bytes: wanted length of the data region; rounded up to :data:`DATA_MULTIPLE`.
        writes: cells will write.
        allowed: values of ``--gpuio-allow-destroy``.
        force: overwrite although signatures of a former use are there.
        announce: gets one sentence about what is overwritten, before that.
        progress: called with bytes done and bytes in all.
        stop: asked before every piece; true ends the work.

    Raises:
        ConfigError: the namespace is smaller than what is asked for.
        TargetError: not allowed, signed without ``force``, or a command failed.
        LayoutStopped: ``stop`` said so.
    """
    address, size, wanted = namespace.address, namespace.info.bytes, data_region(data_bytes)
    may_write = namespace_is_allowed(address, allowed)
    if writes and not may_write:
        raise TargetError(
            f"{address} is a raw namespace, and measuring overwrites what it holds: if nothing on it is needed, add "
            f"{ALLOW_OPTION}={address}, or name another --gpuio-target."
        )
    check = check_room if may_write else check_readable
    check(address, size, wanted)
    space = _Commanded(namespace)
    try:
        head = bytes(namespace.read(min(EDGE_BYTES, size), 0))
        header = header_in(head, str(address))
        ours = intact(space, header, data_bytes)
        if ours is not None:
            return ours
        if not may_write:
            return FoundContent(str(address), 0, wanted, zero_share(space, wanted), used=False)
        _check_content(namespace, head, ours=header is not None, force=force)
        if announce is not None:
            announce(f"overwriting the first {HEADER_BYTES + wanted:,} of {size:,} bytes of {address}")
        return write_layout(space, wanted, progress, stop)
    except EngineError as error:
        raise TargetError(f"{address}: {error}") from error


def _check_content(namespace: engine.SpdkNamespace, head: bytes, *, ours: bool, force: bool) -> None:
    size = namespace.info.bytes
    length = min(EDGE_BYTES, size)
    content = recognize(head, bytes(namespace.read(length, size - length)), size)
    remnant = ours and content.partitions and not content.member
    if content.signature and not remnant and not force:
        raise TargetError(
            f"{namespace.address} carries {content.signature}, so somebody may need it: if not, add "
            f"{FORCE_OPTION}, or name another --gpuio-target."
        )


class _Commanded:
    """A namespace by SPDK's commands."""

    def __init__(self, namespace: engine.SpdkNamespace) -> None:
        self.path = str(namespace.address)
        self._namespace = namespace

    def __str__(self) -> str:
        return self.path

    def read(self, length: int, offset: int) -> bytearray:
        there = min(length, self._namespace.info.bytes - offset)
        return self._namespace.read(there, offset) if there > 0 else bytearray()

    def write(self, content: memoryview, offset: int) -> None:
        self._namespace.write(content, offset)

    def flush(self) -> None:
        self._namespace.flush()
