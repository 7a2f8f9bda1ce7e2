"""The compiled I/O engine, typed: clock, buffers, runs, histograms, data pattern."""

from pytest_gpuio.engine.bare import BareResult, bare_uring
from pytest_gpuio.engine.census import process_clocks, thread_clocks
from pytest_gpuio.engine.clock import Clock
from pytest_gpuio.engine.cufile import CuFile, CuFileInfo, find_cufile, mapped_libraries, needs_cufile
from pytest_gpuio.engine.cufile_counters import CuFileCounters
from pytest_gpuio.engine.engines import (
    engine_is_synchronous,
    engine_names,
    find_library,
    find_liburing,
    load_engine,
    probe,
)
from pytest_gpuio.engine.gpus import GpuInfo, find_libcuda, gpu_count, gpus
from pytest_gpuio.engine.histogram import Histogram
from pytest_gpuio.engine.offsets import offsets
from pytest_gpuio.engine.pattern import pattern_check, pattern_fill
from pytest_gpuio.engine.persist import persist
from pytest_gpuio.engine.pool import Pool, PoolInfo
from pytest_gpuio.engine.replay import NEVER, Replay, results_for
from pytest_gpuio.engine.run import HISTOGRAMS, Run, Sweep, Window, WorkerResult
from pytest_gpuio.engine.spdk import NamespaceInfo, SpdkNamespace
from pytest_gpuio.engine.spec import KNOBS, RunSpec
from pytest_gpuio.engine.usrbio import accepts_usrbio, find_usrbio

__all__ = [
    "HISTOGRAMS",
    "KNOBS",
    "NEVER",
    "BareResult",
    "Clock",
    "CuFile",
    "CuFileCounters",
    "CuFileInfo",
    "GpuInfo",
    "Histogram",
    "NamespaceInfo",
    "Pool",
    "PoolInfo",
    "Replay",
    "Run",
    "RunSpec",
    "SpdkNamespace",
    "Sweep",
    "Window",
    "WorkerResult",
    "accepts_usrbio",
    "bare_uring",
    "engine_is_synchronous",
    "engine_names",
    "find_cufile",
    "find_libcuda",
    "find_library",
    "find_liburing",
    "find_usrbio",
    "gpu_count",
    "gpus",
    "load_engine",
    "mapped_libraries",
    "needs_cufile",
    "offsets",
    "pattern_check",
    "pattern_fill",
    "persist",
    "probe",
    "process_clocks",
    "results_for",
    "thread_clocks",
]
