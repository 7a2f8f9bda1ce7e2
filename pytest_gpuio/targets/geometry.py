"""Refusing a cell whose geometry cannot work, before any I/O and with the numbers."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Final

from pytest_gpuio.core.errors import ConfigError
from pytest_gpuio.core.sizes import describe_size, format_size
from pytest_gpuio.machine.kernel import memory_bytes
from pytest_gpuio.machine.reading import read_int
from pytest_gpuio.targets.alignment import Alignment

MAX_JOBS: Final = 4096
MAX_DEPTH: Final = 65536
#: Linux moves at most this many bytes in one request (MAX_RW_COUNT of 4 KiB pages) and ends the rest as a short I/O.
MAX_BLOCK: Final = 0x7FFFF000
# The engine gives every request a slot of whole pages.
_SLOT: Final = 4096


def check_geometry(
    path: str | os.PathLike[str],
    *,
    block: int,
    depth: int,
    jobs: int,
    region_offset: int,
    region_bytes: int,
    direct: bool,
    alignment: Alignment | None,
    aio: bool = False,
    root: str = "/",
) -> None:
    """Refuses a geometry that cannot work on this file or machine.

    Args:
        path: the target, for messages.
        block: bytes per request.
        depth: requests in flight per job.
        jobs: worker threads.
        region_offset: first byte of the region in the file.
        region_bytes: length of the region.
        direct: O_DIRECT is used, so ``alignment`` holds.
        alignment: of the file; None = unknown, nothing is demanded.
        aio: the data path takes its requests from ``fs.aio-max-nr`` (libaio).
        root: folder that holds ``proc``.

    Raises:
        ConfigError: says which number is wrong, why, and what to use instead.
    """
    _check_ranges(block, depth, jobs, region_offset, region_bytes)
    if direct and alignment is not None and alignment.offset > 0:
        _check_alignment(os.fspath(path), block, region_offset, alignment)
    _check_region(block, depth, jobs, region_bytes)
    _check_memory(block, depth, jobs, Path(root))
    if aio:
        _check_aio(depth, jobs, Path(root))


def round_up(value: int, multiple: int) -> int:
    """The smallest multiple that is not below ``value``."""
    return -(-value // multiple) * multiple


def _check_ranges(block: int, depth: int, jobs: int, region_offset: int, region_bytes: int) -> None:
    for name, value in (("block size", block), ("region", region_bytes)):
        if value <= 0:
            raise ConfigError(f"{name} of {value} bytes: it must be above zero.")
    for name, value, most in (("queue depth", depth, MAX_DEPTH), ("jobs", jobs, MAX_JOBS)):
        if value <= 0:
            raise ConfigError(f"{name} {value}: it must be above zero.")
        if value > most:
            raise ConfigError(f"{name} {value:,} is above the limit of {most:,}.")
    if region_offset < 0:
        raise ConfigError(f"offset {region_offset} is below zero.")
    if block > MAX_BLOCK:
        raise ConfigError(
            f"block size {describe_size(block)} is more than Linux moves in one request ({MAX_BLOCK:,} bytes): "
            f"use a smaller --gpuio-bs."
        )


def _check_alignment(path: str, block: int, region_offset: int, alignment: Alignment) -> None:
    demand = f"the {alignment.offset}-byte direct-I/O alignment of {path} ({alignment.source})"
    if block % alignment.offset:
        fitting = format_size(round_up(block, alignment.offset))
        raise ConfigError(
            f"block size {block} bytes is not a multiple of {demand}: use --gpuio-bs={fitting}, or --gpuio-cache=cold."
        )
    if region_offset % alignment.offset:
        raise ConfigError(
            f"offset {region_offset} is not a multiple of {demand}: "
            f"use {round_up(region_offset, alignment.offset)}, or --gpuio-cache=cold."
        )


def _check_region(block: int, depth: int, jobs: int, region_bytes: int) -> None:
    if block > region_bytes:
        raise ConfigError(
            f"block size {describe_size(block)} is larger than the region of {describe_size(region_bytes)}: "
            f"raise --gpuio-size or lower --gpuio-bs."
        )
    blocks, wanted = region_bytes // block, jobs * depth
    if blocks < wanted:
        # Fewer blocks than requests in flight: two requests on one block at a time, which no workload means.
        raise ConfigError(
            f"the region of {describe_size(region_bytes)} holds {blocks:,} blocks of {describe_size(block)}, fewer "
            f"than the {wanted:,} requests in flight ({jobs} jobs x queue depth {depth}): raise --gpuio-size to at "
            f"least {format_size(wanted * block)}, or lower --gpuio-qd or --gpuio-jobs."
        )


def _check_memory(block: int, depth: int, jobs: int, root: Path) -> None:
    available = memory_bytes(root, "MemAvailable")
    needed = jobs * depth * round_up(block, _SLOT)
    if available is not None and needed > available // 2:
        raise ConfigError(
            f"buffers for {jobs} jobs x queue depth {depth} x {describe_size(block)} need {needed:,} bytes, over half "
            f"of the {available:,} bytes of memory available: lower --gpuio-bs, --gpuio-qd or --gpuio-jobs."
        )


def _check_aio(depth: int, jobs: int, root: Path) -> None:
    most, used = read_int(root / "proc/sys/fs/aio-max-nr"), read_int(root / "proc/sys/fs/aio-nr")
    if most is None:
        return
    free, wanted = most - (used or 0), jobs * depth
    if wanted > free:
        raise ConfigError(
            f"libaio needs {wanted:,} events ({jobs} jobs x queue depth {depth}), but only {free:,} of "
            f"fs.aio-max-nr={most} are free: run sysctl -w fs.aio-max-nr={wanted + (used or 0)}, or "
            f"lower --gpuio-qd or --gpuio-jobs."
        )
