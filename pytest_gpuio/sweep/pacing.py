"""Keeps the windows of all ranks in step: rank 0 collects who is ready, decides, and names the next start."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Mapping
from typing import Any, Final

from pytest_gpuio.core.errors import GpuioError
from pytest_gpuio.measure.pace import Verdict
from pytest_gpuio.measure.plan import Plan
from pytest_gpuio.measure.stopping import StoppingRule
from pytest_gpuio.sweep.wire import Message, Wire, answer_clock, clock_offset

#: Seconds until all ranks must be in a window: to lay out and open files, and to warm up.
GET_READY_S: Final = 300.0
#: Beyond a window's own deadline.
_SLACK_S: Final = 2.0
#: A start lies so far ahead that the message about it has arrived, and the child has seen it.
_LEAD_NS: Final = 5_000_000
_TRIPS: Final = 4
#: As often may windows turn out too short.
_AGAIN: Final = 3


class Abandoned(GpuioError):
    """Rank 0 gave the cell up; it tells why itself."""


class Conductor:
    """Rank 0's pacer of one cell.

    Args:
        wire: to the others. number: of the cell. plan: of this rank.
        on_word: what to do with a message that is none about pace; raises when the cell is over.
    """

    def __init__(self, wire: Wire, number: int, plan: Plan, on_word: Callable[[int, Message], None]) -> None:
        self._wire, self._number, self._plan, self._on_word = wire, number, plan, on_word
        self._others = [rank for rank in range(wire.size) if rank != wire.rank]
        self._rule = StoppingRule(plan.precision, plan.max_time)
        if plan.windows is not None:
            self._rule = StoppingRule(0.0, math.inf, most_windows=plan.windows)
        self._costs: list[float] = []
        self._seconds = 0.0
        self._again = 0
        self._asked = 0
        # After warm-up, or windows that were too short: first all are there, then all have their meters on and start.
        self._met = self._started = False
        #: Each rank's clock less this one's and how far it may be off, at the cell's begin; and the offset at its end.
        self.clocks: dict[int, tuple[int, int]] = {wire.rank: (0, 0)}
        self.clocks_at_end: dict[int, int] = {wire.rank: 0}

    def __call__(self, values: Mapping[str, Any]) -> Verdict:
        """As :class:`pytest_gpuio.measure.pace.Pacer`."""
        first = self._asked == 0
        self._asked += 1
        # In a window every rank was ready a window ago: who is late now is stuck or lost.
        patience = GET_READY_S + self._plan.timeout_s if not values else self._plan.timeout_s + _SLACK_S
        said = {self._wire.rank: values} | {rank: self._hear(rank, patience) for rank in self._others}
        if first:
            self.clocks |= {rank: clock_offset(self._wire, rank, self._number) for rank in self._others}
        verdict = self._judge(said)
        if verdict.end is not None:
            self.clocks_at_end |= {rank: clock_offset(self._wire, rank, self._number)[0] for rank in self._others}
        at = 0
        if verdict.end is None and not verdict.again and self._started:
            at = time.monotonic_ns() + _LEAD_NS + _TRIPS * max(trip for _, trip in self.clocks.values())
        for rank in self._others:
            theirs = Verdict(at + self.clocks[rank][0] if at else 0, verdict.again, verdict.end)
            self._wire.send(rank, Message(self._number, "verdict", theirs))
        return Verdict(at, verdict.again, verdict.end)

    def _hear(self, rank: int, patience: float) -> Mapping[str, Any]:
        while True:
            message = self._wire.receive(rank, patience, number=self._number)
            if message.kind == "pace":
                values: Mapping[str, Any] = message.body
                return values
            self._on_word(rank, message)

    def _judge(self, said: Mapping[int, Mapping[str, Any]]) -> Verdict:
        windows = [values for values in said.values() if values]
        if not windows:
            self._started = self._met
            self._met = not self._met
            return Verdict()
        starts = [window["start_ns"] - self.clocks[rank][0] for rank, window in said.items()]
        ends = [window["end_ns"] - self.clocks[rank][0] for rank, window in said.items()]
        spent = (max(ends) - min(starts)) / 1e9
        self._seconds += spent
        self._costs.append(spent / max(sum(window["ios"] for window in windows), 1))
        if any(window["broken"] for window in windows):
            return Verdict(end="max_windows")
        if self._again < _AGAIN and any(window["short"] for window in windows):
            self._again += 1
            self._costs, self._seconds = [], 0.0
            self._started = self._met = False
            return Verdict(again=True)
        return Verdict(end=self._rule.reason(self._costs, self._seconds))


class Follower:
    """Any other rank's pacer of one cell."""

    def __init__(self, wire: Wire, number: int, plan: Plan) -> None:
        self._wire, self._number = wire, number
        self._deadline_s = GET_READY_S + 2 * plan.timeout_s

    def __call__(self, values: Mapping[str, Any]) -> Verdict:
        """As :class:`pytest_gpuio.measure.pace.Pacer`.

        Raises:
            Abandoned: rank 0 gave the cell up. RankLost: rank 0 is gone.
        """
        self._wire.send(0, Message(self._number, "pace", dict(values)))
        while True:
            message = self._wire.receive(0, self._deadline_s, number=self._number)
            if message.kind == "verdict":
                verdict: Verdict = message.body
                return verdict
            if message.kind == "sync":
                answer_clock(self._wire, self._number)
            elif message.kind == "abandon":
                raise Abandoned("rank 0 gave the cell up")
