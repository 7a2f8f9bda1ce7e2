"""The CPU meter of one cell: it stands at both ends of every window and of the measured stretch."""

from __future__ import annotations

import os
from collections.abc import Collection, Mapping, Sequence
from dataclasses import asdict
from functools import cache
from pathlib import Path
from typing import Any

from pytest_gpuio.core.errors import ConfigError
from pytest_gpuio.engine import Window
from pytest_gpuio.machine.kernel import irq_time_accounting
from pytest_gpuio.measure import control, cpu, host, interrupts, perf, processes, sqpoll

_NO_WARM_UP = "no window was warmed up with the counters on"


@cache
def idle_cores() -> float | None:
    """Cores the idle host uses; watched once per child, a second long."""
    return host.idle_cores()


@cache
def interrupts_outside_tasks() -> bool | None:
    """Whether the kernel keeps interrupt time out of task time; read once per child."""
    return irq_time_accounting(Path("/"), os.uname().release)


class CpuMeter:
    """Counts from warm-up to the end of the measured stretch.

    Make it before the run is opened: the threads that the run starts inherit the processor's counters, which are on in
    warm-up only, since they cost time at every switch of threads.

    Args:
        daemons: ids of outside processes that are part of the account.
        controlled: the stretch may be long enough for a trusted control: watch the idle host for a second first, once
            per child, and follow processes that end.

    Raises:
        ConfigError: a daemon does not exist.
    """

    def __init__(self, daemons: Sequence[int] = (), *, controlled: bool = False) -> None:
        self._daemons = {pid: processes.process_name(pid) for pid in daemons}
        gone = [pid for pid in daemons if pid not in processes.clocks(daemons)]
        if gone:
            raise ConfigError(
                f"there is no process {', '.join(map(str, gone))}: --gpuio-daemon takes the ids of running processes."
            )
        self._controlled = controlled
        self._idle_cores = idle_cores() if controlled else None
        self._counters = perf.Counters()
        self._per_io: dict[str, float] | None = None
        self._perf_reason = self._counters.reason or _NO_WARM_UP
        self._perf_before: dict[str, tuple[int, int, int]] | None = None
        self._measuring = False

    def start(self) -> None:
        """Warm-up is over, the measured stretch begins; called again, everything measured so far was warm-up."""
        self._counters.close()
        self._measuring = True
        self._threads = cpu.ThreadMeter()
        self._total_s = 0.0
        self._submitters: list[tuple[int, float]] = []
        self._daemon_s = dict.fromkeys(self._daemons, 0.0)
        self._pollers = sqpoll.pollers()
        self._before = self._after = control.look(first=True, ended=self._controlled)

    def begin_window(self) -> None:
        """The next call is the window."""
        if self._measuring:
            self._daemons_before = processes.clocks(self._daemons)
            self._threads.begin()
        else:
            self._perf_before = self._counters.read()

    def end_window(self, window: Window) -> None:
        """The last call was the window."""
        if not self._measuring:
            grown = perf.growth(self._perf_before, self._counters.read())
            if grown is not None and window.ios:
                self._per_io = {name: value / window.ios for name, value in grown.items()}
            elif self._counters.reason is None:
                self._perf_reason = "the processor's counters were taken by others all the time"
            return
        if window.stopped:  # it is no part of the figures
            return
        self._threads.end()
        self._total_s += window.cpu_ns / 1e9
        for worker, result in enumerate(window.workers):
            earlier = self._submitters[worker][1] if worker < len(self._submitters) else 0.0
            self._submitters[worker : worker + 1] = [(result.tid, earlier + result.cpu_ns / 1e9)]
        for pid, now in processes.clocks(self._daemons).items():
            self._daemon_s[pid] += (now - self._daemons_before.get(pid, now)) / 1e9

    def finish(self, serving: Sequence[int] | None) -> dict[str, Any]:
        """Everything counted, as JSON-able values.

        Args:
            serving: CPUs that served the target's interrupts; None = unknown.
        """
        self._after = after = control.look(first=False, ended=self._controlled)
        useful, sq_reason = sqpoll.useful_share(self._pollers, sqpoll.pollers())
        shares = cpu.split(self._total_s, self._submitters, self._threads.threads(), os.getpid())
        times = self._before.times, after.times
        accounted = interrupts_outside_tasks()
        hard, soft, whose = interrupts.seconds_outside_tasks(*times, accounted=accounted, serving=serving)
        everywhere = interrupts.seconds_outside_tasks(*times, accounted=accounted, serving=None)
        weighed = control.weigh(
            self._before,
            after,
            outside_s=(everywhere[0] or 0.0) + (everywhere[1] or 0.0),
            daemons=self._daemons,
            idle_cores=self._idle_cores,
        )
        per_io: Mapping[str, float] = self._per_io or {}
        return {
            "threads": [asdict(share) for share in shares],
            "steal_s": None if None in times else host.stolen(*times),  # type: ignore[arg-type]
            "irq_s": hard,
            "softirq_s": soft,
            "irq_reason": whose,
            "daemons": [
                {"pid": pid, "name": name, "seconds": self._daemon_s[pid]} for pid, name in self._daemons.items()
            ],
            "sq_useful_share": useful,
            "sq_reason": sq_reason,
            "cycles_per_io": per_io.get("cycles"),
            "instructions_per_io": per_io.get("instructions"),
            "perf_reason": None if per_io else self._perf_reason,
            "control": asdict(weighed),
        }

    def steal(self, cpus: Collection[int]) -> dict[str, Any]:
        """What the hypervisor took from CPUs (empty = all) over the finished stretch; see :func:`host.steal`."""
        return host.steal(self._before.times, self._after.times, cpus)

    def close(self) -> None:
        """Stop counting, also after an error; closing twice does nothing."""
        self._counters.close()
