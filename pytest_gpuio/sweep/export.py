"""A sweep's records in other forms, streamed from the journal: memory holds one record at a time."""

from __future__ import annotations

import os
import platform
import re
import secrets
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, BinaryIO, Final

from pytest_gpuio.core.errors import CapabilityMissing, ConfigError, GpuioError
from pytest_gpuio.report.labels import within_workload
from pytest_gpuio.results import journal, strict_json
from pytest_gpuio.results.journal import sync_directory
from pytest_gpuio.results.record import failed_gates
from pytest_gpuio.results.run_file import benchmark_block
from pytest_gpuio.sweep.benchmark_stats import stats_of

#: What a pytest-benchmark row says of how it was timed.
_OPTIONS: Final = (
    '{"disable_gc":false,"timer":"gpuio_window_clock","min_rounds":1,"max_time":0.0,"min_time":0.0,"warmup":false}'
)
_CASE: Final = re.compile(rb'\{"schema":\d+,"case":("(?:[^"\\]|\\.)*")')
#: Rows of one write of Parquet.
_ROWS: Final = 500


@dataclass(slots=True)
class Series:
    """One series of a journal.

    Attributes:
        id: of it. start: body of its newest ``start``.
        lines: number of the line that holds each case's newest record. fates: kind and line of cases without record.
        ended: its newest run ended, and how; None = it runs, or was cut off.
    """

    id: str
    start: Mapping[str, Any]
    lines: dict[str, int] = field(default_factory=dict)
    fates: dict[str, tuple[str, int]] = field(default_factory=dict)
    ended: str | None = None


def read_series(path: str | os.PathLike[str]) -> dict[str, Series]:
    """The series of a journal in the order they began; may be read while it is written.

    Raises:
        ConfigError: it is no sweep's journal.
        GpuioError: it cannot be read, or a line is corrupt.
    """
    found: dict[str, Series] = {}
    now: Series | None = None
    cases: dict[str, str] = {}
    for line in journal.scan(path):
        if line.kind == "start":
            body = line.body()
            if "sweep" not in body["settings"]:
                raise ConfigError(f"{os.fspath(path)} is the journal of a pytest run: it needs no export.")
            # Written last stands last.
            now = found[line.key] = found.pop(line.key, Series(line.key, body))
            now.start, now.ended = body, None
        elif now is None:
            raise ConfigError(f"{os.fspath(path)} is no sweep's journal: it does not begin with a start.")
        elif line.kind == "cell":
            case = _case_of(line)
            now.lines[case] = line.number
            now.fates.pop(case, None)
            cases[line.key] = case
        elif line.kind in ("void", "failure", "skip"):
            case = cases.get(line.key) or str(line.body()["case"])
            cases[line.key] = case
            if case not in now.lines:
                now.fates[case] = (line.kind, line.number)
        elif line.kind == "end":
            now.ended = line.body()["reason"]
    if not found:
        raise ConfigError(f"{os.fspath(path)} holds no run of a sweep.")
    return found


def choose(series: Mapping[str, Series], wanted: str | None) -> Series:
    """The series of an id's beginning; the one that was written last when there is none.

    Raises:
        ConfigError: none or several begin so.
    """
    if wanted is None:
        return list(series.values())[-1]
    hits = [one for one in series.values() if one.id.startswith(wanted)]
    if len(hits) != 1:
        raise ConfigError(f"series {wanted!r} is {'none' if not hits else 'several'} of {', '.join(series)}.")
    return hits[0]


def _case_of(line: journal.Line) -> str:
    match = _CASE.match(line.raw)
    if match is None:
        return str(line.body()["case"])
    return str(strict_json.loads(match[1].decode("ascii"), source=f"line {line.number}"))


def records(path: str | os.PathLike[str], series: Series) -> Iterator[tuple[journal.Line, dict[str, Any]]]:
    """The series' newest records, one after the other, each with its line.

    Raises:
        GpuioError: as :func:`read_series`.
    """
    wanted = set(series.lines.values())
    for line in journal.scan(path):
        if line.number in wanted:
            yield line, line.own_body()


