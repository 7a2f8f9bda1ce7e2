"""One measuring session over all ranks of an MPI job: each cell is measured everywhere at once, and recorded once."""

from __future__ import annotations

import atexit
import signal
import sys
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

from pytest_gpuio import datapaths, phases
from pytest_gpuio.core.cell import Cell
from pytest_gpuio.core.errors import (
    CapabilityMissing,
    CellVoid,
    ConfigError,
    EngineError,
    GpuioError,
    RankLost,
)
from pytest_gpuio.datapaths import DataPath
from pytest_gpuio.isolation import HostLock
from pytest_gpuio.machine import numa_nodes
from pytest_gpuio.measure import gates
from pytest_gpuio.measure.effort import Effort
from pytest_gpuio.measure.families import Progress
from pytest_gpuio.measure.merge import RankPart, in_step, merge_outcomes, shares
from pytest_gpuio.measure.pace import Pacer
from pytest_gpuio.measure.plan import Plan
from pytest_gpuio.measure.prepare import Subject
from pytest_gpuio.measure.session import Observation, VoidCell
from pytest_gpuio.measure.totals import sum_up
from pytest_gpuio.media import classify
from pytest_gpuio.phases.arrivals import Arrivals
from pytest_gpuio.results.record import CellRecord, Replayed
from pytest_gpuio.sweep.pacing import GET_READY_S, Abandoned, Conductor, Follower
from pytest_gpuio.sweep.post import OneOfMany, Post, media_here, take_cpus, target_of
from pytest_gpuio.sweep.wire import Message, Wire, open_wire, this_rank

#: To start Python and say hello; and what rank 0 may do between two cells.
_HELLO_S: Final = 120.0
#: Number of the last message, whatever the cell.
_LAST: Final = 1 << 62
_IDLE_S: Final = 3600.0
#: Data laid out before a cell: no slower than this counts as work, in bytes per second.
_SLOWEST: Final = 5e6


