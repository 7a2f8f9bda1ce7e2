"""From what was asked, observed and judged to the record of schema version 1."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, cast

from pytest_gpuio.core import drift
from pytest_gpuio.core.cell import Cell
from pytest_gpuio.datapaths import Evidence
from pytest_gpuio.datapaths.cufile_route import CuFileEvidence
from pytest_gpuio.engine.cufile_counters import CuFileCounters
from pytest_gpuio.measure.binned import unpack
from pytest_gpuio.measure.cpu import POLLER
from pytest_gpuio.measure.gates import GateResult, Observed
from pytest_gpuio.measure.gpu_placement import gpu_distance
from pytest_gpuio.measure.placement import device_nodes, worker_distance
from pytest_gpuio.measure.plan import Plan
from pytest_gpuio.measure.prepare import PreparedTarget
from pytest_gpuio.media import BlockDevice, Medium
from pytest_gpuio.results.build import cell_record, cpu_cost, distribution, unknown_device
from pytest_gpuio.results.record import (
    CellRecord,
    Copies,
    Cpu,
    Device,
    Distribution,
    Drift,
    Gpu,
    GpuShare,
    Latency,
    OpenLoop,
    Placement,
    Replayed,
)


@dataclass(frozen=True, slots=True)
class Context:
    """What a record needs beside the observations: the cell, its target and medium, and the run's profile."""

    cell: Cell
    prepared: PreparedTarget
    medium: Medium
    profile: str


def evidence(
    plan: Plan, outcome: Mapping[str, Any], device_ratio: float | None, resident_growth: int | None
) -> Evidence:
    """The evidence a data path's proof is made from."""
    return Evidence(
        engine=plan.engine,
        direct=outcome["direct"],
        device_ratio=device_ratio if plan.cache == "direct" else None,
        resident_growth=resident_growth,
        knobs=frozenset(outcome["knobs"]),
        helper_threads=tuple(
            sorted({t["name"] for t in outcome["threads"] if t["role"] == "kernel_helper" and t["seconds"] > 0})
        ),
        ios=sum(w["ios"] for w in outcome["windows"]),
        interrupts=outcome["interrupts"],
        cufile=_cufile_evidence(plan, outcome, device_ratio),
        facts=outcome["facts"],
        moved=sum(w["bytes"] for w in outcome["windows"]),
        called_bytes=outcome.get("called_bytes"),
        daemons=tuple(f"{daemon['name']} ({daemon['pid']})" for daemon in outcome["cpu"]["daemons"]),
        **outcome["mapping"],
    )


def _cufile_evidence(plan: Plan, outcome: Mapping[str, Any], device_ratio: float | None) -> CuFileEvidence | None:
    seen = outcome.get("cufile")
    if seen is None:
        return None
    may_fall_back = seen["may_fall_back"]
    return CuFileEvidence(
        counters=None if seen["counters"] is None else CuFileCounters.from_json(seen["counters"]),
        moved=sum(window["bytes"] for window in outcome["windows"]),
        strict=None if may_fall_back is None else seen["mode"] == "strict" and not may_fall_back,
        o_direct=outcome["direct"],
        device_ratio=device_ratio if plan.cache == "direct" else None,
        nvidia_fs_loaded=seen["nvidia_fs_loaded"],
        nvidia_fs_ops=seen["nvidia_fs_ops"],
    )


def _cpu(seen: Observed) -> Cpu:
    windows: Sequence[Mapping[str, Any]] = seen.outcome["windows"]

    def total(name: str) -> Any:
        return sum(window[name] for window in windows)

    return cpu_cost(
        seconds=total("cpu_ns") / 1e9,
        user_s=total("user_ns") / 1e9,
        system_s=total("system_ns") / 1e9,
        threads=seen.outcome["threads"],
        voluntary_switches=total("voluntary_switches"),
        involuntary_switches=total("involuntary_switches"),
        minor_faults=total("minor_faults"),
        major_faults=total("major_faults"),
        wall_s=seen.totals.seconds,
        ios=seen.totals.ios,
        bytes_moved=seen.totals.bytes,
        qd=seen.plan.qd,
        polling_s=_polling(seen),
        metered=seen.outcome["cpu"],
    )


def cpu_seconds(seen: Observed) -> float:
    """All CPU seconds of the windows: the child's, interrupts outside of tasks, and processes that work for it."""
    cpu = _cpu(seen)
    return cpu["cores_used"] * seen.totals.seconds


