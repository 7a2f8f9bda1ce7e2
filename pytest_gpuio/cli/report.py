"""``gpuio report``: one page people look at, or pictures of its charts."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from pytest_gpuio.analysis.recommend import recommend_by_machine
from pytest_gpuio.cli.output import put, put_json
from pytest_gpuio.core.errors import ConfigError
from pytest_gpuio.report.recommend import recommend_data, recommend_markdown
from pytest_gpuio.report.tables import results_markdown
from pytest_gpuio.results import strict_json
from pytest_gpuio.results.runs import RunFile, newest, read_runs

_EXAMPLES: Final = """\
examples:

    gpuio report gpuio-results.json -o page.html
    gpuio report .benchmarks --gate gate.json -o page.html
        All saved runs: the newest result of each case, and its history over the runs.
    gpuio report results.json --png pictures/ --markdown table.md
        For READMEs and pull requests. SVG: --svg FOLDER.

The page is one file and loads nothing. It needs vl-convert: pip install 'pytest-gpuio[report]'.
"""


def parser() -> argparse.ArgumentParser:
    """Arguments of ``gpuio report``."""
    result = argparse.ArgumentParser(
        "gpuio report",
        usage="gpuio report FILE ... -o PAGE.html [options]",
        description="Draws results: cheat sheet, heat maps, depth and latency curves, CPU, scaling, history, voids.",
        epilog=_EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    result.add_argument("files", nargs="+", metavar="FILE", help="runs, imported files, journals, or a storage folder")
    result.add_argument("-o", "--output", metavar="PAGE.html", help="the page")
    result.add_argument("--title", default="Storage data paths", help="of the page (%(default)s)")
    result.add_argument(
        "--gate", action="append", default=[], metavar="FILE", help="show this verdict of gpuio gate --json"
    )
    result.add_argument("--png", metavar="FOLDER", help="write each chart as PNG")
    result.add_argument("--svg", metavar="FOLDER", help="write each chart as SVG")
    result.add_argument("--markdown", metavar="FILE", help="write the cheat sheet and the table of cells as Markdown")
    result.add_argument("--json", metavar="FILE", help="write what the page shows as JSON (- = standard output)")
    return result


def run(arguments: argparse.Namespace) -> int:
    """Writes what was asked for.

    Returns:
        0.

    Raises:
        ConfigError: nothing to write was named, unreadable runs, a gate file that is none.
        CapabilityMissing: vl-convert is not installed.
    """
    if not any(getattr(arguments, name) for name in ("output", "png", "svg", "markdown", "json")):
        raise ConfigError(
            "name what to write: -o PAGE.html, --png FOLDER, --svg FOLDER, --markdown FILE or --json FILE."
        )
    runs = read_runs(arguments.files)
    gates = [_gate(path) for path in arguments.gate]
    if arguments.output:
        _write_page(arguments, runs, gates)
    for kind in ("png", "svg"):
        if getattr(arguments, kind):
            _write_pictures(arguments, runs, kind, Path(getattr(arguments, kind)))
    if arguments.markdown:
        put(arguments.markdown, report_markdown(runs), "w")
    if arguments.json:
        put_json(arguments.json, _data(runs, gates))
    return 0


def report_markdown(runs: Sequence[RunFile]) -> str:
    """Each machine's cheat sheet, and the table of every cell's newest result."""
    machines = {run.machine_id: run.machine for run in runs}
    parts = [recommend_markdown(found, machines[name]) for name, found in recommend_by_machine(runs).items()]
    return "\n".join([*parts, results_markdown(list(newest(runs).values()))])


def _data(runs: Sequence[RunFile], gates: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """What the page shows, for other programs; histograms and windows stay in the results files."""
    from pytest_gpuio.report.page.rows import page_data

    data = page_data(runs)
    return {
        "kind": "gpuio-report",
        "runs": [
            {"path": run.path, "created": run.created.isoformat(), "machine": run.machine_id, "cells": len(run.cells),
             "interrupted": run.interrupted}
            for run in runs
        ],
        "machines": {run.machine_id: run.machine for run in runs},
        "cells_in_all": data.total,
        "cells": data.cells,
        "history": data.history,
        "recommendations": {
            name: recommend_data(found, {})["recommendations"] for name, found in recommend_by_machine(runs).items()
        },
        "voids": [{"path": run.path, **void} for run in runs for void in run.voids.values()],
        "gates": list(gates),
    }  # fmt: skip


def _write_page(arguments: argparse.Namespace, runs: Sequence[RunFile], gates: Sequence[Mapping[str, Any]]) -> None:
    from pytest_gpuio.report.page.build import build_page

    page = build_page(runs, recommend_by_machine(runs), arguments.title, gates)
    put(arguments.output, page, "w")
    _tell(arguments, f"{arguments.output}: {len(page.encode()) / 1e6:.1f} MB\n")


def _write_pictures(arguments: argparse.Namespace, runs: Sequence[RunFile], kind: str, folder: Path) -> None:
    from pytest_gpuio.report.page.build import export_charts

    pictures = export_charts(runs, kind)
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for name, content in pictures.items():
            (folder / name).write_bytes(content)
    except OSError as error:
        raise ConfigError(f"{folder} cannot be written: {os.strerror(error.errno or 0)}.") from None
    _tell(arguments, f"{folder}: {', '.join(pictures) or 'nothing to draw'}\n")


def _tell(arguments: argparse.Namespace, line: str) -> None:
    # With --json - standard output is JSON and nothing else.
    (sys.stderr if arguments.json == "-" else sys.stdout).write(line)


def _gate(path: str) -> Mapping[str, Any]:
    content = strict_json.read(path)
    if not isinstance(content, dict) or content.get("kind") != "gpuio-gate":
        raise ConfigError(f"{path} is not what gpuio gate --json wrote.")
    return content