class RankSession(OneOfMany):
    """Rank 0's session: cells are measured on every rank; stands where a session does.

    Args:
        wire: to the other ranks.
        effort: as for a session.
        targets: as the user named them.
        lock_timeout_s: seconds that hosts wait for their lock; the one of this host is the caller's to take.
        env: variables of measuring children.

    Raises:
        ConfigError: targets or media do not fit on a rank. Busy: another run holds a host's lock.
        RankLost: a rank did not say hello.
    """

    def __init__(
        self,
        wire: Wire,
        effort: Effort,
        targets: Mapping[str, Path],
        lock_timeout_s: float,
        env: Mapping[str, str] | None = None,
    ) -> None:
        self.wire = wire
        self._conductor: Conductor | None = None
        self._number, self._closed = 0, False
        if wire.lost is not None:
            raise RankLost(wire.lost)
        self._together(self._greet)
        machines = [wire.peers[rank].machine for rank in range(wire.size)]
        self._id = wire.next_number()
        plain = Post(
            peers=tuple(wire.peers[rank] for rank in range(wire.size)),
            local=0,
            locals=machines.count(machines[0]),
            effort=effort,
            targets={name: str(path) for name, path in targets.items()},
            media={},
            lock_timeout_s=lock_timeout_s,
            session=self._id,
            env=env,
        )
        mine = {name: target_of(path, rank=0, local=0, several=plain.locals > 1) for name, path in targets.items()}
        media = {name: classify(path) for name, path in mine.items()}
        plain = replace(plain, media={name: medium.name for name, medium in media.items()})
        take_cpus(wire, 0, plain.locals)
        super().__init__(wire, plain, media, mine)
        for rank, machine in enumerate(machines[1:], start=1):
            post = replace(plain, local=machines[:rank].count(machine), locals=machines.count(machine))
            wire.send(rank, Message(self._id, "begin", post))
        self._number = self._id
        self._together(lambda: self._gather("begun", _HELLO_S + lock_timeout_s))
        self.pacer_of = self._conduct

    def _greet(self) -> None:
        for rank in range(1, self.wire.size):
            if rank not in self.wire.peers:
                self.wire.peers[rank] = self.wire.receive(rank, _HELLO_S).body

    def _conduct(self, plan: Plan) -> Pacer:
        self._conductor = Conductor(self.wire, self._number, plan, self._hear)
        return self._conductor

    def _hear(self, rank: int, message: Message) -> None:
        """A message out of turn: a rank is at work, or has failed.

        Raises:
            GpuioError: it has failed; as it did there, with its name.
        """
        if message.kind == "failed":
            raise _told(self.wire.name(rank), *message.body)

    def _gather(self, kind: str, patience: float) -> dict[int, Any]:
        """The answer of each other rank; who is at work may take longer than the patience."""
        found = {}
        for rank in range(1, self.wire.size):
            while True:
                message = self.wire.receive(rank, patience, number=self._number)
                if message.kind == kind:
                    found[rank] = message.body
                    break
                self._hear(rank, message)
        return found

    def _tell(self, kind: str, body: Any) -> None:
        if self.wire.lost is not None:
            raise RankLost(self.wire.lost)
        self._number = self.wire.next_number()
        for rank in range(1, self.wire.size):
            self.wire.send(rank, Message(self._number, kind, (self._id, body)))

    def _abandon(self) -> None:
        """Free the ranks that wait for this cell; who is lost does not matter any more."""
        for rank in range(1, self.wire.size):
            try:
                self.wire.send(rank, Message(self._number, "abandon"))
            except RankLost:
                continue

    def _together(self, do: Callable[[], Any]) -> Any:
        """Does something that ends on all ranks when it fails on one."""
        try:
            return do()
        except RankLost as error:
            self.wire.lost = f"{error} Nothing more is measured: start the command again with ranks that are there."
            self._abandon()
            raise CellVoid("ranks", str(error)) from error
        except BaseException:
            self._abandon()
            raise

    def missing(self, cell: Cell, path: DataPath) -> str | None:
        """The first capability that the cell lacks on some rank, with the rank's name."""
        own = super().missing(cell, path)
        if own is not None:
            return own
        self._tell("missing", (cell, path.name))
        answers = self._together(lambda: self._gather("missing", GET_READY_S))
        for rank, reason in answers.items():
            if reason is not None:
                return f"{reason} ({self.wire.name(rank)})"
        return None

    def measure(self, subject: Subject, progress: Progress) -> CellRecord:
        """As a session's, on all ranks at once.

        Raises:
            GpuioError: what a session raises, here or on another rank, whose name the text then holds.
            CellVoid: a rank was lost; later calls raise RankLost.
        """
        cell = replace(subject.cell, ranks=self.wire.size)
        self._tell("measure", (subject.cell, str(subject.arrivals)))

        def both() -> tuple[Observation, dict[int, Any]]:
            own = self.observe(subject, progress)
            patience = GET_READY_S + own.seen.plan.timeout_s + own.seen.plan.region_bytes / _SLOWEST
            return own, self._gather("observed", patience)

        own, theirs = self._together(both)
        conductor = self._conductor
        assert conductor is not None, "a measured cell was paced"
        parts = [self.part(own)]
        for rank in range(1, self.wire.size):
            offset, uncertainty = conductor.clocks[rank]
            drift = conductor.clocks_at_end[rank] - offset
            part: RankPart = theirs[rank][0]
            parts.append(replace(part, offset_ns=offset, uncertainty_ns=uncertainty, drift_ns=drift))
        merged = self._merge(own, parts, [theirs[rank][1] for rank in range(1, self.wire.size)])
        found = shares(parts)
        context = replace(merged.context, cell=cell)
        made = self.record(replace(merged, context=context, gates=(*merged.gates, in_step(found))))
        made["ranks"] = found
        return made

    def _merge(self, own: Observation, parts: Sequence[RankPart], models: Sequence[Replayed | None]) -> Observation:
        """All ranks as one observation, judged once more as such."""
        plan = replace(own.seen.plan, jobs=own.seen.plan.jobs * len(parts))
        outcome = merge_outcomes(parts)
        totals = sum_up(plan, outcome)
        seen = replace(own.seen, plan=plan, outcome=outcome, totals=totals, nodes=numa_nodes(plan.cpus))
        results = gates.check(seen)
        for result in results:
            if result.kind == "impossible" and result.state == "failed":
                evidence = [f"{r.gate} {r.state}: {r.detail}" for r in results]
                raise VoidCell(result.gate, f"all ranks together: {result.detail}", evidence)
        return replace(own, seen=seen, gates=results, replayed=_merge_models([own.replayed, *models]))

    def smoke(self, subject: Subject, progress: Progress = lambda _values: None) -> int:
        """As a session's, on all ranks, not in step."""
        self._tell("smoke", (subject.cell, str(subject.arrivals)))

        def both() -> int:
            own = super(RankSession, self).smoke(subject, progress)
            return own + sum(map(int, self._gather("smoked", GET_READY_S).values()))

        return int(self._together(both))

    def close(self) -> None:
        """End the children, here and on the other ranks."""
        super().close()
        if self.wire.lost is None and not self._closed:
            self._closed = True
            try:
                self._tell("end", None)
            except RankLost as error:
                self.wire.lost = str(error)


def dismiss(wire: Wire) -> None:
    """No more sessions: every other rank ends. MPI would wait for one that is lost: the job is aborted at exit then."""
    for rank in range(1, wire.size):
        try:
            wire.send(rank, Message(_LAST, "quit"))
        except RankLost as error:
            wire.lost = wire.lost or str(error)
    if wire.lost is not None:
        atexit.register(_abort, wire)


