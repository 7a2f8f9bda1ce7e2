"""``gpuio report``: one page people look at, or pictures of its charts."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from pytest_gpuio.analysis.recommend import recommend
from pytest_gpuio.cli.output import put
from pytest_gpuio.core.errors import ConfigError
from pytest_gpuio.report.recommend import recommend_markdown
from pytest_gpuio.report.tables import results_markdown
from pytest_gpuio.results import strict_json
from pytest_gpuio.results.runs import RunFile, read_runs

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
    return result


def run(arguments: argparse.Namespace) -> int:
    """Writes what was asked for.

    Returns:
        0.

    Raises:
        ConfigError: nothing to write was named, unreadable runs, a gate file that is none.
        CapabilityMissing: vl-convert is not installed.
    """
    if not (arguments.output or arguments.png or arguments.svg or arguments.markdown):
        raise ConfigError("name what to write: -o PAGE.html, --png FOLDER, --svg FOLDER or --markdown FILE.")
    runs = read_runs(arguments.files)
    gates = [_gate(path) for path in arguments.gate]
    if arguments.output:
        _write_page(arguments, runs, gates)
    for kind in ("png", "svg"):
        if getattr(arguments, kind):
            _write_pictures(runs, kind, Path(getattr(arguments, kind)))
    if arguments.markdown:
        newest: dict[str, Mapping[str, Any]] = {}
        for one in runs:
            newest.update(one.cells)
        machine = runs[-1].machine
        put(
            arguments.markdown,
            recommend_markdown(recommend(runs), machine) + "\n" + results_markdown(list(newest.values())),
            "w",
        )
    return 0


def _write_page(arguments: argparse.Namespace, runs: Sequence[RunFile], gates: Sequence[Mapping[str, Any]]) -> None:
    from pytest_gpuio.report.page.build import build_page

    page = build_page(runs, recommend(runs), arguments.title, gates)
    put(arguments.output, page, "w")
    sys.stdout.write(f"{arguments.output}: {len(page.encode()) / 1e6:.1f} MB\n")


def _write_pictures(runs: Sequence[RunFile], kind: str, folder: Path) -> None:
    from pytest_gpuio.report.page.build import export_charts

    pictures = export_charts(runs, kind)
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for name, content in pictures.items():
            (folder / name).write_bytes(content)
    except OSError as error:
        raise ConfigError(f"{folder} cannot be written: {os.strerror(error.errno or 0)}.") from None
    sys.stdout.write(f"{folder}: {', '.join(pictures) or 'nothing to draw'}\n")


def _gate(path: str) -> Mapping[str, Any]:
    content = strict_json.read(path)
    if not isinstance(content, dict) or content.get("kind") != "gpuio-gate":
        raise ConfigError(f"{path} is not what gpuio gate --json wrote.")
    return content
