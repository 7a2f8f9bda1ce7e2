"""Cases compared across an axis: what differs on purpose is taken out of the key."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any, Final

from pytest_gpuio.core.cell import AXES
from pytest_gpuio.core.errors import ConfigError
from pytest_gpuio.results.runs import RunFile

#: Aspects that change with an axis, so that they may differ when it is compared across.
ALLOWED: Final[Mapping[str, frozenset[str]]] = {
    "datapath": frozenset({"path", "knobs", "direct"}),
    "medium": frozenset({"device", "file_system"}),
    "target": frozenset({"device", "file_system"}),
    "cache": frozenset({"direct"}),
}


def check_axes(axes: Iterable[str]) -> None:
    """Refuses names that are no axis.

    Raises:
        ConfigError: with the list of those there are.
    """
    for axis in axes:
        if axis not in AXES:
            raise ConfigError(f"{axis!r} is no axis: choose from {', '.join(AXES)}.")


def allowed(axes: Iterable[str]) -> frozenset[str]:
    """What may differ between results that are compared across these axes."""
    return frozenset().union(*(ALLOWED.get(axis, frozenset()) for axis in axes))


def without_axes(run: RunFile, axes: Sequence[str]) -> RunFile:
    """The run with cases that do not name these axes.

    Raises:
        ConfigError: two of its cases are then the same, so that it is not known which to compare.
    """
    if not axes:
        return run

    def shorter(case: str) -> str:
        return "|".join(part for part in case.split("|") if part.partition("=")[0] not in axes)

    def renamed(by_case: Mapping[str, Any], *, unique: bool) -> dict[str, Any]:
        result: dict[str, Any] = {}
        for case, value in by_case.items():
            key = shorter(case)
            if unique and key in result:
                raise ConfigError(
                    f"{run.path} holds several cells that differ in {', '.join(axes)} only, such as {case}: "
                    "let each side measure one of them."
                )
            result[key] = value
        return result

    cells = {key: {**record, "case": key} for key, record in renamed(run.cells, unique=True).items()}
    return replace(
        run,
        cells=cells,
        voids=renamed(run.voids, unique=False),
        skips=renamed(run.skips, unique=False),
        failures=renamed(run.failures, unique=False),
    )
