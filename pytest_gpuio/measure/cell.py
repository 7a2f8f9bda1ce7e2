"""Child side: run one planned cell and return what was observed, judged by nobody yet."""

from __future__ import annotations

import fcntl
import math
import os
import time
from array import array
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import asdict
from functools import partial
from typing import TYPE_CHECKING, Any, BinaryIO

from pytest_gpuio.engine import (
    HISTOGRAMS,
    Clock,
    Histogram,
    Pool,
    Run,
    Window,
    gpus,
    results_for,
)
from pytest_gpuio.measure import interrupts, processes, surroundings
from pytest_gpuio.measure.binned import histogram_values
from pytest_gpuio.measure.gpu_meter import GpuMeter
from pytest_gpuio.measure.gpu_shares import Shares
from pytest_gpuio.measure.host import LEAST_CONTROL_S
from pytest_gpuio.measure.libraries.run import LibraryRun
from pytest_gpuio.measure.meter import CpuMeter
from pytest_gpuio.measure.opening import (
    describe_namespace,
    draw_schedule,
    offered_rate,
    open_meter,
    open_rank,
    open_run,
    opened_target,
)
from pytest_gpuio.measure.pace import Pace, Verdict, sleep_until
from pytest_gpuio.measure.page_cache import PageCache
from pytest_gpuio.measure.placement import buffer_nodes, running_among
from pytest_gpuio.measure.plan import Plan
from pytest_gpuio.measure.replay import fixed_ios, opened_files
from pytest_gpuio.measure.stopping import StoppingRule, StopReason, WarmUp
from pytest_gpuio.measure.windows import compute_alone, real_time, window_values
from pytest_gpuio.media import read_counters
from pytest_gpuio.targets import maps_synchronously, says_dax

if TYPE_CHECKING:
    from pytest_gpuio.isolation.serve import Emit
    from pytest_gpuio.measure.cufile import CuFileMeter
    from pytest_gpuio.measure.frameworks.run import FrameworkRun
    from pytest_gpuio.measure.ranks import RankedRun, Ranks

    #: Whatever makes windows.
    AnyRun = Run | LibraryRun | FrameworkRun | RankedRun

_PROGRESS_EVERY_S = 1.0
_RESTARTS = 3
#: What other ranks may take longer to get ready: to lay out files, open them and warm up.
_RANKS_S = 300.0
#: A window grows by so much at most on the word of one so short that its start outweighs its requests.
_STEEPEST = 16.0
_TELLING_S = 2e-4
#: What a window's I/O count aims at, in window lengths: one that is too short is measured again. A budget for warm-up
#: means that time is short: next to nothing is added. The last one is for measuring again.
_AIM, _AIM_OF_BUDGET, _AIM_AGAIN = 1.2, 1.02, 1.5
#: Another window of warm-up is worth it when the budget has room for so many of the last one; it takes this much of it.
_WORTH_ONE_MORE, _OF_ROOM = 1.5, 0.85


