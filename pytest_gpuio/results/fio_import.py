"""fio's JSON as imported cells: what fio said, labelled as such, with what it lacks."""

from __future__ import annotations

import json
import math
import os
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

from pytest_gpuio import __version__
from pytest_gpuio.core.errors import ConfigError, GpuioError
from pytest_gpuio.core.sizes import parse_size
from pytest_gpuio.results.record import SCHEMA

#: ``kind`` of a file of imported cells; never that of a run of ours.
KIND: Final = "gpuio-imported"
#: What an imported cell cannot say, whatever fio prints.
LACKS: Final = (
    "CPU truth: fio's usr_cpu and sys_cpu miss pollers, kernel workers and interrupts",
    "path proof: the engine is what was asked for, not what was seen",
    "device bytes: a page cache or host cache may have served the requests",
    "verification, windows and their spread, drift, medium",
)
_PERCENTILES: Final = {
    "p50_ns": "50.000000",
    "p90_ns": "90.000000",
    "p95_ns": "95.000000",
    "p99_ns": "99.000000",
    "p999_ns": "99.900000",
}
_KINDS: Final = ("read", "write", "trim", "mixed")


def import_fio(path: str | os.PathLike[str]) -> dict[str, Any]:
    """The imported run of a file that holds fio's ``json`` or ``json+`` output, also amid other text.

    Each job becomes a cell per kind of request that it did; its data path is ``fio:ENGINE``, so that it can never be
    taken for a proved one.

    Raises:
        GpuioError: the file cannot be read.
        ConfigError: no fio output in it, or none of its jobs did anything; text and place say why.
    """
    name = os.fspath(path)
    try:
        text = Path(path).read_bytes().decode("utf-8", errors="replace")
    except OSError as error:
        raise GpuioError(f"{name} cannot be read: {error.strerror}.") from None
    outputs = list(_outputs(text))
    if not outputs:
        raise ConfigError(f"{name} holds no JSON of fio: run it with --output-format=json (or json+).")
    cells: list[dict[str, Any]] = []
    failures: list[dict[str, Any]] = []
    for output in outputs:
        for number, job in enumerate(output["jobs"]):
            options = {**(output.get("global options") or {}), **(job.get("job options") or {})}
            label = str(job.get("jobname") or number)
            if job.get("error"):
                why = f"fio's job ended with error {job['error']}"
                failures.append({"nodeid": f"{name}::{label}", "case": None, "reason": why})
                continue
            try:
                cells += [_cell(name, label, kind, job, options, output) for kind in _KINDS if _did(job, kind)]
            except (KeyError, TypeError, ValueError, ZeroDivisionError) as error:
                raise ConfigError(f"{name}: job {label} lacks or garbles {error}.") from None
    if not cells:
        why = failures[0]["reason"] if failures else "no job did a request"
        raise ConfigError(f"{name}: nothing to import: {why}.")
    stamp = outputs[0].get("timestamp")
    created = datetime.fromtimestamp(stamp if isinstance(stamp, (int, float)) else 0, UTC)
    return {
        "schema": SCHEMA,
        "kind": KIND,
        "gpuio_version": __version__,
        "created": created.strftime("%Y-%m-%dT%H:%M:%SZ"),
        "interrupted": False,
        "machine": {},
        "voids": [],
        "skips": [],
        "failures": failures,
        "settings": {"imported_from": name},
        "cells": _unique(cells),
    }


def _outputs(text: str) -> Iterator[dict[str, Any]]:
    """Every fio output in a text; warnings before, between and after them are passed over."""
    decoder = json.JSONDecoder()
    place = text.find("{")
    while place >= 0:
        try:
            value, end = decoder.raw_decode(text, place)
        except (ValueError, RecursionError):
            place = text.find("{", place + 1)
            continue
        if isinstance(value, dict) and "fio version" in value and isinstance(value.get("jobs"), list):
            yield value
        place = text.find("{", end)


def _did(job: Mapping[str, Any], kind: str) -> bool:
    part = job.get(kind)
    return isinstance(part, Mapping) and bool(part.get("total_ios")) and bool(part.get("runtime"))


