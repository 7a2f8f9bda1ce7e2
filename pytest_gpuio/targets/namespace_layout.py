"""Laying out a namespace that SPDK drives, or looking at it as it is."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from datetime import UTC, datetime
from os import urandom
from typing import Final

from pytest_gpuio import engine
from pytest_gpuio.core.errors import ConfigError, EngineError, TargetError
from pytest_gpuio.core.sizes import describe_size
from pytest_gpuio.core.spdk_address import PREFIX, SpdkAddress, spdk_address
from pytest_gpuio.targets.device_layout import Announce, FoundContent, sampled
from pytest_gpuio.targets.geometry import round_up
from pytest_gpuio.targets.header import HEADER_BYTES, HEADER_RECORD, Header, decode
from pytest_gpuio.targets.layout import DATA_MULTIPLE, LayoutStopped, Progress, Stop, TargetFile
from pytest_gpuio.targets.raw_device import ALLOW_OPTION, FORCE_OPTION
from pytest_gpuio.targets.signatures import EDGE_BYTES, recognize

_PIECE: Final = 8 << 20
_SAMPLE_BYTES: Final = DATA_MULTIPLE


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
    address, size = namespace.address, namespace.info.bytes
    may_write = namespace_is_allowed(address, allowed)
    if writes and not may_write:
        raise TargetError(
            f"{address} is a raw namespace, and measuring overwrites what it holds: if nothing on it is needed, add "
            f"{ALLOW_OPTION}={address}, or name another --gpuio-target."
        )
    wanted = round_up(data_bytes, DATA_MULTIPLE)
    first = HEADER_BYTES if may_write else 0
    if first + wanted > size:
        most = max(size - HEADER_BYTES, 0) // DATA_MULTIPLE * DATA_MULTIPLE
        raise ConfigError(
            f"{address} has {size:,} bytes, and {describe_size(first + wanted)} are needed: use "
            f"--gpuio-size={most >> 10}K or less."
        )
    try:
        head = bytes(namespace.read(min(EDGE_BYTES, size), 0))
        header = None
        with suppress(TargetError):  # damaged: nothing proves what follows it
            header = decode(head[:HEADER_RECORD], str(address))
        fits = header is not None and header.state == "complete" and header.data_bytes >= data_bytes
        if header is not None and fits and _unchanged(namespace, header):
            return TargetFile(str(address), HEADER_BYTES, header.data_bytes, header.pattern_seed, reused=True)
        if not may_write:
            return FoundContent(str(address), 0, wanted, _zero_share(namespace, wanted), used=False)
        _check_content(namespace, head, ours=header is not None, force=force)
        if announce is not None:
            announce(f"overwriting the first {HEADER_BYTES + wanted:,} of {size:,} bytes of {address}")
        return _write(namespace, wanted, progress, stop)
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


def _unchanged(namespace: engine.SpdkNamespace, header: Header) -> bool:
    for place in sampled(header.data_bytes // _SAMPLE_BYTES):
        offset = HEADER_BYTES + place * _SAMPLE_BYTES
        if offset + _SAMPLE_BYTES > namespace.info.bytes:
            return False
        bad, _ = engine.pattern_check(namespace.read(_SAMPLE_BYTES, offset), offset, header.pattern_seed)
        if bad:
            return False
    return True


def _zero_share(namespace: engine.SpdkNamespace, length: int) -> float:
    chosen = sampled(length // _SAMPLE_BYTES)
    return sum(not any(namespace.read(_SAMPLE_BYTES, place * _SAMPLE_BYTES)) for place in chosen) / len(chosen)


def _write(namespace: engine.SpdkNamespace, wanted: int, progress: Progress | None, stop: Stop | None) -> TargetFile:
    seed = int.from_bytes(urandom(6), "big")
    created = datetime.now(UTC).isoformat(timespec="seconds")
    namespace.write(Header("laying_out", wanted, seed, created).encode().ljust(HEADER_BYTES, b"\0"), 0)
    namespace.flush()
    done = 0
    while done < wanted:
        if stop is not None and stop():
            raise LayoutStopped(
                f"laying out {namespace.address} was stopped after {done:,} of {wanted:,} bytes: what it held there is "
                "gone, and the next run begins anew."
            )
        piece = bytearray(min(_PIECE, wanted - done))
        engine.pattern_fill(piece, HEADER_BYTES + done, seed)
        namespace.write(piece, HEADER_BYTES + done)
        done += len(piece)
        if progress is not None:
            progress(done, wanted)
    namespace.flush()
    namespace.write(Header("complete", wanted, seed, created).encode(), 0)
    namespace.flush()
    return TargetFile(str(namespace.address), HEADER_BYTES, wanted, seed, reused=False)