def _polling(seen: Observed) -> list[float]:
    """CPU seconds of each thread that polls: rings' kernel threads, and workers that never sleep."""
    spins = seen.path.polls or (seen.plan.open_loop and seen.plan.arrival_wait == "spin")
    return [
        thread["seconds"]
        for thread in seen.outcome["threads"]
        if thread["name"] == POLLER or (spins and thread["role"] == "submitter")
    ]


def _device(seen: Observed) -> Device:
    counters = seen.outcome["counters"]
    if counters is None:
        reason = "no block device with counters lies under the target"
        return unknown_device(reason if seen.path.moves_data else "no bytes moved")
    view = seen.totals.device
    return {
        "known": True,
        "reason": None,
        "counted": list(seen.plan.counted),
        "read_bytes": counters["read_bytes"],
        "write_bytes": counters["write_bytes"],
        "read_ios": counters["read_ios"],
        "write_ios": counters["write_ios"],
        "in_flight": None if view is None else view.in_flight,
        "request_bytes": None if view is None else view.request_bytes,
        "bytes_ratio": seen.totals.device_ratio,
    }


def _distribution(values: Mapping[str, Any]) -> Distribution:
    return distribution(**{**values, "bins": unpack(values["bins"])})


def _latency(outcome: Mapping[str, Any]) -> Latency:
    whole = outcome["latency"].get("total")
    slat = _distribution(outcome["latency"]["slat"])
    merged = "merged_wait" in outcome["knobs"]
    reason = (
        "submit and wait are one system call (merged_wait)" if merged else "the engine does not show when submit ends"
    )
    observable = slat["count"] > 0
    return {
        "lat": _distribution(whole if whole and whole["count"] else outcome["latency"]["lat"]),
        "clat": _distribution(outcome["latency"]["clat"]),
        "slat": slat if observable else None,
        "slat_reason": None if observable else reason,
    }


def _open_loop(seen: Observed) -> OpenLoop | None:
    plan, windows = seen.plan, seen.outcome["windows"]
    if not plan.open_loop:
        return None
    return {
        "arrivals": plan.arrivals,
        "wait": plan.arrival_wait,
        "scheduled": sum(w["scheduled"] for w in windows),
        "late": sum(w["late"] for w in windows),
        "offered_rate": seen.outcome["offered_rate"],
        "achieved_rate": seen.totals.ios / seen.totals.seconds,
        "lag": _distribution(seen.outcome["latency"]["lag"]),
        "response": _distribution(seen.outcome["latency"]["response"]),
    }


def _gpu_share(share: Mapping[str, Any], devices: Sequence[BlockDevice]) -> GpuShare:
    rate = share["bytes"] / 1e9 / share["seconds"] if share["seconds"] > 0 else 0.0
    told = {}
    if devices:
        placed = gpu_distance(share["bus_id"], devices)
        told = {"distance": placed.distance, "evidence": placed.evidence}
    return cast("GpuShare", {**share, "gb_per_s": rate, **told})


def _gpu(seen: Observed) -> Gpu | None:
    plan, outcome = seen.plan, seen.outcome
    if not plan.gpus:
        return None
    found = outcome["gpu"]
    copies: Copies | None = None
    if outcome["latency"]["copy"]["count"]:
        copies = {
            "wait": plan.copies.wait,
            "streams": plan.copies.streams,
            "ahead": found["slots"] - plan.qd,
            "calls": sum(w["copies"] for w in outcome["windows"]),
            "bytes": sum(w["copied_bytes"] for w in outcome["windows"]),
            "staging_bytes": found["pinned_bytes"],
            "staging_huge_bytes": min(outcome["buffers"]["huge_bytes"], found["pinned_bytes"]),
            "map_seconds": found["map_seconds"],
            "pin_seconds": found["pin_seconds"],
            "device": _distribution(outcome["latency"]["lat"]),
            "latency": _distribution(outcome["latency"]["copy"]),
            "in_flight": seen.totals.total_in_flight,
        }
    return {
        "driver_version": found["driver_version"],
        "cores": found["cores"],
        "check": plan.copies.check,
        "shares": [_gpu_share(share, seen.devices) for share in found["shares"]],
        "copies": copies,
    }


def _devices(medium: Medium, namespace: Mapping[str, Any] | None) -> list[dict[str, Any]]:
    """The medium's devices; of a namespace that SPDK drives, only its controller told model and firmware."""
    told = {}
    if namespace is not None:
        told = {"model": namespace["model"], "firmware": namespace["firmware"], "logical_block": namespace["sector"]}
    return [asdict(device) | told for device in medium.devices]


