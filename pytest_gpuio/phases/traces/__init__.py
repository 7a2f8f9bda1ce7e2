"""Trace files of requests and of block I/O, as numpy arrays."""

from __future__ import annotations

from pytest_gpuio.phases.traces.block_trace import BlockTrace
from pytest_gpuio.phases.traces.formats import FORMATS, detect, get, load
from pytest_gpuio.phases.traces.reading import Format, Reading
from pytest_gpuio.phases.traces.request_trace import RequestTrace

__all__ = ["FORMATS", "BlockTrace", "Format", "Reading", "RequestTrace", "detect", "get", "load"]
