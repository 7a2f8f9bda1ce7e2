"""Settings of known consumers, made from what was recommended."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any, Final

from pytest_gpuio.analysis.recommend import Option, Recommendation
from pytest_gpuio.core.errors import ConfigError
from pytest_gpuio.phases import registry
from pytest_gpuio.phases.durability import Durability
from pytest_gpuio.phases.workload import Workload
from pytest_gpuio.report import numbers
from pytest_gpuio.report.recommend import place

#: cuFile takes sizes in multiples of 64 KiB, bounce buffers between 1 and 16 MiB.
_CUFILE_STEP_KB: Final = 64
_CUFILE_LEAST_BUFFER_KB: Final = 1024
_CUFILE_MOST_KB: Final = 16384
#: Bounce buffers a GPU must hold: cuFile's default ``io_batchsize``.
_CUFILE_BUFFERS: Final = 128
_FIO_ENGINES: Final[Mapping[str, str]] = {
    "psync": "psync",
    "libaio": "libaio",
    "io_uring": "io_uring",
    "io_uring_sqpoll": "io_uring\nsqthread_poll=1",
    "io_uring_iopoll": "io_uring\nhipri=1",
    "io_uring_full": "io_uring\nsqthread_poll=1\nhipri=1",
    "mmap": "mmap",
}
_NIXL_BACKENDS: Final[Mapping[str, str]] = {"nixl_gds_mt": "GDS_MT", "nixl_gds": "GDS", "nixl_posix": "POSIX"}


def snippets(found: Sequence[Recommendation]) -> dict[str, str]:
    """Settings by file name; empty where nothing fits.

    A consumer that knows one path only gets that path's best measured setting, whether or not another path is better:
    DeepSpeed (libaio, or cuFile), KvikIO, cuFile, LMCache (NIXL). fio gets the recommended path.
    """
    result: dict[str, str] = {}
    for one in found:
        if one.best is None:
            continue
        paths = {option.datapath: option for option in one.by_path}
        slug = "-".join(" ".join(place(one)).replace("/", " ").replace("->", " ").split())
        if (own := paths.get("gds") or paths.get("libaio")) is not None:
            result[f"deepspeed-{slug}.json"] = _deepspeed(own)
        if (own := paths.get("kvikio")) is not None:
            result[f"kvikio-{slug}.env"] = _kvikio(own, direct=one.situation["cache"] == "direct")
        if (own := paths.get("gds") or paths.get("gds_compat")) is not None:
            result[f"cufile-{slug}.json"] = _cufile(own)
        if (own := next((option for option in one.by_path if option.datapath in _NIXL_BACKENDS), None)) is not None:
            result[f"lmcache-{slug}.yaml"] = _lmcache(own)
        if one.best.datapath in _FIO_ENGINES:
            result[f"fio-{slug}.fio"] = _fio(one, one.best)
    return result


def _deepspeed(own: Option) -> str:
    """The ``aio`` block of a DeepSpeed configuration; its queue depth is per thread."""
    block: dict[str, Any] = {
        "block_size": int(own.axes["bs"]),
        "queue_depth": int(own.axes["qd"]),
        "intra_op_parallelism": int(own.axes["jobs"]),
        "single_submit": str(own.axes.get("batch", "1x1")).startswith("1x"),
        "overlap_events": True,
    }
    if own.datapath == "gds":
        block["use_gds"] = True
    return json.dumps({"aio": block}, indent=2) + "\n"


def _kvikio(own: Option, *, direct: bool) -> str:
    """Environment as it was measured: every request in flight has a thread of its own."""
    size = int(own.axes["bs"])
    return (
        f"KVIKIO_NTHREADS={int(own.axes['jobs']) * int(own.axes['qd'])}\n"
        f"KVIKIO_TASK_SIZE={max(size, 4096)}\n"
        f"KVIKIO_GDS_THRESHOLD={min(size, 16384)}\n"
        f"KVIKIO_BOUNCE_BUFFER_SIZE={max(size, 16 << 20)}\n"
        # KvikIO goes through the page cache unless told otherwise.
        f"KVIKIO_AUTO_DIRECT_IO_READ={'ON' if direct else 'OFF'}\n"
        f"KVIKIO_AUTO_DIRECT_IO_WRITE={'ON' if direct else 'OFF'}\n"
    )


def _cufile(own: Option) -> str:
    steps = -(-int(own.axes["bs"]) // (_CUFILE_STEP_KB * 1024))
    size = min(steps * _CUFILE_STEP_KB, _CUFILE_MOST_KB)
    buffer = max(size, _CUFILE_LEAST_BUFFER_KB)
    block = {
        "properties": {
            "allow_compat_mode": own.datapath == "gds_compat",
            "max_direct_io_size_kb": size,
            "per_buffer_cache_size_kb": buffer,
            "max_device_cache_size_kb": buffer * _CUFILE_BUFFERS,
        },
        "execution": {"max_io_threads": int(own.axes["jobs"]), "parallel_io": int(own.axes["jobs"]) > 1},
    }
    return json.dumps(block, indent=2) + "\n"


def _lmcache(own: Option) -> str:
    """NIXL as LMCache's storage; its POSIX back end takes host memory only."""
    device = "cuda" if own.axes["destination"] == "gpu" and own.datapath != "nixl_posix" else "cpu"
    return (
        f"# measured: {numbers.rate(own.bytes_per_s / 1e9)} GB/s; set path and sizes to your own\n"
        "nixl_buffer_size: 1073741824\n"
        f"nixl_buffer_device: {device}\n"
        "extra_config:\n"
        "  enable_nixl_storage: true\n"
        f"  nixl_backend: {_NIXL_BACKENDS[own.datapath]}\n"
        "  nixl_path: /set/this/to/your/cache\n"
        "  nixl_pool_size: 64\n"
    )


