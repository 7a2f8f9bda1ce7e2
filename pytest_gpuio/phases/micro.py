"""Micro workloads: the classic patterns of I/O benchmarks, every durability mode included."""

from __future__ import annotations

from typing import Final

from pytest_gpuio.phases.workload import Workload

_SMALL: Final = "4 KiB at depth 32 is the customary figure of data sheets for random I/O."
_LARGE: Final = "1 MiB at depth 8 is the customary figure of data sheets for sequential I/O."

WORKLOADS: Final = (
    Workload("micro/randread", "Random 4 KiB reads.", order="random", bs=4 << 10, qd=32, source=_SMALL),
    Workload("micro/seqread", "Sequential 1 MiB reads.", order="sequential", bs=1 << 20, qd=8, source=_LARGE),
    Workload(
        "micro/randwrite",
        "Random 4 KiB writes, never synced.",
        order="random",
        bs=4 << 10,
        qd=32,
        read_percent=0,
        source=_SMALL,
    ),
    Workload(
        "micro/randwrite_fdatasync",
        "Random 4 KiB writes with fdatasync after every 32.",
        order="random",
        bs=4 << 10,
        qd=32,
        read_percent=0,
        durability="fdatasync32",
        source=f"{_SMALL} One sync per queue of requests is a group commit.",
    ),
    Workload(
        "micro/randwrite_dsync",
        "Random 4 KiB writes, each durable when it completes (O_DSYNC).",
        order="random",
        bs=4 << 10,
        qd=32,
        read_percent=0,
        durability="dsync",
        source=f"{_SMALL} O_DSYNC is how write-ahead logs write.",
    ),
    Workload(
        "micro/seqwrite",
        "Sequential 1 MiB writes, never synced.",
        order="sequential",
        bs=1 << 20,
        qd=8,
        read_percent=0,
        source=_LARGE,
    ),
    Workload(
        "micro/seqwrite_fsync",
        "Sequential 1 MiB writes with fsync at the end of each window.",
        order="sequential",
        bs=1 << 20,
        qd=8,
        read_percent=0,
        durability="fsync",
        source=_LARGE,
    ),
    Workload(
        "micro/randrw70",
        "Random 4 KiB requests, 70 % reads and 30 % writes.",
        order="random",
        bs=4 << 10,
        qd=32,
        read_percent=70,
        source=f"{_SMALL} 70 to 30 is the customary mix of transactional databases.",
    ),
    Workload(
        "micro/zipfread",
        "Random 4 KiB reads, a few blocks far more popular than the rest (Zipf, theta 1.1).",
        order="zipf",
        bs=4 << 10,
        qd=32,
        zipf_theta=1.1,
        source=f"{_SMALL} Popularity close to Zipf with an exponent near 1 is what caches see.",
    ),
)
