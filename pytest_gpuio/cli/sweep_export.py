"""``gpuio sweep export``: a sweep's records for other tools, at any time."""

from __future__ import annotations

import argparse
import sys
from typing import Final

from pytest_gpuio.core.errors import ConfigError
from pytest_gpuio.sweep.export import choose, read_series, write_benchmark_json, write_parquet

_EXAMPLES: Final = """\
examples:

    gpuio sweep export --journal hour.jsonl --benchmark-json hour.json
    pytest-benchmark compare hour.json; gpuio recommend hour.json

    gpuio sweep export --journal hour.jsonl --parquet hour.parquet
        One row per cell (needs pyarrow: pip install 'pytest-gpuio[parquet]').

Also while the sweep runs: what is finished by then is exported. Memory holds one record at a time. Of a journal with
several series the last one is exported, or the one that --series names; `gpuio sweep status` lists them.
"""


def parser() -> argparse.ArgumentParser:
    """Arguments of ``gpuio sweep export``."""
    result = argparse.ArgumentParser(
        "gpuio sweep export",
        usage="gpuio sweep export --journal FILE [--benchmark-json FILE] [--parquet FILE]",
        description="Writes the records of a sweep's journal as pytest-benchmark JSON or Parquet.",
        epilog=_EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    result.add_argument("--journal", metavar="FILE", help="of the sweep")
    result.add_argument("--series", metavar="ID", help="which series, by the beginning of its id (default: the last)")
    result.add_argument("--benchmark-json", metavar="FILE", help="as pytest --benchmark-json writes it")
    result.add_argument("--parquet", metavar="FILE", help="a table with a row per cell")
    return result


def run(arguments: argparse.Namespace) -> int:
    """Writes what was asked for.

    Returns:
        0.

    Raises:
        ConfigError: nothing was named, the file is no sweep's journal, or a name is taken.
        CapabilityMissing: Parquet without pyarrow.
        GpuioError: a file cannot be read or written.
    """
    if not arguments.journal:
        raise ConfigError("name the journal: gpuio sweep export --journal FILE.")
    if not arguments.benchmark_json and not arguments.parquet:
        raise ConfigError("name what to write: --benchmark-json FILE or --parquet FILE.")
    series = choose(read_series(arguments.journal), arguments.series)
    for out, write in ((arguments.benchmark_json, write_benchmark_json), (arguments.parquet, write_parquet)):
        if out:
            count = write(arguments.journal, out, series)
            sys.stdout.write(f"{out}: {count:,} cells of series {series.id}\n")
    return 0