class CellRun:
    """One cell from open file to outcome."""

    def __init__(self, plan: Plan, clock: Clock, pool: Pool, stop: memoryview, emit: Emit) -> None:
        self._plan = plan
        self._clock = clock
        self._pool = pool
        self._stop = stop
        self._emit = emit
        self._shares = Shares(())
        self._ranks: Ranks | None = None
        others: tuple[int, ...] = ()
        if plan.replay is not None and plan.replay.parts:
            # Only here: what it takes to start processes is no part of other cells' start.
            from pytest_gpuio.measure.ranks import Ranks

            if plan.replay.objects:
                # Imported once, before the ranks are forked.
                from pytest_gpuio.measure.frameworks import FRAMEWORKS

                FRAMEWORKS[plan.engine]()
            self._ranks = Ranks(plan, partial(open_rank, plan, clock, stop))
            others = self._ranks.pids
        self._meter = CpuMeter((*plan.daemons, *others), controlled=plan.max_time >= LEAST_CONTROL_S)
        self._cufile: CuFileMeter | None = None
        self._gpus: GpuMeter | None = None
        self._fd = -1
        self._cache = PageCache(plan, [])
        self._results: BinaryIO | None = None
        self._pace: Pace | None = None
        if plan.paced:
            from pytest_gpuio.isolation.serve import answer_words

            self._pace = Pace(answer_words(), stop, emit, _RANKS_S + plan.timeout_s)
        self._group_results: array[int] = array("Q")
        self._progress_at = time.monotonic()

    def outcome(self) -> dict[str, Any]:
        """Measure.

        Returns:
            JSON-able observations; see :mod:`pytest_gpuio.measure.assemble` for what is made of them.

        Raises:
            EngineError: the engine could not be opened, broke, or a window was stuck.
            CellVoid: the cache state asked for could not be reached.
        """
        plan = self._plan
        started = time.monotonic()
        with ExitStack() as stack:
            stack.callback(self._meter.close)
            if self._ranks is not None:
                stack.callback(self._ranks.close)
            direct = None
            fds: tuple[int, ...] = ()
            if plan.replay is not None:
                fds = stack.enter_context(opened_files(plan, plan.replay))
                self._results = stack.enter_context(open(plan.replay.results, "ab"))  # noqa: PTH123
            if plan.path is not None and not (plan.replay is not None and plan.replay.objects):
                generic = False
                if plan.replay is None:
                    self._fd, generic = stack.enter_context(opened_target(plan, plan.path))
                    regions = [(self._fd, plan.region_offset, plan.region_bytes)]
                else:
                    self._fd = fds[0]
                    files = zip(fds, plan.replay.files, strict=True)
                    regions = [(fd, file.data_offset, file.data_bytes) for fd, file in files]
                if not generic and not plan.mapped:
                    self._cache = PageCache(plan, regions)
                    direct = bool(fcntl.fcntl(self._fd, fcntl.F_GETFL) & os.O_DIRECT)
            resident_before = self._cache.prepare()
            schedule = draw_schedule(plan)
            run: AnyRun
            if self._ranks is None:
                run = open_run(plan, self._fd, self._clock, self._pool, self._stop, schedule, fds)
            else:
                from pytest_gpuio.measure.ranks import RankedRun

                mine = open_rank(plan, self._clock, self._stop, 0, stack, self._pool)
                run = RankedRun(plan, self._ranks, mine)
            stack.push(run)
            self._cufile = open_meter(plan)
            if plan.gpus:
                self._gpus = GpuMeter({gpu.ordinal: gpu.uuid for gpu in gpus() if gpu.ordinal in plan.gpus})
                stack.callback(self._gpus.close)
            setup_seconds = time.monotonic() - started
            self._shares = Shares(plan.gpus)
            mapping = {"dax": says_dax(self._fd), "map_sync": maps_synchronously(self._fd)} if plan.mapped else {}
            compute_alone(plan, run, tune=True)
            if isinstance(run, Run) and min(plan.cpus, default=-1) >= 0:
                # It sleeps inside windows; a CPU that slept as long would take its time to wake up after each of them.
                stack.enter_context(running_among(plan.cpus))
            ios, warm_up = self._warm_up(run, fixed_ios(plan, schedule))
            alone = [compute_alone(plan, run)]
            observed = self._measure(run, ios, restart=True)
            for attempt in range(_RESTARTS):
                shortest = self._too_short(observed)
                if shortest is None if self._pace is None else not self._pace.again:
                    break
                # The target got faster after warm-up: what was measured becomes warm-up, and windows hold more.
                warm_up.windows += len(observed["windows"])
                warm_up.seconds += sum(w["end_ns"] - w["start_ns"] for w in observed["windows"]) / 1e9
                if shortest is not None:
                    more = _AIM if plan.warm_up_s is not None else _AIM_AGAIN
                    ios = min(int(ios * more * plan.window_s / shortest) + 1, self._most_ios())
                observed = self._measure(run, ios, restart=attempt + 1 < _RESTARTS)
            alone.append(compute_alone(plan, run))
            sweep, swept_at = None, time.monotonic()
            if plan.verify != "none" and observed["windows"]:
                swept = run.sweep()
                sweep = {"checked": swept.checked, "bad": swept.bad, "first_bad": swept.first_bad_offset}
            info = self._pool.info()
            if plan.gpus:
                observed["gpu"] = self._shares.values() | {
                    "slots": run.slots,
                    "map_seconds": info.map_seconds,
                    "pin_seconds": info.pin_seconds,
                    "pinned_bytes": info.pinned_bytes,
                }
            return observed | {
                "direct": direct,
                "compute_alone_ns": alone,
                "facts": run.facts,
                "buffer_nodes": buffer_nodes(info.base),
                "mapping": mapping,
                "offered_rate": offered_rate(schedule),
                "setup_seconds": setup_seconds,
                "ios_per_window": ios,
                "warmup": warm_up.windows,
                "warmup_reason": warm_up.reason,
                "warmup_seconds": warm_up.seconds,
                "sweep": sweep,
                "sweep_seconds": time.monotonic() - swept_at,
                "resident_before": resident_before,
                "resident_after": self._cache.resident(),
                "knobs": sorted(run.effective_knobs),
                "knob_reason": run.knob_reason or None,
                "namespace": describe_namespace(plan),
                "library": None if isinstance(run, Run) else run.library_values(),
                "buffers": {
                    "bytes": run.slots * plan.jobs * plan.bs,
                    "huge_bytes": min(info.huge_bytes, run.slots * plan.jobs * plan.bs),
                },
                "clock": {
                    "source": self._clock.source,
                    "cost_ns": self._clock.cost_ns,
                    "resolution_ns": self._clock.resolution_ns,
                },
            }

    def _too_short(self, observed: Mapping[str, Any]) -> float | None:
        """Seconds of the shortest window if a larger I/O count would make the cell valid, else None."""
        windows = observed["windows"]
        if self._plan.round == "region" or self._plan.open_loop or observed["stop_reason"] == "interrupted":
            return None
        if any(window["errors"] or window["short_ios"] for window in windows):
            return None
        shortest = min(window["end_ns"] - window["start_ns"] for window in windows) / 1e9
        grows = observed["windows"][0]["ios"] < self._most_ios()
        return shortest if shortest < self._plan.least_window_s and grows else None

    def _most_ios(self) -> int:
        # A cold window must not meet a page that it brought in itself.
        return self._plan.blocks if self._plan.cache == "cold" else 1 << 62

    def _next(self, pace: Pace, last: Sequence[Window]) -> Verdict:
        """When the next window begins on every rank, or that none does."""
        if self._plan.cache == "cold":
            self._cache.prepare()
        if not last:
            return pace.ask()
        window, plan = last[0], self._plan
        short = plan.round == "time" and not plan.open_loop and window.ios < self._most_ios()
        return pace.ask(
            start_ns=window.start_ns,
            end_ns=window.end_ns,
            ios=window.ios,
            broken=self._broken(window),
            short=short and window.end_ns - window.start_ns < plan.least_window_s * 1e9,
        )

    def _window(self, run: AnyRun, ios: int, at_ns: int = 0) -> Window:
        if self._plan.cache == "cold" and not at_ns:
            self._cache.prepare()
        if not isinstance(run, Run | LibraryRun):
            run.prepare()
        self._meter.begin_window()
        if at_ns:
            sleep_until(at_ns)
        if self._plan.replay is not None and not isinstance(run, LibraryRun):
            groups = self._plan.replay.groups_count
            window = run.replay(0, groups, self._group_results or results_for(groups))
        else:
            assert isinstance(run, Run | LibraryRun), "what is neither replays records"
            window = run.window(ios)
        self._meter.end_window(window)
        return window

    def _broken(self, window: Window) -> bool:
        return bool(window.errors or window.short_ios or window.stopped)

    def _warm_up(self, run: AnyRun, scheduled: int | None) -> tuple[int, WarmUp]:
        """Find the window's fixed I/O count (an open loop's is its schedule); discard windows until they are flat."""
        plan = self._plan
        most_seconds = max(0.3 * plan.max_time, 0.5) if plan.warm_up_s is None else plan.warm_up_s
        warm_up = WarmUp(most_seconds=most_seconds)
        most = self._most_ios()
        fixed = scheduled if scheduled is not None else plan.blocks if plan.round == "region" else None
        ios = min(plan.least_ios, most) if fixed is None else fixed
        while True:
            window = self._window(run, ios)
            seconds = (window.end_ns - window.start_ns) / 1e9
            self._say("warm-up", seconds, warm_up.windows)
            if self._broken(window):
                warm_up.reason = "broken off"
                return ios, warm_up
            if plan.warm_up_s is not None and fixed is None:
                # The budget pays for finding the count and no more: the count is taken from the last window's speed,
                # which is to be as long as the budget allows, since a short one knows little.
                per_window = max(_AIM_OF_BUDGET * plan.window_s / max(seconds, 1e-9), 1.0)
                room = plan.warm_up_s - warm_up.seconds - seconds
                if room < _WORTH_ONE_MORE * seconds:
                    warm_up.done(seconds, ios)
                    warm_up.reason = f"{plan.warm_up_s * 1e3:g} ms of warm-up asked for"
                    return min(max(int(ios * per_window), ios) + 1, most), warm_up
                warm_up.windows += 1
                warm_up.seconds += seconds
                ios = min(int(ios * min(per_window, 8.0, _OF_ROOM * room / max(seconds, 1e-9))) + 1, most)
                continue
            if fixed is None and seconds < plan.window_s and ios < most:
                steepest = _STEEPEST if seconds < _TELLING_S else _STEEPEST**2
                growth = min(max(_AIM * plan.window_s / max(seconds, 1e-9), 1.5), steepest)
                ios = min(int(ios * growth) + 1, most)
                warm_up.seconds += seconds
                continue
            if warm_up.done(seconds, ios):
                return ios, warm_up

    def _measure(self, run: AnyRun, ios: int, *, restart: bool) -> dict[str, Any]:
        """Windows of ``ios`` requests until the stopping rule says so; with ``restart``, a short one ends it, too."""
        plan = self._plan
        rule = StoppingRule(plan.precision, plan.max_time)
        if plan.windows is not None:
            rule = StoppingRule(0.0, math.inf, most_windows=plan.windows)
        restart = restart and plan.round == "time" and not plan.open_loop and ios < self._most_ios()
        windows: list[Window] = []
        costs: list[float] = []
        seconds = 0.0
        histograms = {name: Histogram.empty() for name in HISTOGRAMS}
        if self._pace is not None:
            self._pace.ask()  # every rank has warmed up
        around = self._surroundings()
        self._shares = Shares(plan.gpus)
        self._meter.start()
        interrupts_before = interrupts.read(plan.interrupt_names)
        counters_before = read_counters(plan.counted)
        called_before = processes.called_bytes()
        if self._cufile is not None:
            self._cufile.begin()
        if self._gpus is not None:
            self._gpus.begin()
        stop_reason: StopReason | None = None
        if self._plan.replay is not None:
            self._group_results = results_for(self._plan.replay.groups_count)
        while stop_reason is None:
            verdict = Verdict() if self._pace is None else self._next(self._pace, windows[-1:])
            if verdict.end is not None or verdict.again:
                stop_reason = verdict.end or "max_windows"
                break
            window = self._window(run, ios, verdict.at_ns)
            if window.stopped:
                stop_reason = "interrupted"
                break
            windows.append(window)
            self._shares.add(window)
            if self._results is not None:
                self._results.write(self._group_results)
            spent = (window.end_ns - window.start_ns) / 1e9
            seconds += spent
            costs.append(spent / max(window.ios, 1))
            if isinstance(run, Run):
                run.add_histograms(histograms)
            else:
                for name, histogram in run.histograms().items():
                    histograms[name].merge(histogram)
            if self._pace is None:
                if self._broken(window) or (restart and spent < plan.least_window_s):
                    stop_reason = "max_windows"
                    break
                stop_reason = rule.reason(costs, seconds)
            self._say("measuring", seconds, len(windows))
        called_after = processes.called_bytes()
        counters_after = read_counters(plan.counted)
        gpu_meter = None if self._gpus is None else self._gpus.finish()
        cufile = None if self._cufile is None else self._cufile.finish()
        interrupts_after = interrupts.read(plan.interrupt_names)
        serving = interrupts.serving_cpus(interrupts_before, interrupts_after)
        metered = self._meter.finish(serving)
        afterwards = self._surroundings()
        metered["runqueue_wait_s"] = surroundings.waited_seconds(around, afterwards)
        delta = None if counters_before is None or counters_after is None else counters_after - counters_before
        return {
            "stop_reason": stop_reason,
            "windows": [window_values(window) for window in windows],
            "latency": {name: histogram_values(histogram) for name, histogram in histograms.items()},
            "threads": metered.pop("threads"),
            "cpu": metered,
            "counters": None if delta is None else asdict(delta),
            "called_bytes": processes.growth(called_before, called_after),
            "cufile": cufile,
            "gpu_meter": gpu_meter,
            "irq_cpus": serving,
            "interrupts": interrupts.total(interrupts_before, interrupts_after),
            "worker_cpus": [result.cpu for result in windows[0].workers] if windows else [],
            "real_time": real_time(windows[0]) if windows else False,
            "surroundings": surroundings.between(around, afterwards)
            | self._meter.steal(self._used_cpus())
            | {"io_limits": list(surroundings.io_limits(plan.limited))},
        }

    def _used_cpus(self) -> tuple[int, ...]:
        # Unpinned workers may run anywhere.
        return () if -1 in self._plan.cpus else (*self._plan.cpus, *self._plan.sq_cpus)

    def _surroundings(self) -> surroundings.Snapshot:
        return surroundings.take(self._used_cpus(), self._plan.devices)

    def _say(self, stage: str, seconds: float, windows: int) -> None:
        now = time.monotonic()
        if now - self._progress_at >= _PROGRESS_EVERY_S:
            self._progress_at = now
            self._emit("progress", stage=stage, seconds=seconds, windows=windows)
