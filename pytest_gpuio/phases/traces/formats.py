"""The table of trace formats, recognising them by content, and reading any of them."""

from __future__ import annotations

import os
from dataclasses import fields
from typing import Final

from pytest_gpuio.core.errors import ConfigError, TraceError
from pytest_gpuio.phases.traces import (
    azure,
    bailian,
    blkparse,
    bpftrace,
    burstgpt,
    iolog,
    mlperf_kv,
    mooncake,
    msr,
    servegen,
)
from pytest_gpuio.phases.traces.block_trace import BlockTrace
from pytest_gpuio.phases.traces.reading import Format, Reading
from pytest_gpuio.phases.traces.request_trace import RequestTrace
from pytest_gpuio.phases.traces.source import Progress, Source, shown

_FORMATS: Final = (
    mooncake.FORMAT,
    bailian.FORMAT,
    azure.FORMAT,
    burstgpt.FORMAT,
    servegen.FORMAT,
    mlperf_kv.FORMAT,
    iolog.FORMAT,
    blkparse.FORMAT,
    bpftrace.FORMAT,
    msr.FORMAT,
)
#: Every format by name.
FORMATS: Final = {entry.name: entry for entry in _FORMATS}
_HEAD_LINES: Final = 60
_FLAGS: Final = {"start_s": "--from", "duration_s": "--for"}


def detect(path: str | os.PathLike[str]) -> Format:
    """The format of a file, by its first lines.

    Raises:
        TraceError: it cannot be read, is empty, or is of no known format.
    """
    source = Source(path)
    head = source.head(_HEAD_LINES)
    if not head:
        source.fail("is empty.")
    for entry in _FORMATS:
        if entry.matches(head):
            return entry
    known = "\n".join(f"  {entry.name:<10} {entry.title}" for entry in _FORMATS)
    raise TraceError(
        f"{source.path}: its first line {shown(head[0])} is of no known format. Known are (--format insists):\n{known}"
    )


def load(
    path: str | os.PathLike[str],
    *,
    format_: str | None = None,
    reading: Reading | None = None,
    skip_malformed: bool = False,
    progress: Progress | None = None,
) -> RequestTrace | BlockTrace:
    """Reads a trace.

    Args:
        path: the file; gzip is read as it is.
        format_: name of its format; None = by content.
        reading: choices; those that its format does not heed are refused.
        skip_malformed: leave malformed lines out, counted in the notes.
        progress: told now and then how far the reading is.

    Raises:
        TraceError: it cannot be read; the text names the lines.
        ConfigError: an unknown format, or a choice that this one does not heed.
    """
    entry = detect(path) if format_ is None else get(format_)
    reading = Reading() if reading is None else reading
    for choice in fields(Reading):
        if getattr(reading, choice.name) is not None and choice.name not in entry.choices:
            flag = _FLAGS.get(choice.name, f"--{choice.name.replace('_', '-')}")
            heeding = ", ".join(other.name for other in _FORMATS if choice.name in other.choices)
            raise ConfigError(f"{flag} means nothing for {entry.name} traces; it is for {heeding}.")
    return entry.read(Source(path, skip_malformed=skip_malformed, progress=progress), reading)


def get(name: str) -> Format:
    """The format of this name.

    Raises:
        ConfigError: there is none.
    """
    if name not in FORMATS:
        raise ConfigError(f"trace format {name!r} is none of {', '.join(FORMATS)}.")
    return FORMATS[name]
