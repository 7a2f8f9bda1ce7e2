"""How cells grow with the number of GPUs: totals, the share of each GPU, and where the CPUs are used up."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from rich.text import Text

from pytest_gpuio.report import numbers
from pytest_gpuio.report.labels import within_workload
from pytest_gpuio.report.tables import new_table, render
from pytest_gpuio.results.record import CellRecord, Gpu

#: Share of the CPUs that are there from which on more GPUs can bring nothing.
CPU_FULL: Final = 0.9
#: From near to far, see :data:`pytest_gpuio.machine.topology.DISTANCES`.
_WAYS: Final = ("same_switch", "same_root_complex", "same_node", "other_node")
_HEADS: Final = ("GPUs", "GB/s", "per GPU", "of 1 GPU x N", "cores", "of")


def scaling_table(records: Sequence[CellRecord], width: int = 120, *, colour: bool = False) -> str:
    """A row for each number of GPUs of cells that differ in nothing else.

    Args:
        records: measured cells.
        width: columns of the terminal.
        colour: with ANSI escapes.

    Returns:
        Lines that end in a newline; empty when no cell was measured with several numbers of GPUs.
    """
    groups: dict[str, list[CellRecord]] = {}
    for record in records:
        if record.get("gpu") is not None:
            axes = {name: value for name, value in record["axes"].items() if name != "gpus"}
            name = f"{axes['workload']} {within_workload(axes)}"
            groups.setdefault(name, []).append(record)
    table = new_table()
    table.add_column("scaling", no_wrap=True)
    for head in _HEADS:
        table.add_column(head, no_wrap=True, justify="right")
    table.add_column("")
    found = False
    for name, cells in groups.items():
        cells.sort(key=lambda record: record["axes"]["gpus"])
        if len({record["axes"]["gpus"] for record in cells}) < 2:
            continue
        found = True
        base = cells[0]["gb_per_s"] / int(cells[0]["axes"]["gpus"])
        for index, record in enumerate(cells):
            table.add_row(Text("" if index else name), *map(Text, _row(record, base)))
    return render(table, width, colour=colour) if found else ""


def _row(record: CellRecord, base: float) -> tuple[str, ...]:
    gpu = record["gpu"]
    assert gpu is not None
    count, used = int(record["axes"]["gpus"]), record["cpu"]["cores_used"]
    rates = [share["gb_per_s"] for share in gpu["shares"]]
    low, high = numbers.rate(min(rates)), numbers.rate(max(rates))
    return (
        str(count),
        numbers.rate(record["gb_per_s"]),
        low if low == high else f"{low}..{high}",
        f"{record['gb_per_s'] / (base * count):.2f}" if base > 0 else numbers.UNKNOWN,
        numbers.cores(used),
        str(gpu["cores"]),
        ", ".join(
            remark for remark in ("CPUs used up" if used >= CPU_FULL * gpu["cores"] else "", _way(gpu)) if remark
        ),
    )


def _way(gpu: Gpu) -> str:
    """The longest way from the target to one of the GPUs, where it is known; what a row of far GPUs is told by."""
    known = [share.get("distance", "unknown") for share in gpu["shares"]]
    if not known or "unknown" in known:
        return ""
    return max(known, key=_WAYS.index).replace("_", " ")