def write_benchmark_json(path: str | os.PathLike[str], out: str | os.PathLike[str], series: Series) -> int:
    """Pytest-benchmark JSON, as ``--benchmark-json`` writes it; returns the number of rows.

    Raises:
        ConfigError: ``out`` exists already.
        GpuioError: as :func:`read_series`, or it cannot be written.
    """
    count = 0
    with _new_file(out) as file:
        file.write(b'{"machine_info":' + _json(_machine_info(series)) + b',"commit_info":' + _json(_COMMIT))
        file.write(b',"benchmarks":[')
        for line, record in records(path, series):
            file.write(b",\n" if count else b"\n")
            file.write(_row(line, record))
            count += 1
        file.write(b'\n],"datetime":' + _json(datetime.now(UTC).isoformat()) + b',"version":"5.3.1","gpuio":')
        file.write(_json(_block(path, series)) + b"}\n")
    return count


def write_parquet(path: str | os.PathLike[str], out: str | os.PathLike[str], series: Series) -> int:
    """A Parquet file with a row per cell; returns their number.

    Raises:
        CapabilityMissing: pyarrow is not installed.
        ConfigError: ``out`` exists already.
        GpuioError: as :func:`read_series`, or it cannot be written.
    """
    try:
        import pyarrow
        import pyarrow.parquet
    except ImportError:
        raise CapabilityMissing(
            "Parquet needs pyarrow: pip install 'pytest-gpuio[parquet]' (or use --benchmark-json)."
        ) from None
    kinds = {"text": pyarrow.string(), "int": pyarrow.int64(), "float": pyarrow.float64(), "bool": pyarrow.bool_()}
    schema = pyarrow.schema([(name, kinds[kind]) for name, (kind, _) in COLUMNS.items()])
    count = 0
    rows: list[dict[str, Any]] = []
    with _new_file(out) as file, pyarrow.parquet.ParquetWriter(file, schema, compression="zstd") as writer:
        for _, record in records(path, series):
            rows.append(flat(record, series.id))
            count += 1
            if len(rows) == _ROWS:
                writer.write_table(pyarrow.Table.from_pylist(rows, schema=schema))
                rows = []
        writer.write_table(pyarrow.Table.from_pylist(rows, schema=schema))
    return count


def _axis(name: str) -> Callable[[Mapping[str, Any]], Any]:
    return lambda record: record["axes"].get(name)


def _lat(name: str) -> Callable[[Mapping[str, Any]], Any]:
    return lambda record: record["latency"]["lat"][name]


def _cpu(name: str) -> Callable[[Mapping[str, Any]], Any]:
    return lambda record: record["cpu"][name]


#: Columns of flat exports: type, and how each is had from a record. ``series`` stands before them.
COLUMNS: Final[Mapping[str, tuple[str, Callable[[Mapping[str, Any]], Any]]]] = {
    "case": ("text", lambda record: record["case"]),
    "suite": ("text", lambda record: record["suite"]),
    "phase": ("text", lambda record: record["phase"]),
    **{name: ("text", _axis(name)) for name in ("datapath", "medium", "target", "workload", "destination")},
    **{name: ("int", _axis(name)) for name in ("bs", "qd", "jobs", "gpus")},
    **{name: ("text", _axis(name)) for name in ("batch", "cache", "durability", "arrivals")},
    "effective": ("text", lambda record: record["effective"]["datapath"]),
    "ios": ("int", lambda record: record["ios"]),
    "bytes": ("int", lambda record: record["bytes"]),
    "seconds": ("float", lambda record: record["seconds"]),
    "iops": ("float", lambda record: record["iops"]),
    "bytes_per_s": ("float", lambda record: record["bytes_per_s"]),
    "mean_ns": ("float", _lat("mean_ns")),
    **{name: ("int", _lat(name)) for name in ("p50_ns", "p90_ns", "p95_ns", "p99_ns", "p999_ns", "max_ns")},
    "windows": ("int", lambda record: record["windows"]["count"]),
    "rel_ci": ("float", lambda record: record["windows"]["rel_ci"]),
    "cpu_seconds": ("float", _cpu("seconds")),
    **{name: ("float", _cpu(name)) for name in ("cores_used", "cores_reserved", "gb_per_s_per_core", "ns_per_io")},
    "unsettled": ("bool", lambda record: bool(failed_gates(record, "unsettled"))),
    "series": ("text", lambda record: record["series"]),
}


