"""Child side: what a planned cell needs, opened: file, schedule, engine or library, and cuFile's counters."""

from __future__ import annotations

import os
from array import array
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from pytest_gpuio.engine import Clock, Pool, Run, RunSpec, find_library
from pytest_gpuio.measure.libraries import LIBRARIES, load_library
from pytest_gpuio.measure.libraries.run import LibraryRun, open_library
from pytest_gpuio.measure.plan import Plan
from pytest_gpuio.measure.replay import load_part, loaded_replay, opened_files, rank_plan
from pytest_gpuio.phases.arrivals import Arrivals
from pytest_gpuio.targets import held, open_target

if TYPE_CHECKING:
    from pytest_gpuio.measure.cufile import CuFileMeter
    from pytest_gpuio.measure.frameworks.run import FrameworkRun


def _new_fields(plan: Plan, arrivals: array[int] | None) -> dict[str, Any]:
    fields: dict[str, Any] = {}
    if plan.sq_cpus:
        fields |= {"sq_cpus": plan.sq_cpus, "sq_idle_ms": plan.sq_idle_ms}
    if plan.gpus:
        copies = plan.copies
        fields |= {
            "gpus": plan.gpus, "copy_wait": copies.wait, "copy_streams": copies.streams, "copy_ahead": copies.ahead,
            "gpu_check": copies.check,
        }  # fmt: skip
    if plan.replay is not None:
        fields["arrival_wait"] = plan.arrival_wait
        fields["compute"] = "kernel" if plan.replay.kernel_ns else "timer"
    if arrivals is not None:
        fields |= {"arrivals": arrivals, "arrival_wait": plan.arrival_wait}
    return fields


def run_spec(plan: Plan, fd: int, arrivals: array[int] | None = None) -> RunSpec:
    """The engine's view of a plan; ``arrivals`` are the intended starts of an open loop, in nanoseconds."""
    return RunSpec(
        engine=plan.engine,
        fd=fd,
        jobs=plan.jobs,
        depth=plan.qd,
        block=plan.bs,
        submit_batch=plan.submit_batch,
        reap_batch=plan.reap_batch,
        order=plan.order,
        read_percent=plan.read_percent,
        sync=plan.sync,
        sync_every=plan.sync_every,
        knobs=frozenset(plan.knobs),
        require_knobs=False,
        verify=plan.verify == "full",
        region_offset=plan.region_offset,
        region_bytes=plan.region_bytes,
        zipf_theta=plan.zipf_theta,
        seed=plan.seed,
        pattern_seed=plan.pattern_seed,
        cpus=plan.cpus,
        timeout_s=plan.timeout_s,
        library=plan.library or find_library(plan.engine),
        **_new_fields(plan, arrivals),
    )


def run_spec_of(plan: Plan) -> RunSpec:
    """The engine's view of a plan without a file yet."""
    return run_spec(plan, -1)


@contextmanager
def opened_target(plan: Plan, path: str) -> Iterator[tuple[int, bool]]:
    """The plan's file or device, open as it asks; a device is held exclusively meanwhile.

    Yields:
        the descriptor, and whether it is an NVMe generic device, or none of the kernel's (-1).
    """
    if plan.spdk_mib is not None:
        yield -1, True
        return
    with held(path, shared=plan.foreign_zeros is not None) as device:
        direct = plan.cache == "direct" and not plan.mapped
        fd = open_target(path, writable=plan.read_percent < 100, direct=direct, dsync=plan.dsync)
        try:
            yield fd, device is not None and device.generic
        finally:
            os.close(fd)


def open_run(
    plan: Plan,
    fd: int,
    clock: Clock,
    pool: Pool,
    stop: memoryview,
    arrivals: array[int] | None = None,
    fds: tuple[int, ...] = (),
) -> Run | LibraryRun | FrameworkRun:
    """What makes the windows: the compiled engine, or a library's calls. ``fds`` are a model's files.

    Raises:
        EngineError: it cannot be opened. CapabilityMissing: the library is not there after all.
    """
    if plan.replay is not None and plan.replay.objects:
        from pytest_gpuio.measure.frameworks.run import FrameworkRun

        return FrameworkRun(plan, None, stop)
    if plan.cufile is not None:
        from pytest_gpuio.measure import cufile

        if plan.engine in LIBRARIES:
            load_library(plan.engine)
        cufile.opened(plan.cufile, shared=plan.engine in LIBRARIES)
    spec = run_spec(plan, fd, arrivals)
    if plan.spdk_mib is not None:
        from pytest_gpuio.measure import spdk

        spec = replace(spec, spdk=spdk.attached(str(plan.path), plan.spdk_mib))
    if plan.replay is not None:
        spec = replace(spec, fd=-1, replay=loaded_replay(plan.replay, fds))
    if plan.engine not in LIBRARIES:
        return Run(spec, clock, pool, stop)
    return open_library(plan, spec, fd, stop)


def open_rank(
    plan: Plan, clock: Clock, stop: memoryview, rank: int, stack: ExitStack, pool: Pool | None = None
) -> Run | FrameworkRun:
    """What runs one rank's part of a plan, in the process of that rank; closed with the stack."""
    assert plan.replay is not None
    mine = rank_plan(plan, rank)
    if plan.replay.objects:
        from pytest_gpuio.measure.frameworks.run import FrameworkRun

        return stack.enter_context(FrameworkRun(mine, rank, stop))
    fds = stack.enter_context(opened_files(mine, plan.replay))
    spec = replace(run_spec_of(mine), fd=-1, replay=load_part(plan.replay, plan.replay.parts[rank], fds))
    return stack.enter_context(Run(spec, clock, pool or Pool(), stop))


def describe_namespace(plan: Plan) -> dict[str, Any] | None:
    """What the controller says of a namespace that SPDK drives; None for all others."""
    if plan.spdk_mib is None:
        return None
    from pytest_gpuio.measure import spdk

    return spdk.describe()


def open_meter(plan: Plan) -> CuFileMeter | None:
    """What looks at cuFile's counters; None where cuFile has no part."""
    if plan.cufile is None:
        return None
    from pytest_gpuio.measure.cufile import CuFileMeter

    return CuFileMeter(plan.cufile)


def draw_schedule(plan: Plan) -> array[int] | None:
    """An open loop's intended starts, worth one window and at least :attr:`Plan.least_ios`; None for a closed loop.

    Raises:
        ConfigError: the file of timestamps is not one, or there are too many arrivals.
    """
    arrivals = Arrivals.parse(plan.arrivals)
    if arrivals.kind == "closed":
        return None
    return arrivals.schedule(max(round(arrivals.rate * 2 * plan.window_s), plan.least_ios), plan.seed)


def offered_rate(schedule: Sequence[int] | None) -> float | None:
    """Arrivals per second of the drawn schedule itself, which differs from the asked rate by the draw."""
    if schedule is None or len(schedule) < 2 or schedule[-1] == schedule[0]:
        return None
    return (len(schedule) - 1) * 1e9 / (schedule[-1] - schedule[0])