def _cell(
    name: str, label: str, kind: str, job: Mapping[str, Any], options: Mapping[str, Any], output: Mapping[str, Any]
) -> dict[str, Any]:
    part = job[kind]
    ios, moved, seconds = int(part["total_ios"]), int(part["io_bytes"]), part["runtime"] / 1e3
    engine = str(options.get("ioengine", "psync"))
    jobs = int(options.get("numjobs", 1))
    bs = _block_size(options, moved, ios)
    direct = str(options.get("direct", "0")) in ("1", "true")
    axes: dict[str, str | int] = {
        "datapath": f"fio:{engine}",
        "medium": "unknown",
        "target": Path(str(options.get("filename", "default"))).name or "default",
        "workload": f"micro/{_workload(str(options.get('rw', 'read')), kind)}",
        "destination": "host",
        "bs": bs,
        "qd": int(options.get("iodepth", 1)),
        "jobs": jobs,
        "batch": f"{options.get('iodepth_batch_submit', options.get('iodepth_batch', 1))}"
        f"x{options.get('iodepth_batch_complete_min', 1)}",
        "cache": "direct" if direct else "hot",
        "durability": "none",
        "arrivals": "closed",
    }
    suite = f"fio.{label}"
    case = "|".join([suite, *(f"{axis}={value}" for axis, value in axes.items())])
    latency = {key: _distribution(part[f"{key}_ns"]) for key in ("lat", "clat", "slat") if f"{key}_ns" in part}
    # With clat_percentiles (fio's default) lat itself has none.
    if latency["lat"]["p99_ns"] is None and latency.get("clat", {}).get("p99_ns") is not None:
        latency["lat"] = {**latency["lat"], **{q: latency["clat"][q] for q in _PERCENTILES}}
    cores = (job.get("usr_cpu", 0.0) + job.get("sys_cpu", 0.0)) / 100 * jobs
    return {
        "schema": SCHEMA,
        "case": case,
        "suite": suite,
        "axes": axes,
        "phase": "micro",
        "unit": "s/io",
        "status": "imported",
        "imported": {
            "tool": "fio",
            "version": str(output["fio version"]),
            "file": name,
            "lacks": list(LACKS),
            "cores_told": cores,
        },
        "requested": {"datapath": engine, "direct": direct, "qd": axes["qd"], "bs": bs, "knobs": []},
        "effective": {
            "datapath": axes["datapath"], "direct": None, "in_flight": None, "request_bytes": None, "knobs": [],
            "knob_reason": None, "evidence": [f"imported from fio: it was told to use {engine}"],
        },
        "ios": ios,
        "reads": ios if kind == "read" else 0,
        "writes": ios if kind == "write" else 0,
        "bytes": moved,
        "seconds": seconds,
        "iops": ios / seconds,
        "bytes_per_s": moved / seconds,
        "gb_per_s": moved / seconds / 1e9,
        "gib_per_s": moved / seconds / 2**30,
        "latency": latency,
        "windows": {"count": 1, "ios_per_window": ios, "seconds": [seconds], "rel_ci": None},
        # fio's own figure is told above; where ours stand there is nothing, since it does not count the same.
        "cpu": {
            "cores_used": None, "cores_reserved": None, "gb_per_s_per_core": None, "gb_per_s_per_core_reserved": None,
        },
        "target": {"name": axes["target"], "medium": "unknown", "file_system": "unknown", "devices": []},
        "open_loop": None,
        "gates": [{"gate": "imported", "class": "warning", "state": "failed", "detail": "; ".join(LACKS)}],
    }  # fmt: skip


def _block_size(options: Mapping[str, Any], moved: int, ios: int) -> int:
    given = str(options.get("bs", options.get("blocksize", ""))).split(",")[0]
    if given and "-" not in given:
        return parse_size(given, what="fio's bs")
    return max(1, round(moved / ios))  # a range or a split: the mean of what was done


def _workload(rw: str, kind: str) -> str:
    pattern = rw.split(":")[0].lower()
    names = {"read": "seqread", "write": "seqwrite", "randread": "randread", "randwrite": "randwrite"}
    if kind != "mixed" and pattern in ("rw", "readwrite", "randrw"):
        pattern = ("rand" if pattern == "randrw" else "") + kind
    return names.get(pattern, pattern.replace("-", "_"))


def _distribution(part: Mapping[str, Any]) -> dict[str, Any]:
    count = int(part.get("N") or 0)
    shares = part.get("percentile") or {}
    bins = {int(ns): int(number) for ns, number in (part.get("bins") or {}).items()}
    values = {key: shares.get(share) for key, share in _PERCENTILES.items()}
    if bins and not shares:
        values = {key: _of_bins(bins, float(share) / 100) for key, share in _PERCENTILES.items()}
    mean = float(part.get("mean") or 0.0)
    return {
        "count": count,
        "overflow": 0,
        "min_ns": part.get("min") if count else None,
        "mean_ns": mean if count and math.isfinite(mean) else None,
        **values,
        "max_ns": part.get("max") if count else None,
        "histogram": None,
    }


def _of_bins(bins: Mapping[int, int], share: float) -> int | None:
    """The value below which that share of a json+ histogram lies."""
    left = share * sum(bins.values())
    for value, number in sorted(bins.items()):
        left -= number
        if left <= 0:
            return value
    return None


def _unique(cells: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """Cases that two jobs share get a number: both were measured."""
    seen: dict[str, int] = {}
    for cell in cells:
        number = seen[cell["case"]] = seen.get(cell["case"], 0) + 1
        if number > 1:
            cell["suite"] = f"{cell['suite']}#{number}"
            cell["case"] = "|".join([cell["suite"], *cell["case"].split("|")[1:]])
    return list(cells)