def _fio(one: Recommendation, best: Option) -> str:
    axes = best.axes
    submit, _, reap = str(axes.get("batch", "1x1")).partition("x")
    direct = int(one.situation["cache"] == "direct" and best.datapath != "mmap")
    told, rw, writes = _pattern(str(one.situation["workload"]))
    return (
        f"; {' on '.join(place(one))}{told}\n; set filename to your own{': IT IS WRITTEN' if writes else ''}\n"
        f"[global]\nioengine={_FIO_ENGINES[best.datapath]}\ndirect={direct}\nbs={axes['bs']}\niodepth={axes['qd']}\n"
        f"iodepth_batch_submit={submit}\niodepth_batch_complete_min={reap or 1}\nnumjobs={axes['jobs']}\nthread=1\n"
        f"size=1g\ntime_based=1\nruntime=10\ngroup_reporting=1\n\n"
        f"[job]\n{rw}\n{_syncs(one)}; filename=/mnt/nvme0/file\n"
    )


def _syncs(one: Recommendation) -> str:
    durability = Durability.parse(str(one.situation["durability"]))
    return {
        "none": "", "fsync": "end_fsync=1\n", "fdatasync": f"fdatasync={durability.every}\n", "dsync": "sync=dsync\n",
    }[durability.mode]  # fmt: skip


def _pattern(name: str) -> tuple[str, str, bool]:
    """What fio's job leaves out of a workload, its ``rw`` lines, and whether it writes."""
    try:
        workload = registry.get(name)
    except ConfigError:
        return ", whose pattern is not known here: this job reads at random", "rw=randread", False
    if not isinstance(workload, Workload):
        return ", a model: fio cannot follow it, this job reads at random", "rw=randread", False
    random = "" if workload.order == "sequential" else "rand"
    if workload.read_percent in (0, 100):
        kind = f"rw={random}{'read' if workload.read_percent else 'write'}"
    else:
        kind = f"rw={random}rw\nrwmixread={workload.read_percent}"
    if workload.order == "zipf":
        kind += f"\nrandom_distribution=zipf:{workload.zipf_theta}"
    return "", kind, workload.writes
