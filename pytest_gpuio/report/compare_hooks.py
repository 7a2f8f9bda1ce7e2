"""How pytest-benchmark's tables group and scale our rows: its own rules, and ``--group-by=gpuio`` on top.

``pytest-benchmark compare`` loads no plugins, only the working folder's conftest.py: that file re-exports these two.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

from pytest_gpuio.core.errors import ConfigError

#: ``gpuio`` stands for medium and workload, so that a group compares data paths on equal terms.
GROUPINGS: Final = ("gpuio", "group", "name", "func", "fullname", "fullfunc", "param")

_TIME_UNITS: Final = {"ns": ("n", 1e9), "us": ("u", 1e6), "ms": ("m", 1e3), "s": ("", 1.0)}


def pytest_benchmark_group_stats(
    config: Any,  # noqa: ARG001 - the hook's signature
    benchmarks: Iterable[dict[str, Any]],
    group_by: str,
) -> list[tuple[str | None, list[dict[str, Any]]]]:
    """Rows by group, both sorted by name.

    Args:
        config: unused; None when called by ``pytest-benchmark compare``.
        benchmarks: flat rows, as pytest-benchmark makes them.
        group_by: comma list of :data:`GROUPINGS` and ``param:NAME``.

    Raises:
        ConfigError: an unknown grouping.
    """
    groupings = check_group_by(group_by)
    groups: dict[str | None, list[dict[str, Any]]] = {}
    for bench in benchmarks:
        parts = (_group_part(bench, grouping) for grouping in groupings)
        groups.setdefault(" ".join(part for part in parts if part) or None, []).append(bench)
    name = "fullname" if "full" in group_by else "name"
    for rows in groups.values():
        rows.sort(key=lambda bench: str(bench[name]))
    return sorted(groups.items(), key=lambda group: group[0] or "")


def pytest_benchmark_scale_unit(
    config: Any,
    unit: str,
    benchmarks: Sequence[Mapping[str, Any]],
    best: Mapping[str, float],
    worst: Mapping[str, float],
    sort: str,
) -> tuple[str, float]:
    """Prefix and factor that a table's figures are shown with, ``("u", 1e6)`` for microseconds.

    Args:
        config: of pytest, or the one ``pytest-benchmark compare`` makes; None = no options.
        unit: ``seconds`` or ``operations``.
        benchmarks: flat rows.
        best: smallest time and largest ops over the rows.
        worst: the opposite.
        sort: column that decides.

    Raises:
        ConfigError: another unit.
    """
    asked = config.getoption("benchmark_time_unit", None) if config else None
    if asked in _TIME_UNITS:  # pytest-benchmark takes the factor for operations from here, too
        return _TIME_UNITS[asked]
    if unit == "seconds":
        seconds = best.get(sort, benchmarks[0]["min" if sort in ("name", "fullname") else sort])
        if seconds < 1e-6:
            return _TIME_UNITS["ns"]
        if seconds < 1e-3:
            return _TIME_UNITS["us"]
        return _TIME_UNITS["ms"] if seconds < 1 else _TIME_UNITS["s"]
    if unit == "operations":
        operations = worst.get("ops", benchmarks[0]["ops"])
        if operations > 1e6:
            return "M", 1e-6
        return ("K", 1e-3) if operations > 1e3 else ("", 1.0)
    raise ConfigError(f"unit {unit!r} is neither 'seconds' nor 'operations'.")


def check_group_by(group_by: str) -> list[str]:
    """The groupings of a comma list.

    Raises:
        ConfigError: one of them is unknown.
    """
    groupings = group_by.split(",")
    for grouping in groupings:
        if grouping not in GROUPINGS and not grouping.startswith("param:"):
            raise ConfigError(f"cannot group by {grouping!r}. Use a comma list of {', '.join(GROUPINGS)}, param:NAME.")
    return groupings


def _group_part(bench: Mapping[str, Any], grouping: str) -> str | None:
    if grouping == "gpuio":
        return _medium_and_workload(bench)
    if grouping.startswith("param:"):
        name = grouping.removeprefix("param:")
        return f"{name}={(bench.get('params') or {}).get(name, '-')}"
    field = {"func": "name", "fullfunc": "fullname"}.get(grouping, grouping)
    value = bench[field]
    if not value:
        return None
    return str(value).split("[", maxsplit=1)[0] if grouping in ("func", "fullfunc") else str(value)


def _medium_and_workload(bench: Mapping[str, Any]) -> str | None:
    """From the record; else from parameters of these names; else the row's own group."""
    record = (bench.get("extra_info") or {}).get("gpuio")
    axes = record.get("axes") if isinstance(record, Mapping) else None
    axes = axes or bench.get("params") or {}
    parts = [str(axes[axis]) for axis in ("medium", "workload") if axis in axes]
    return "/".join(parts) or bench.get("group")
