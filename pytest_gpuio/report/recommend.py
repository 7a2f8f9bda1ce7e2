"""Recommendations as text, a Markdown cheat sheet, plain data, and settings of known consumers."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Mapping, Sequence
from typing import Any, Final

from rich.text import Text

from pytest_gpuio.analysis.recommend import Option, Recommendation
from pytest_gpuio.core.sizes import format_size
from pytest_gpuio.report import numbers
from pytest_gpuio.report.tables import new_table, render

#: Columns of the cheat sheet.
HEADS: Final = (
    "phase / workload",
    "on",
    "use",
    "deciding",
    "GB/s",
    "cores",
    "CPU s/GB",
    "relative",
    "absolute",
    "how sure",
)
#: How the two gains are to be read: both are quoted, and they disagree.
GAINS: Final = (
    "Relative: gain in throughput over psync (else libaio). Absolute: the same gain as a share of what the device's "
    "link carries, where it is known, else of the most that was measured on that target."
)


def recommend_text(
    found: Sequence[Recommendation], width: int = 120, *, colour: bool = False, saturation: Mapping[str, float] = {}
) -> str:
    """A table, then what each answer rests on.

    Args:
        found: recommendations.
        width: columns of the terminal.
        colour: with ANSI escapes.
        saturation: GPUs that fill the CPUs, by path.
    """
    if not found:
        return "no result to recommend from\n"
    table = new_table()
    for head in HEADS:
        table.add_column(head, overflow="fold")
    for one in found:
        table.add_row(*map(Text, _row(one)))
    lines = [render(table, width, colour=colour)]
    for one in found:
        lines.append(f"{' on '.join(place(one))}: {one.reason}\n")
        if one.best is not None and len(one.pareto) > 1:
            front = "; ".join(
                f"{option.datapath} {geometry(option)} {numbers.rate(option.bytes_per_s / 1e9)} GB/s at "
                f"{numbers.rate(option.cpu_s_per_gb)} CPU s/GB"
                for option in one.pareto
            )
            lines.append(f"    throughput against CPU, none better in both: {front}\n")
        lines += [f"    out: {case}: {why}\n" for case, why in one.out.items()]
        if one.unsettled:
            lines.append(f"    unsettled, not used: {len(one.unsettled)} cells\n")
        lines += [f"    not measured: {path}: {why}\n" for path, why in one.not_measured.items()]
    if saturation:
        told = ", ".join(f"{path} {count:.1f}" for path, count in sorted(saturation.items()))
        lines.append(f"GPUs that fill this machine's CPUs: {told}\n")
    return "".join(lines)


def recommend_markdown(found: Sequence[Recommendation], machine: Mapping[str, Any]) -> str:
    """A cheat sheet for a wiki or a README."""
    cpu = (machine.get("cpu") or {}).get("model") or "unknown CPU"
    lines = [
        "# Storage data paths on this machine", "",
        f"{cpu}, kernel {machine.get('kernel') or 'unknown'}. {GAINS}", "",
        f"| {' | '.join(HEADS)} |", f"|{' --- |' * len(HEADS)}",
    ]  # fmt: skip
    lines += [f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in _row(one))} |" for one in found]
    return "\n".join(lines) + "\n"


def recommend_data(found: Sequence[Recommendation], saturation: Mapping[str, float]) -> dict[str, Any]:
    """Everything as a JSON-able map."""
    return {
        "kind": "gpuio-recommendation",
        "recommendations": [dataclasses.asdict(one) for one in found],
        "gpus_at_cpu_saturation": dict(saturation),
    }


def geometry(option: Option) -> str:
    """``64k qd32``, with jobs and batch where they are not 1."""
    axes = option.axes
    parts = [format_size(int(axes["bs"])), f"qd{axes['qd']}"]
    parts += [f"jobs{axes['jobs']}"] if int(axes["jobs"]) > 1 else []
    parts += [f"batch{axes['batch']}"] if axes.get("batch", "1x1") != "1x1" else []
    return " ".join(parts)


def place(one: Recommendation) -> tuple[str, str]:
    """What is done and on what: ``inference/kv_fetch hot``, ``nvme_ssd fast -> gpu``; usual values are left out."""
    situation = one.situation
    usual = {"cache": "direct", "durability": "none", "arrivals": "closed"}
    extras = [str(situation[axis]) for axis, value in usual.items() if situation[axis] != value]
    target = "" if situation["target"] == "default" else f" {situation['target']}"
    destination = "" if situation["destination"] == "host" else f" -> {situation['destination']}"
    return " ".join([str(situation["workload"]), *extras]), f"{situation['medium']}{target}{destination}"


def value_words(one: Recommendation) -> str:
    """The deciding metric and its value: ``bytes_per_s 6.2G``, ``p99 1.2ms``."""
    if one.best is None:
        return one.metric
    value = one.best.value
    return f"{one.metric} {numbers.duration(value) if one.unit == 'ns' else numbers.si(value)}"


def _row(one: Recommendation) -> tuple[str, ...]:
    name, where = place(one)
    if one.best is None:
        return name, where, "-", one.metric, "-", "-", "-", "-", "-", one.reason
    best = one.best
    relative, absolute = gains(one)
    margin = "" if one.margin is None or one.runner_up is None else f" (+{one.margin:.0%} on {one.runner_up.datapath})"
    return (
        name, where, f"{best.datapath} {geometry(best)}", value_words(one),
        numbers.rate(best.bytes_per_s / 1e9), numbers.cores(best.cores_reserved), numbers.rate(best.cpu_s_per_gb),
        relative, absolute, one.confidence + margin,
    )  # fmt: skip


def gains(one: Recommendation) -> tuple[str, str]:
    """Relative and absolute gain in words: ``+23% on psync``, ``+12% of 7.88 GB/s (link)``."""
    if one.baseline is None or one.relative is None or one.absolute is None or one.ceiling is None:
        return "-", "-"
    if one.best is not None and one.best.datapath == one.baseline.datapath:
        return f"is {one.baseline.datapath}", "-"
    ceiling = f"{numbers.rate(one.ceiling / 1e9)} GB/s ({one.ceiling_from})"
    return f"{one.relative:+.0%} on {one.baseline.datapath}", f"{one.absolute:+.0%} of {ceiling}"


def snippets(found: Sequence[Recommendation]) -> dict[str, str]:
    """Settings of known consumers by file name, made from what was recommended; empty where nothing fits."""
    result: dict[str, str] = {}
    for one in found:
        if one.best is None:
            continue
        slug = f"{one.situation['workload']}-{one.situation['medium']}".replace("/", "-")
        best = one.best
        if best.datapath.startswith(("libaio", "io_uring")):
            result[f"deepspeed-{slug}.json"] = _deepspeed(best)
        if best.datapath == "kvikio":
            result[f"kvikio-{slug}.env"] = _kvikio(best)
        if best.datapath in ("gds", "gds_compat"):
            result[f"cufile-{slug}.json"] = _cufile(best)
        if best.datapath.startswith("nixl_"):
            result[f"lmcache-{slug}.yaml"] = _lmcache(best)
        job = _fio(one, best)
        if job is not None:
            result[f"fio-{slug}.fio"] = job
    return result


def _deepspeed(best: Option) -> str:
    """The ``aio`` block of a DeepSpeed configuration; its queue depth is per thread."""
    block = {
        "aio": {
            "block_size": int(best.axes["bs"]),
            "queue_depth": int(best.axes["qd"]),
            "intra_op_parallelism": int(best.axes["jobs"]),
            "single_submit": str(best.axes.get("batch", "1x1")).startswith("1x"),
            "overlap_events": True,
        }
    }
    return json.dumps(block, indent=2) + "\n"


def _kvikio(best: Option) -> str:
    return (
        f"KVIKIO_NTHREADS={best.axes['jobs']}\n"
        f"KVIKIO_TASK_SIZE={best.axes['bs']}\n"
        "# kvikio reads through the page cache unless told otherwise\n"
        "KVIKIO_AUTO_DIRECT_IO_READ=ON\n"
    )


def _cufile(best: Option) -> str:
    size_kb = max(4, int(best.axes["bs"]) // 1024)
    block = {
        "properties": {
            "allow_compat_mode": best.datapath == "gds_compat",
            "max_direct_io_size_kb": max(size_kb, 4),
            "per_buffer_cache_size_kb": max(size_kb, 1024),
        },
        "execution": {"max_io_threads": int(best.axes["jobs"]), "parallel_io": int(best.axes["jobs"]) > 1},
    }
    return json.dumps(block, indent=2) + "\n"


def _lmcache(best: Option) -> str:
    backend = {"nixl_gds": "GDS", "nixl_posix": "POSIX"}[best.datapath]
    device = "cuda" if best.axes["destination"] == "gpu" else "cpu"
    return (
        "extra_config:\n  enable_nixl_storage: true\n"
        f"  nixl_backend: {backend}\n  nixl_buffer_device: {device}\n  # nixl_path: /your/cache\n"
    )


def _fio(one: Recommendation, best: Option) -> str | None:
    engines = {
        "psync": "psync", "libaio": "libaio", "io_uring": "io_uring", "io_uring_sqpoll": "io_uring\nsqthread_poll=1",
        "io_uring_iopoll": "io_uring\nhipri=1", "mmap": "mmap",
    }  # fmt: skip
    engine = engines.get(best.datapath)
    if engine is None:
        return None
    axes = best.axes
    submit, _, reap = str(axes.get("batch", "1x1")).partition("x")
    direct = int(one.situation["cache"] == "direct" and best.datapath != "mmap")
    return (
        f"; {one.situation['workload']} on {one.situation['medium']}: set filename and rw to your own\n"
        f"[global]\nioengine={engine}\ndirect={direct}\nbs={axes['bs']}\niodepth={axes['qd']}\n"
        f"iodepth_batch_submit={submit}\niodepth_batch_complete_min={reap or 1}\nnumjobs={axes['jobs']}\n"
        "time_based=1\nruntime=10\ngroup_reporting=1\n\n[job]\nrw=randread\n; filename=/mnt/nvme0/file\n"
    )