def _abort(wire: Wire) -> None:
    for stream in (sys.stdout, sys.stderr):
        stream.flush()
    wire.abort(1)


def _merge_models(parts: Sequence[Replayed | None]) -> Replayed | None:
    """A model's figures over ranks: the slowest one's times, the sum of what was moved."""
    first = parts[0]
    known = [part for part in parts if part is not None]
    if first is None or len(known) != len(parts):
        return first
    made = Replayed(**first)
    deciding = [part["deciding"] for part in known]
    values = [one["value"] for one in deciding]
    # Times are the slowest rank's; a share of use is the worst one's; only what flows adds up.
    value = (
        sum(values)
        if deciding[0]["unit"] == "B/s"
        else min(values)
        if deciding[0]["better"] == "higher"
        else max(values)
    )
    made["deciding"] = {**deciding[0], "value": value}
    for name in ("wanted_bytes", "moved_bytes"):
        made[name] = sum(part[name] for part in known)
    ranks = [part["ranks"] for part in known]
    if all(one is not None for one in ranks):
        made["ranks"] = {
            "count": sum(one["count"] for one in ranks),
            "processes": sum(one["processes"] for one in ranks),
            "max_rank_s": max(one["max_rank_s"] for one in ranks),
            "min_rank_gb_per_s": min(one["min_rank_gb_per_s"] for one in ranks),
        }
    return made


#: Failures that keep their class on the way from rank to rank; others arrive as errors of the engine.
_KEPT: Final = {kind.__name__: kind for kind in (CapabilityMissing, ConfigError)}


def _told(name: str, kind: str, text: str, gate: str, evidence: Sequence[str]) -> GpuioError:
    if gate:
        return VoidCell(gate, f"{name}: {text.removeprefix(f'{gate}: ')}", evidence)
    return _KEPT.get(kind, EngineError)(f"{name}: {text}")


def _tell_failure(wire: Wire, number: int, error: GpuioError) -> None:
    gate = error.gate if isinstance(error, CellVoid) else ""
    evidence = error.evidence if isinstance(error, VoidCell) else ()
    wire.send(0, Message(number, "failed", (type(error).__name__, str(error), gate, evidence)))


def serve(wire: Wire) -> None:
    """Life of every rank but 0: does what rank 0 says, until it says quit.

    Raises:
        RankLost: rank 0 is gone, or silent for an hour.
    """
    # Rank 0 judges a Ctrl-C, which the terminal sends to all.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    wire.send(0, Message(0, "hello", this_rank(wire.rank)))
    sessions: dict[int, OneOfMany] = {}
    with ExitStack() as stack:
        while True:
            message = wire.receive(0, _IDLE_S)
            if message.kind == "quit":
                return
            if message.kind == "begin":
                _begin(wire, message, sessions, stack)
            elif message.kind in ("measure", "smoke", "missing", "end"):
                number, body = message.body
                if message.kind == "end":
                    sessions.pop(number).close()
                else:
                    _obey(sessions[number], replace(message, body=body))


def _begin(wire: Wire, message: Message, sessions: dict[int, OneOfMany], stack: ExitStack) -> None:
    post: Post = message.body
    try:
        if not sessions and len(wire.peers) == 1:
            wire.peers |= {peer.rank: peer for peer in post.peers}
            # One holder per machine; rank 0's own has it from its caller.
            if post.local == 0 and wire.peers[wire.rank].machine != wire.peers[0].machine:
                stack.enter_context(HostLock(post.lock_timeout_s))
            take_cpus(wire, post.local, post.locals)
        targets, media = media_here(wire, post)
        sessions[post.session] = stack.enter_context(OneOfMany(wire, post, media, targets))
    except GpuioError as error:
        _tell_failure(wire, message.number, error)
    else:
        wire.send(0, Message(message.number, "begun"))


def _obey(session: OneOfMany, message: Message) -> None:
    wire, number = session.wire, message.number
    session.pacer_of = lambda plan: Follower(wire, number, plan)

    def at_work(_values: Mapping[str, Any]) -> None:
        wire.send(0, Message(number, "at work"))

    try:
        if message.kind == "missing":
            cell, name = message.body
            wire.send(0, Message(number, "missing", session.missing(cell, datapaths.get(name))))
            return
        cell, arrivals = message.body
        subject = Subject(cell, datapaths.get(cell.datapath), phases.get(cell.workload), Arrivals.parse(arrivals))
        if message.kind == "smoke":
            wire.send(0, Message(number, "smoked", session.smoke(subject)))
            return
        found = session.observe(session.subject_here(subject), at_work)
        wire.send(0, Message(number, "observed", (session.part(found), found.replayed)))
    except (Abandoned, RankLost) as error:
        if isinstance(error, RankLost):
            raise
    except GpuioError as error:
        _tell_failure(wire, number, error)


__all__ = ["RankSession", "dismiss", "open_wire", "serve"]
