"""``gpuio history``: what a storage folder holds, series with change points, pruning and export."""

from __future__ import annotations

import argparse
import csv
import fnmatch
import io
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Final

from pytest_gpuio.analysis.history import Series, series
from pytest_gpuio.analysis.metrics import METRICS, Metric, metric
from pytest_gpuio.cli.output import put, put_json
from pytest_gpuio.core.drift import LEAST_WINDOWS
from pytest_gpuio.core.errors import CapabilityMissing, ConfigError
from pytest_gpuio.report import numbers
from pytest_gpuio.report.labels import short_case
from pytest_gpuio.results import strict_json
from pytest_gpuio.results.record import failed_gates
from pytest_gpuio.results.run_file import KIND
from pytest_gpuio.results.runs import RunFile, read_runs

_EXAMPLES: Final = """\
examples:

    gpuio history
        Runs of ./.benchmarks by machine, and every case whose level changed.

    gpuio history --case '*kv_fetch*' --metric p99
    gpuio history --csv all.csv --parquet all.parquet
        One row per run and case (Parquet needs pyarrow).

    gpuio history --keep 50
        Names the runs that are older than the newest fifty of their machine; with --yes it removes them.

A change point needs at least twelve runs, and is false once in a hundred unchanged series.
"""
#: Runs listed of each machine unless all are asked for.
_NEWEST: Final = 10
_FIELDS: Final = (
    "machine", "created", "path", "case", "datapath", "iops", "bytes_per_s", "p50_ns", "p99_ns", "cores_used",
    "cores_reserved", "cpu_s_per_gb", "unsettled",
)  # fmt: skip


