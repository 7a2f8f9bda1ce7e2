"""Checks a results file against the schema, and its numbers against each other."""

from __future__ import annotations

import importlib
import json
import math
import os
from collections.abc import Iterator, Mapping
from importlib import resources
from typing import Any, Final

from pytest_gpuio.core.cell import AXES, GPUS, RANKS
from pytest_gpuio.core.errors import GpuioError
from pytest_gpuio.core.sizes import format_size
from pytest_gpuio.results import histogram, journal, strict_json
from pytest_gpuio.results.run_file import KIND

#: Relative difference that repeated rounding of doubles can explain.
_TOLERANCE: Final = 1e-9
#: Problems listed for one record; a wrong record is usually wrong in one way, many times.
_MOST_PROBLEMS: Final = 20

#: Kinds of journal lines besides measured cells; the schema has a definition of each.
_FATES: Final = frozenset({"start", "void", "skip", "failure"})
#: Kinds whose body is the record of a cell, and kinds of a sweep's journal that only tell what went on.
_RECORDS: Final = frozenset({"cell", "baseline", "precondition"})
_TOLD: Final = frozenset({"rest", "end"})

_QUANTILES: Final = (("p50_ns", 0.5), ("p90_ns", 0.9), ("p95_ns", 0.95), ("p99_ns", 0.99), ("p999_ns", 0.999))


def schema() -> dict[str, Any]:
    """The JSON Schema (draft 2020-12) of everything we write; its ``$defs`` name the parts."""
    text = resources.files("pytest_gpuio.results").joinpath("schema.json").read_text(encoding="utf-8")
    content: dict[str, Any] = json.loads(text)
    return content


def validate_file(path: str | os.PathLike[str]) -> list[str]:
    """Problems of a ``gpuio-results.json``, a journal, or pytest-benchmark JSON with our records in it; empty = valid.

    A journal (``.jsonl``) whose last line was cut off is valid: that is how a power cut leaves it.

    Raises:
        GpuioError: the file cannot be read, a line of a journal is corrupt, or jsonschema is not installed.
    """
    if os.fspath(path).endswith(".jsonl"):
        return list(_journal_problems(journal.read(path)))
    try:
        content = strict_json.read(path)
    except strict_json.JsonError as error:
        return [str(error)]
    return validate(content)


def validate(content: Any) -> list[str]:
    """Problems of the value of such a file; empty = valid.

    Raises:
        GpuioError: jsonschema is not installed.
    """
    if isinstance(content, dict) and content.get("kind") == KIND:
        return list(_results_problems(content))
    if isinstance(content, dict) and isinstance(content.get("benchmarks"), list):
        return list(_benchmark_problems(content))
    return [f'neither a gpuio results file ("kind": "{KIND}") nor pytest-benchmark JSON ("benchmarks": [...])']


def validate_cell(record: Any) -> list[str]:
    """Problems of one cell's record (what ``extra_info["gpuio"]`` holds); empty = valid.

    Raises:
        GpuioError: jsonschema is not installed.
    """
    return list(_schema_problems("cell", record)) or list(_cell_problems(record))


def _results_problems(content: dict[str, Any]) -> Iterator[str]:
    wrong = False
    for problem in _schema_problems("results", content):
        wrong = True
        yield problem
    if not wrong:
        for index, record in enumerate(content["cells"]):
            for problem in _cell_problems(record):
                yield f"cells[{index}] {record['case']}: {problem}"


def _journal_problems(contents: journal.Contents) -> Iterator[str]:
    for number, entry in enumerate(contents.entries, start=1):
        if entry.kind in _TOLD:
            continue
        if entry.kind in _RECORDS:
            problems = validate_cell(entry.body)
        elif entry.kind in _FATES:
            problems = list(_schema_problems(entry.kind, entry.body))
        else:
            problems = [f"an entry of the unknown kind {entry.kind!r}"]
        for problem in problems:
            yield f"line {number}: {problem}"


