"""``gpuio trace``: what a trace holds, the same in another format, and what cache tiers leave of it for storage."""

from __future__ import annotations

import argparse
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

from pytest_gpuio.cli.trace_options import add_options, layout_of, prefill_of, reading_of, sizes_of
from pytest_gpuio.core.errors import ConfigError
from pytest_gpuio.core.sizes import parse_size
from pytest_gpuio.phases import traces
from pytest_gpuio.phases.kv_cache import Traffic
from pytest_gpuio.phases.kv_cache.summary import summary as simulation
from pytest_gpuio.phases.traces import BlockTrace, RequestTrace, writers
from pytest_gpuio.phases.traces.block_records import of_records, to_records
from pytest_gpuio.phases.traces.summary import summary
from pytest_gpuio.report.trace import converted_text, info_text, simulation_text
from pytest_gpuio.results import new_file, strict_json

_EXAMPLES: Final = f"""\
formats that are read, known by their content (gzip as it is):

{chr(10).join(f"    {entry.name:<10} {entry.title}" for entry in traces.FORMATS.values())}

formats that are written:

{chr(10).join(f"    {entry.name:<10} {entry.title}" for entry in writers.WRITERS.values())}

examples:

    gpuio trace info conversation_trace.jsonl
    gpuio trace simulate conversation_trace.jsonl --model llama-3.1-8b --hbm 40GiB --dram 512GiB
    gpuio trace simulate conversation_trace.jsonl --model llama-3.1-70b --tp 8 --device 6.5 --granularity chunk
    gpuio trace convert conversation_trace.jsonl kv.iolog --to iolog --model llama-3.1-8b --for 10m \\
        --capacity 64GiB --filename /mnt/nvme0/kv.dat
    gpuio trace convert disk.blkparse disk.fio --to fio-job --filename /mnt/nvme0/test.dat
    gpuio trace convert qwen.jsonl mooncake.jsonl --to mooncake

A trace of requests (when, how many tokens, which prefix) becomes one of I/O through a model's cache: what is found in
HBM and DRAM (LRU) costs storage nothing, what is found in storage is read, what is new is computed and written through.

exit status: 0 done, 2 wrong usage, a malformed trace or a refusal
"""
_SWEEP: Final = "0,64GiB,256GiB,1TiB,4TiB"