def parser() -> argparse.ArgumentParser:
    """Arguments of ``gpuio history``."""
    result = argparse.ArgumentParser(
        "gpuio history",
        usage="gpuio history [FILE ...] [options]",
        description="Lists the runs of a storage folder by machine and finds when a case's level changed.",
        epilog=_EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    result.add_argument("files", nargs="*", metavar="FILE", help="runs or storage folders (default: .benchmarks)")
    result.add_argument("--case", metavar="PATTERN", default="*", help="only cases that match, like '*kv_fetch*'")
    result.add_argument("--metric", choices=list(METRICS), default="bytes_per_s", help="of the series (%(default)s)")
    result.add_argument("--all", action="store_true", help="list every run, not only the newest of each machine")
    result.add_argument("--csv", metavar="FILE", help="write a row per run and case")
    result.add_argument("--parquet", metavar="FILE", help="the same as Parquet")
    result.add_argument("--keep", type=int, metavar="N", help="name runs older than the newest N of their machine")
    result.add_argument("--yes", action="store_true", help="with --keep: remove them")
    result.add_argument("--json", metavar="FILE", help="write the series as JSON (- = standard output)")
    return result


def run(arguments: argparse.Namespace) -> int:
    """Lists, exports, prunes.

    Returns:
        0.

    Raises:
        ConfigError: unreadable runs, an impossible --keep, a file that cannot be written.
        CapabilityMissing: Parquet without pyarrow.
    """
    if arguments.yes and arguments.keep is None:
        raise ConfigError("--yes removes runs: say how many to keep, --keep N.")
    if arguments.keep is not None and arguments.keep < 1:
        raise ConfigError(f"--keep {arguments.keep}: at least one run must stay.")
    runs = read_runs(arguments.files or [".benchmarks"])
    judged = metric(arguments.metric)
    if arguments.json:
        put_json(arguments.json, _everything(runs, judged, arguments.case))
    if arguments.json != "-":
        sys.stdout.write(history_text(runs, judged, arguments.case, everything=arguments.all))
    rows = list(_rows(runs, arguments.case))
    if arguments.csv:
        put(arguments.csv, _csv(rows), "w")
    if arguments.parquet:
        _write_parquet(arguments.parquet, rows)
    if arguments.keep is not None:
        # With --json - standard output is JSON and nothing else.
        out = sys.stderr if arguments.json == "-" else sys.stdout
        out.write("".join(_prune(runs, arguments.keep, really=arguments.yes)))
    return 0


def history_text(runs: Sequence[RunFile], judged: Metric, pattern: str = "*", *, everything: bool = False) -> str:
    """Runs by machine, and every case whose level changed.

    Args:
        runs: oldest first.
        judged: metric of the series.
        pattern: of cases.
        everything: every run, not only the newest of each machine.
    """
    return "".join(_lines(runs, _series(runs, judged, pattern), judged, everything=everything))


def _series(runs: Sequence[RunFile], judged: Metric, pattern: str) -> list[Series]:
    return [one for one in series(runs, judged) if fnmatch.fnmatchcase(one.case, pattern)]


def _lines(runs: Sequence[RunFile], found: Sequence[Series], judged: Metric, *, everything: bool) -> Iterator[str]:
    machines: dict[str, list[RunFile]] = {}
    for one in runs:
        machines.setdefault(one.machine_id, []).append(one)
    for machine, own in machines.items():
        cpu = (own[-1].machine.get("cpu") or {}).get("model") or "unknown CPU"
        first, last = own[0].created.date(), own[-1].created.date()
        yield f"machine {machine} ({cpu}): {len(own)} run{'s' * (len(own) != 1)}, {first} to {last}\n"
        shown = own if everything else own[-_NEWEST:]
        if len(own) > len(shown):
            yield f"    ... {len(own) - len(shown)} older ones (--all lists them)\n"
        for one in shown:
            lacks = [f"{len(one.voids)} void"] * bool(one.voids) + ["interrupted"] * one.interrupted
            told = ", ".join([f"{len(one.cells)} cell{'s' * (len(one.cells) != 1)}", *lacks])
            yield f"    {one.created:%Y-%m-%d %H:%M}  {one.path}: {told}\n"
    changed = [one for one in found if one.changes]
    longest = max((len(one.values) for one in found), default=0)
    yield (
        f"{len(found)} case{'s' * (len(found) != 1)}, the longest series has {longest} run{'s' * (longest != 1)}; "
        f"{len(changed)} changed their {judged.name}"
    )
    yield ": at least twelve runs are needed to see a change\n" if longest < LEAST_WINDOWS else "\n"
    for case in changed:
        yield f"{short_case(case.record['axes'])}\n"
        for step in case.changes:
            when = case.times[step.index].strftime("%Y-%m-%d %H:%M")
            before, after = (_value(level, judged) for level in (step.before, step.after))
            yield (
                f"    {when}  {step.ratio - 1:+.1%}: {before} -> {after} "
                f"(from run {step.index + 1} of {len(case.values)}, {case.paths[step.index]})\n"
            )


def _value(level: float, judged: Metric) -> str:
    if judged.unit == "ns":
        return numbers.duration(level)
    return f"{numbers.rate(level / 1e9)} GB/s" if judged.unit == "B/s" else f"{level:.3g} {judged.unit}"


def _everything(runs: Sequence[RunFile], judged: Metric, pattern: str) -> dict[str, Any]:
    return {
        "kind": "gpuio-history",
        "metric": judged.name,
        "unit": judged.unit,
        "runs": [
            {"machine": one.machine_id, "created": one.created.isoformat(), "path": one.path, "cells": len(one.cells),
             "voids": len(one.voids), "interrupted": one.interrupted}
            for one in runs
        ],
        "series": [_data(one) for one in _series(runs, judged, pattern)],
    }  # fmt: skip


def _data(one: Series) -> dict[str, Any]:
    return {
        "machine": one.machine,
        "case": one.case,
        "points": [
            {"created": time.isoformat(), "path": path, "value": value}
            for time, path, value in zip(one.times, one.paths, one.values, strict=True)
        ],
        "changes": [
            {"index": step.index, "before": step.before, "after": step.after, "ratio": step.ratio}
            for step in one.changes
        ],
    }


def _rows(runs: Sequence[RunFile], pattern: str) -> Iterator[dict[str, Any]]:
    for run_file in runs:
        for case, record in run_file.cells.items():
            if not fnmatch.fnmatchcase(case, pattern):
                continue
            per_core = record["cpu"]["gb_per_s_per_core"]
            lat = record["latency"]["lat"]
            yield {
                "machine": run_file.machine_id,
                "created": run_file.created.isoformat(),
                "path": run_file.path,
                "case": case,
                "datapath": record["effective"]["datapath"],
                "iops": record["iops"],
                "bytes_per_s": record["bytes_per_s"],
                "p50_ns": lat["p50_ns"],
                "p99_ns": lat["p99_ns"],
                "cores_used": record["cpu"]["cores_used"],
                "cores_reserved": record["cpu"]["cores_reserved"],
                "cpu_s_per_gb": 1.0 / per_core if per_core else None,
                "unsettled": bool(failed_gates(record, "unsettled")),
            }


def _csv(rows: Sequence[dict[str, Any]]) -> str:
    out = io.StringIO()
    writer = csv.DictWriter(out, _FIELDS, lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    return out.getvalue()


def _write_parquet(path: str, rows: Sequence[dict[str, Any]]) -> None:
    try:
        import pyarrow
        import pyarrow.parquet
    except ImportError:
        raise CapabilityMissing("--parquet needs pyarrow: pip install pyarrow (or write --csv).") from None
    columns = {name: [row[name] for row in rows] for name in _FIELDS}
    try:
        pyarrow.parquet.write_table(pyarrow.table(columns), path)
    except OSError as error:
        raise ConfigError(f"{path} cannot be written: {error}.") from None


def _prune(runs: Sequence[RunFile], keep: int, *, really: bool) -> Iterator[str]:
    """Names or removes old runs; only files whose every benchmark is ours, so that nobody else's run goes."""
    by_machine: dict[str, list[RunFile]] = {}
    for one in runs:
        by_machine.setdefault(one.machine_id, []).append(one)
    old = [one for own in by_machine.values() for one in own[:-keep]]
    for one in old:
        if not _only_ours(one.path):
            yield f"kept, it holds other benchmarks, too: {one.path}\n"
        elif really:
            try:
                Path(one.path).unlink()
            except OSError as error:
                raise ConfigError(f"{one.path} cannot be removed: {error.strerror}.") from None
            yield f"removed {one.path}\n"
        else:
            yield f"would remove {one.path}\n"
    if old and not really:
        yield "nothing was removed: add --yes\n"


def _only_ours(path: str) -> bool:
    if Path(path).is_symlink():
        return False
    content = strict_json.read(path) if path.endswith(".json") else {}
    if not isinstance(content, dict):
        return False
    if content.get("kind") == KIND:
        return True
    benchmarks = content.get("benchmarks")
    return isinstance(benchmarks, list) and all((b.get("extra_info") or {}).get("gpuio") for b in benchmarks)