def _benchmark_problems(content: dict[str, Any]) -> Iterator[str]:
    ours = 0
    if "gpuio" in content:
        ours += 1
        for problem in _schema_problems("block", content["gpuio"]):
            yield f"gpuio: {problem}"
    for index, bench in enumerate(content["benchmarks"]):
        if not isinstance(bench, dict) or not isinstance(bench.get("stats"), dict):
            yield f"benchmarks[{index}]: not a benchmark of pytest-benchmark's JSON"
            continue
        extra = bench.get("extra_info")
        if not isinstance(extra, dict) or "gpuio" not in extra:
            continue  # somebody else's benchmark in the same run
        ours += 1
        record = extra["gpuio"]
        problems = validate_cell(record) or list(_stats_problems(bench["stats"], record))
        for problem in problems:
            yield f"benchmarks[{index}] {bench.get('fullname')}: {problem}"
    if not ours:
        yield "no gpuio record or block in this pytest-benchmark JSON: it was written without the gpuio plugin"


def _schema_problems(definition: str, value: Any) -> Iterator[str]:
    try:
        jsonschema = importlib.import_module("jsonschema")
    except ImportError:
        raise GpuioError("checking against the JSON Schema needs jsonschema: pip install jsonschema") from None
    document = schema()
    part = {"$schema": document["$schema"], "$ref": f"#/$defs/{definition}", "$defs": document["$defs"]}
    errors = jsonschema.Draft202012Validator(part).iter_errors(value)
    for count, error in enumerate(errors):
        if count == _MOST_PROBLEMS:
            yield "... and more"
            return
        place = error.json_path.removeprefix("$").removeprefix(".")
        message = error.message if len(error.message) <= 300 else f"{error.message[:300]}..."
        yield f"{place}: {message}" if place else message


def _rank_problems(record: Mapping[str, Any]) -> Iterator[str]:
    ranks = record["ranks"]
    if not len(ranks["each"]) == ranks["count"] == record["axes"].get(RANKS):
        yield f"ranks: {len(ranks['each'])} shares of {ranks['count']} ranks, axis {record['axes'].get(RANKS)}"
    for name in ("ios", "bytes"):
        whole = sum(share[name] for share in ranks["each"])
        if whole != record[name]:
            yield f"ranks: shares of {name} add up to {whole}, not {record[name]}"


def _cell_problems(record: Mapping[str, Any]) -> Iterator[str]:
    """Disagreements inside a record that fits the schema."""
    axes, windows, latency, cpu = record["axes"], record["windows"], record["latency"], record["cpu"]
    there = [*AXES, *(axis for axis in (GPUS, RANKS) if axis in axes)]
    parts = [f"{axis}={format_size(axes[axis]) if axis == 'bs' else axes[axis]}" for axis in there]
    if record["case"] != "|".join([record["suite"], *parts]):
        yield f"case {record['case']!r} is not its suite and axes"
    if "ranks" in record:
        yield from _rank_problems(record)
    if record["phase"] != axes["workload"].partition("/")[0]:
        yield f"phase {record['phase']!r} is not the one of workload {axes['workload']!r}"
    for axis in ("datapath", "qd", "bs"):
        if record["requested"][axis] != axes[axis]:
            yield f"requested {axis} is {record['requested'][axis]!r}, but the axis says {axes[axis]!r}"
    seconds, ios = record["seconds"], record["ios"]
    yield from _differs("sum of windows.seconds", math.fsum(windows["seconds"]), "seconds", seconds)
    yield from _differs("iops x seconds", record["iops"] * seconds, "ios", ios)
    yield from _differs("bytes_per_s x seconds", record["bytes_per_s"] * seconds, "bytes", record["bytes"])
    yield from _differs("gb_per_s x 1e9", record["gb_per_s"] * 1e9, "bytes_per_s", record["bytes_per_s"])
    yield from _differs("gib_per_s x 2^30", record["gib_per_s"] * 2**30, "bytes_per_s", record["bytes_per_s"])
    yield from _cpu_problems(cpu, seconds)
    for name, found, what, expected in (
        ("reads + writes", record["reads"] + record["writes"], "ios", ios),
        ("windows.count x ios_per_window", windows["count"] * windows["ios_per_window"], "ios", ios),
        ("number of windows.seconds", len(windows["seconds"]), "windows.count", windows["count"]),
        ("number of windows.start_ns", len(windows["start_ns"]), "windows.count", windows["count"]),
        ("latency.lat.count", latency["lat"]["count"], "ios", ios),
    ):
        if found != expected:
            yield f"{name} is {found:,}, but {what} is {expected:,}"
    for name in ("lat", "clat", "slat"):
        if latency[name] is not None:
            for problem in _distribution_problems(latency[name]):
                yield f"latency.{name}: {problem}"
    for gate in record["gates"]:
        if gate["class"] == "impossible" and gate["state"] == "failed":
            yield f"gate {gate['gate']} found the result impossible, yet it is recorded as measured"