def parser() -> argparse.ArgumentParser:
    """Arguments of ``gpuio trace``."""
    result = argparse.ArgumentParser(
        "gpuio trace",
        description="Reads traces of model servers and of block devices. `info` says what one holds and how long its "
        "replay lasts, `convert` writes it in another format, `simulate` runs requests through tiers of HBM and DRAM "
        "in front of storage. Nothing is measured and nothing that exists is overwritten.",
        epilog=_EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    result.add_argument("action", choices=tuple(_ACTIONS), help="info, convert or simulate")
    result.add_argument("file", metavar="FILE", type=Path, help="a trace")
    result.add_argument("out", metavar="OUT", nargs="?", type=Path, help="of convert: a file that does not exist yet")
    result.add_argument("--json", action="store_true", help="write JSON instead of text")
    add_options(result, sweep=_SWEEP)
    return result


def run(arguments: argparse.Namespace) -> int:
    """Does what was asked and says what came of it.

    Returns:
        0.

    Raises:
        GpuioError: the trace cannot be read, or the choices do not go together.
    """
    if (arguments.out is not None) != (arguments.action == "convert"):
        raise ConfigError("`gpuio trace convert FILE OUT --to FORMAT` takes a second path, info and simulate do not.")
    if (arguments.to is not None) != (arguments.action == "convert"):
        raise ConfigError(f"--to says what convert writes: one of {', '.join(writers.WRITERS)}.")
    return _ACTIONS[arguments.action](arguments)


def _info(arguments: argparse.Namespace) -> int:
    found = summary(_load(arguments), arguments.speed)
    _say(arguments, found, info_text)
    return 0


def _simulate(arguments: argparse.Namespace) -> int:
    traffic = _traffic(arguments, _load(arguments))
    sweep = [0 if text.strip() == "0" else parse_size(text, what="--sweep") for text in arguments.sweep.split(",")]
    device = None if arguments.device is None else (arguments.device * 1e9, arguments.latency_us / 1e6)
    found = simulation(traffic, sweep, device)
    _say(arguments, found, simulation_text)
    return 0


def _convert(arguments: argparse.Namespace) -> int:
    writer = writers.get(arguments.to)
    new_file.check_new(arguments.out)
    trace = _load(arguments)
    notes: tuple[str, ...] = ()
    if writer.kind == "block":
        trace, notes = _as_blocks(arguments, trace)
    elif isinstance(trace, RequestTrace):
        trace = trace.scaled(arguments.speed)
    target = writers.Target(arguments.filename or writers.DEFAULT_FILENAME, arguments.iodepth)
    count, size = new_file.write_lines(arguments.out, writer.lines(trace, target))
    timed = writer.name != "fio-job" and (isinstance(trace, RequestTrace) or trace.timed)
    done = {
        "path": str(arguments.out),
        "to": writer.name,
        "from": str(arguments.file),
        "lines": count,
        "bytes": size,
        "records": len(trace),
        "duration_s": trace.span_ns / 1e9 if timed else None,
        "notes": [*trace.notes, *notes],
    }
    _say(arguments, done, converted_text)
    return 0


def _as_blocks(arguments: argparse.Namespace, trace: RequestTrace | BlockTrace) -> tuple[BlockTrace, tuple[str, ...]]:
    """The I/O that is written, in the file that was named for it; and what to tell of it."""
    if isinstance(trace, RequestTrace):
        expanded = _traffic(arguments, trace).records()
        blocks = replace(of_records(expanded.records, str(trace.path)), notes=trace.notes)
    else:
        blocks = trace.scaled(arguments.speed)
        if arguments.capacity is not None or (arguments.filename is not None and arguments.to != "fio-job"):
            capacity = None if arguments.capacity is None else parse_size(arguments.capacity, what="--capacity")
            blocks = replace(of_records(to_records(blocks, capacity), str(trace.path)), notes=trace.notes)
    if arguments.filename is not None and len(blocks.files) == 1:
        blocks = replace(blocks, files=(arguments.filename,))
    if arguments.to != "iolog":
        return blocks, ()
    files, rest = blocks.files[:3], len(blocks.files) - 3
    listed = ", ".join(files) + (f" and {rest:,} more" if rest > 0 else "")
    writing = "writes" if bool((blocks.op == 1).any()) else "reads"
    size = f"up to {int(blocks.extents().max()):,} bytes in a file"
    return blocks, (f"fio {writing} {listed} when it replays this; {size} (--filename, --capacity)",)


def _traffic(arguments: argparse.Namespace, trace: RequestTrace | BlockTrace) -> Traffic:
    if not isinstance(trace, RequestTrace):
        raise ConfigError(
            f"{trace.path} is a trace of I/O ({trace.format}): cache tiers take traces of requests. It can be replayed "
            "or converted as it is."
        )
    layout = layout_of(arguments)
    return Traffic.of(trace.scaled(arguments.speed), layout, prefill_of(arguments), **sizes_of(arguments))


def _load(arguments: argparse.Namespace) -> RequestTrace | BlockTrace:
    reading, start_s, duration_s = reading_of(arguments)
    trace = traces.load(
        arguments.file,
        format_=arguments.format,
        reading=reading,
        skip_malformed=arguments.skip_malformed,
        progress=_progress if sys.stderr.isatty() else None,
    )
    if isinstance(trace, RequestTrace) and arguments.action != "info" and arguments.stamps == "spread":
        # Before a part is taken, of which the steps could not be seen.
        trace = trace.jittered(arguments.seed or 1)
    if start_s is not None or duration_s is not None:
        trace = trace.between(start_s or 0.0, duration_s)
    return trace if arguments.first is None else trace.cut(0, arguments.first)


def _progress(done: int, size: int) -> None:
    sys.stderr.write(f"\rreading: {100 * done / size:.0f} %\x1b[K" + ("\r\x1b[K" if done >= size else ""))


def _say(arguments: argparse.Namespace, found: dict[str, Any], text: Any) -> None:
    if sys.stderr.isatty():
        sys.stderr.write("\r\x1b[K")
    sys.stdout.write(strict_json.dumps(found, indent=1) + "\n" if arguments.json else text(found))


_ACTIONS: Final = {"info": _info, "convert": _convert, "simulate": _simulate}
