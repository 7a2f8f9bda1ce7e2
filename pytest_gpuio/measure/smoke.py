"""Child side: does a planned cell work at all?"""

from __future__ import annotations

from contextlib import ExitStack

from pytest_gpuio.core.errors import GpuioError
from pytest_gpuio.engine import Clock, Pool, Run, results_for
from pytest_gpuio.measure.libraries.run import LibraryRun
from pytest_gpuio.measure.opening import open_run, opened_target
from pytest_gpuio.measure.plan import Plan
from pytest_gpuio.measure.replay import opened_files


def smoke(plan: Plan, clock: Clock, pool: Pool, stop: memoryview) -> dict[str, int]:
    """One tiny untimed window, for ``--benchmark-disable`` and xdist: does the cell work at all?

    Raises:
        GpuioError: an I/O failed, was short, or brought wrong data.
    """
    with ExitStack() as stack:
        fd = -1
        if plan.path is not None and plan.replay is None:
            fd, _generic = stack.enter_context(opened_target(plan, plan.path))
        fds: tuple[int, ...] = ()
        if plan.replay is not None:
            fds = stack.enter_context(opened_files(plan, plan.replay))
        run = open_run(plan, fd, clock, pool, stop, fds=fds)
        stack.push(run)
        if plan.replay is not None and not isinstance(run, LibraryRun):
            window = run.replay(0, plan.replay.groups_count, results_for(plan.replay.groups_count))
        else:
            assert isinstance(run, Run | LibraryRun), "what is neither replays records"
            window = run.window(min(plan.in_flight, plan.blocks))
        checked = bad = 0
        if plan.foreign_zeros is None:
            swept = run.sweep()
            checked, bad = swept.checked, swept.bad
        if window.errors or window.short_ios or bad:
            raise GpuioError(
                f"smoke run: {window.errors} failed, {window.short_ios} short, {bad} wrong blocks of {window.ios}"
            )
        return {"ios": window.ios, "checked": checked}