def _cpu_problems(cpu: Mapping[str, Any], seconds: float) -> Iterator[str]:
    daemons = (daemon["seconds"] for daemon in cpu["daemons"])
    cost = math.fsum((cpu["seconds"], cpu["irq_s"] or 0.0, cpu["softirq_s"] or 0.0, *daemons))
    yield from _differs("cpu.cores_used x seconds", cpu["cores_used"] * seconds, "cpu seconds of all parts", cost)
    if cpu["cores_reserved"] < cpu["cores_used"]:
        yield f"cpu.cores_reserved is {cpu['cores_reserved']}, less than cpu.cores_used {cpu['cores_used']}"
    for name, reason in (("cycles_per_io", "perf_reason"), ("sq_useful_share", "sq_reason")):
        if cpu[name] is None and cpu[reason] is None:
            yield f"cpu.{name} is null without {reason}"
        elif cpu[name] is not None and cpu[reason] is not None:
            yield f"cpu.{name} is {cpu[name]}, yet {reason} says why it is null"
    control = cpu["control"]
    if not math.isclose(math.fsum(control["elsewhere"].values()), control["elsewhere_s"], rel_tol=_TOLERANCE):
        yield f"cpu.control.elsewhere does not add up to elsewhere_s {control['elsewhere_s']}"
    if control["truth_s"] is not None:
        parts = (control[name] or 0.0 for name in ("parts_s", "elsewhere_s", "no_task_s", "unattributed_s"))
        found = math.fsum(parts)
        if not math.isclose(found, control["truth_s"], rel_tol=_TOLERANCE, abs_tol=_TOLERANCE):
            yield f"cpu.control adds up to {found}, but truth_s is {control['truth_s']}"


def _distribution_problems(values: Mapping[str, Any]) -> Iterator[str]:
    try:
        bins = histogram.decode(values["histogram"])
    except GpuioError as error:
        yield str(error)
        return
    held = sum(bins.values()) + values["overflow"]
    if held != values["count"]:
        yield f"histogram and overflow hold {held:,} values, but count is {values['count']:,}"
    elif held:
        slack = 1 + _TOLERANCE
        if not values["min_ns"] <= values["mean_ns"] * slack or not values["mean_ns"] <= values["max_ns"] * slack:
            yield f"mean {values['mean_ns']} ns is outside {values['min_ns']} .. {values['max_ns']} ns"
        for name, q in _QUANTILES:
            expected = histogram.quantile(bins, q, values["min_ns"], values["max_ns"], overflow=values["overflow"])
            if values[name] != expected:
                yield f"{name} is {values[name]}, but the histogram says {expected}"


def _stats_problems(stats: Mapping[str, Any], record: Mapping[str, Any]) -> Iterator[str]:
    """Disagreements between pytest-benchmark's statistics and the record beside them."""
    try:
        ops, rounds, total = float(stats["ops"]), int(stats["rounds"]), float(stats["total"])
    except (KeyError, TypeError, ValueError) as error:
        yield f"stats lack a number: {error}"
        return
    yield from _differs("ops", ops, "extra_info iops", record["iops"])
    if rounds != record["windows"]["count"]:
        yield f"rounds is {rounds}, but windows.count is {record['windows']['count']}"
    per_io = record["seconds"] / record["windows"]["ios_per_window"]
    yield from _differs("total", total, "seconds / ios_per_window", per_io)


def _differs(name: str, found: float, what: str, expected: float) -> Iterator[str]:
    if not math.isclose(found, expected, rel_tol=_TOLERANCE, abs_tol=0.0):
        yield f"{name} is {found!r}, but {what} is {expected!r}"
