"""Which cells share a measuring child, what it is started with, and how it is asked."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from pytest_gpuio.core.cell import Cell
from pytest_gpuio.core.errors import ChildDied, EngineError
from pytest_gpuio.datapaths import DataPath
from pytest_gpuio.datapaths.spdk import SPDK
from pytest_gpuio.isolation import Children
from pytest_gpuio.measure.pace import Pacer
from pytest_gpuio.measure.prepare import spdk_memory

CHILD_MODULE = "pytest_gpuio.measure.child"
#: (what is going on, values): for a live line; called in the parent, between the child's windows.
Progress = Callable[[Mapping[str, Any]], None]


def child_family(cell: Cell, path: DataPath, target: Path) -> str:
    """Cells with the same one share a measuring child.

    A CUDA context brings threads that host cells need not have; SPDK starts once per process, for one namespace, with
    as much memory as it was given then.
    """
    if not path.file:
        return f"{path.family}-{cell.target}-{spdk_memory(cell, target)}"
    return path.family if cell.destination == path.destinations[0] else f"{path.family}-{cell.destination}"


def family_env(family: str) -> Mapping[str, str]:
    """Variables that a family's child is started with: SPDK's libraries find one another through the loader's path."""
    folder = os.environ.get("GPUIO_SPDK_LIBDIR")
    if not folder or family.partition("-")[0] != SPDK.family:
        return {}
    rest = os.environ.get("LD_LIBRARY_PATH")
    return {"LD_LIBRARY_PATH": folder if not rest else f"{folder}:{rest}"}


def ask(
    children: Children,
    family: str,
    op: str,
    params: Mapping[str, Any],
    *,
    deadline_s: float,
    silence_s: float | None = None,
    progress: Progress,
    pacer: Pacer | None = None,
) -> Any:
    """One request to a family's child, which is replaced when it did not survive or cannot be trusted any more."""
    child = children.get(family)

    def forward(event: str, values: Mapping[str, Any]) -> None:
        if event == "progress":
            progress(values)
        elif event == "pace" and pacer is not None:
            child.answer(*pacer(values["values"]).encode(values["number"]))

    try:
        return child.request(op, dict(params), deadline_s=deadline_s, silence_s=silence_s, on_event=forward)
    except (ChildDied, EngineError):
        children.replace(family)
        raise