def _drift(found: drift.Drift) -> Drift:
    return {
        "slope_per_window_rel": found.slope_per_window_rel,
        "first_to_last": found.first_to_last,
        "trend_p": found.trend_p,
        "change_points": [
            {"index": change.index, "before": change.before, "after": change.after, "ratio": change.ratio}
            for change in found.change_points
        ],
    }


def _placement(seen: Observed) -> Placement:
    near = device_nodes(seen.devices)
    placed = worker_distance(seen.devices, seen.plan.cpus)
    buffers = seen.outcome["buffer_nodes"]
    return {
        "requested": seen.plan.numa,
        "worker_cpus": seen.outcome["worker_cpus"],
        "irq_cpus": seen.outcome["irq_cpus"],
        "device_nodes": None if near is None else list(near),
        "worker_nodes": list(seen.nodes) or None,
        "buffer_nodes": None if buffers is None else list(buffers),
        "real_time": bool(seen.outcome.get("real_time")),
        "distance": placed.distance,
        "evidence": placed.evidence,
    }


def record(context: Context, seen: Observed, gates: Sequence[GateResult], replay: Replayed | None = None) -> CellRecord:
    """The record of a measured cell, as it goes into ``extra_info["gpuio"]``."""
    cell, plan, outcome, totals = context.cell, seen.plan, seen.outcome, seen.totals
    windows = outcome["windows"]
    device = _device(seen)
    made = cell_record(
        cell,
        requested={
            "datapath": cell.datapath,
            "direct": plan.cache == "direct",
            "qd": plan.qd,
            "bs": plan.bs,
            "knobs": sorted(plan.knobs),
        },
        effective={
            "datapath": seen.proof.effective or "unknown",
            "direct": outcome["direct"],
            "in_flight": totals.in_flight if totals.in_flight is not None else float(plan.in_flight),
            "request_bytes": device["request_bytes"],
            "knobs": outcome["knobs"],
            "knob_reason": outcome["knob_reason"],
            "evidence": list(seen.proof.sentences),
        },
        reads=totals.reads,
        writes=totals.writes,
        bytes_moved=totals.bytes,
        latency=_latency(outcome),
        windows={
            "count": len(windows),
            "warmup": outcome["warmup"],
            "ios_per_window": outcome["ios_per_window"],
            "seconds": [(w["end_ns"] - w["start_ns"]) / 1e9 for w in windows],
            "start_ns": [w["start_ns"] for w in windows],
            "rel_ci": totals.relative_ci,
            "precision": plan.precision,
            "stop_reason": outcome["stop_reason"],
            "warmup_reason": outcome["warmup_reason"],
            "drift": _drift(totals.drift),
        },
        cpu=_cpu(seen),
        device=device,
        clock=outcome["clock"] | {"ppm": max(w["clock_ppm"] for w in windows)},
        buffers=outcome["buffers"],
        verify={"mode": plan.verify if seen.path.moves_data else "none", "checked": totals.verified, "bad": totals.bad},
        durability={
            "mode": cell.durability,
            "syncs": sum(w["syncs"] for w in windows),
            "sync_seconds": sum(w["sync_ns"] for w in windows) / 1e9,
        },
        placement=_placement(seen),
        target={
            "name": cell.target,
            "path": plan.path or "(none)",
            "medium": context.medium.name,
            "medium_evidence": list(context.medium.evidence),
            "file_system": context.medium.file_system,
            "mount_options": context.medium.mount_options,
            "devices": _devices(context.medium, outcome.get("namespace")),
            "file_bytes": context.prepared.data_offset + context.prepared.data_bytes,
            "region_bytes": plan.region_bytes,
            "alignment": context.prepared.alignment,
            "alignment_source": context.prepared.alignment_source,
        },
        cache={
            "mode": plan.cache,
            "resident_before": outcome["resident_before"],
            "resident_after": outcome["resident_after"],
        },
        open_loop=_open_loop(seen),
        gpu=_gpu(seen),
        surroundings=outcome["surroundings"],
        gates=[{"gate": g.gate, "class": g.kind, "state": g.state, "detail": g.detail} for g in gates],
        setup_seconds=outcome["setup_seconds"],
        seed=plan.seed,
        profile=context.profile,
        replay=replay,
        cufile=outcome.get("cufile"),
        library=outcome.get("library"),
        gpu_meter=outcome.get("gpu_meter"),
    )
    if seen.proof.route is not None:
        made["effective"]["route"] = seen.proof.route
    return made