def flat(record: Mapping[str, Any], series: str) -> dict[str, Any]:
    """A record as one row of :data:`COLUMNS`."""
    whole = {**record, "series": series}
    return {name: value(whole) for name, (_, value) in COLUMNS.items()}


def _row(line: journal.Line, record: Mapping[str, Any]) -> bytes:
    axes = record["axes"]
    head = {
        "group": f"{axes['medium']}/{axes['workload']}",
        "name": f"{record['suite']}[{axes['workload'].partition('/')[2]} {within_workload(axes)}]",
        "fullname": record["case"],
        "params": axes,
        "param": None,
    }
    stats = stats_of(record["windows"]["seconds"], record["windows"]["ios_per_window"])
    # The record itself is copied as it stands in the journal.
    return b'%b,"extra_info":{"gpuio":%b},"options":%b,"stats":%b}' % (
        _json(head)[:-1], line.raw, _OPTIONS.encode(), _json(stats),
    )  # fmt: skip


def _block(path: str | os.PathLike[str], series: Series) -> dict[str, Any]:
    wanted = {number: kind for kind, number in series.fates.values()}
    told: dict[str, list[Any]] = {"void": [], "failure": [], "skip": []}
    for line in journal.scan(path):
        if line.number in wanted:
            told[line.kind].append(line.body())
    return dict(
        benchmark_block(
            interrupted=series.ended != "complete",
            machine=series.start["machine"],
            voids=told["void"],
            skips=told["skip"],
            failures=told["failure"],
            settings={"series": series.id, **series.start["settings"]},
        )
    )


_COMMIT: Final = {
    "id": "unversioned", "time": None, "author_time": None, "dirty": False, "project": "sweep", "branch": "(unknown)",
}  # fmt: skip


def _machine_info(series: Series) -> dict[str, Any]:
    cpu = series.start["machine"].get("cpu") or {}
    return {
        "node": platform.node(),
        "processor": platform.processor(),
        "machine": platform.machine(),
        "python_compiler": platform.python_compiler(),
        "python_implementation": platform.python_implementation(),
        "python_implementation_version": platform.python_version(),
        "python_version": platform.python_version(),
        "python_build": list(platform.python_build()),
        "release": platform.release(),
        "system": platform.system(),
        "cpu": {"arch": platform.machine(), "brand_raw": cpu.get("model"), "count": os.cpu_count()},
        "gpuio": {"machine": dict(series.start["machine"])},
    }


def _json(value: Any) -> bytes:
    return strict_json.dumps(value, what="export").encode("ascii")


@contextmanager
def _new_file(path: str | os.PathLike[str]) -> Iterator[BinaryIO]:
    """A file that appears when it is complete; one that is there is replaced only by the whole new one."""
    place = Path(path)
    temporary = place.with_name(f".{place.name}.{secrets.token_hex(4)}.tmp")
    try:
        with temporary.open("xb", buffering=1 << 20) as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        if os.path.lexists(place):
            raise ConfigError(f"{place} exists: name another file, or remove it first. Nothing is ever replaced.")
        temporary.rename(place)
        sync_directory(place.parent)
    except OSError as error:
        raise GpuioError(f"{place} cannot be written: {error.strerror}.") from error
    finally:
        temporary.unlink(missing_ok=True)
