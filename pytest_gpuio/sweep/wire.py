"""Messages between ranks over MPI, each waited for with a deadline; no collective call, which a dead rank hangs."""

from __future__ import annotations

import os
import socket
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from pytest_gpuio.core.errors import ConfigError, RankLost

_TAG: Final = 7
#: Waiting for a message starts with short sleeps, for the sake of start times, and ends with ones that cost nothing.
_FIRST_LOOK_S: Final = 0.0002
_LAST_LOOK_S: Final = 0.01
#: A message is on its way at once, or its receiver is not there.
_SEND_S: Final = 30.0
_ALIVE_EVERY_S: Final = 0.2


@dataclass(frozen=True, slots=True)
class Peer:
    """A rank as others see it.

    Attributes:
        rank: number. host: name. machine: id of its kernel's boot, the same for all ranks of one machine.
        pid: of the process, in the PID namespace ``pids``.
    """

    rank: int
    host: str
    machine: str
    pid: int
    pids: str

    def __str__(self) -> str:
        return f"rank {self.rank} on {self.host}"


@dataclass(frozen=True, slots=True)
class Message:
    """What a rank says: about which cell, what kind of thing, and its content."""

    number: int
    kind: str
    body: Any = None


def this_rank(rank: int) -> Peer:
    """This process as others see it."""
    boot = Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii").strip()
    return Peer(rank, socket.gethostname(), boot, os.getpid(), os.readlink("/proc/self/ns/pid"))  # noqa: PTH115


class Wire:
    """Point-to-point messages of one communicator of mpi4py.

    Args:
        comm: ``MPI.COMM_WORLD``; any object with its ``rank``, ``size``, ``isend``, ``iprobe`` and ``recv``.
    """

    def __init__(self, comm: Any) -> None:
        self._comm = comm
        self.rank, self.size = int(comm.rank), int(comm.size)
        #: Who they are; known once they have said so.
        self.peers: dict[int, Peer] = {self.rank: this_rank(self.rank)}
        #: Which rank is lost, in a sentence; None = all are there.
        self.lost: str | None = None
        #: This process has its share of the CPUs.
        self.placed = False
        self._number = 0

    def next_number(self) -> int:
        """A number for what rank 0 wants next: later ones are larger."""
        self._number += 1
        return self._number

    def name(self, rank: int) -> str:
        """``rank 2 on node7``."""
        return str(self.peers.get(rank, f"rank {rank}"))

    def send(self, to: int, message: Message) -> None:
        """Send; returns when MPI has taken it.

        Raises:
            RankLost: the other side does not take it.
        """
        try:
            request = self._comm.isend(message, dest=to, tag=_TAG)
            until = time.monotonic() + _SEND_S
            while not request.test()[0]:
                if time.monotonic() > until or not self._alive(to):
                    raise RankLost(f"{self.name(to)} takes no message.")
                time.sleep(_FIRST_LOOK_S)
        except RuntimeError as error:  # what MPI's own exceptions are
            raise RankLost(f"{self.name(to)} is lost: {error}.") from error

    def receive(self, source: int, deadline_s: float, *, number: int = 0, spin: bool = False) -> Message:
        """The next message of a rank about cell ``number`` or a later one; earlier ones are dropped.

        Args:
            source: the rank.
            deadline_s: seconds to wait at most.
            number: of the cell.
            spin: look again at once: for clocks.

        Raises:
            RankLost: it has ended, or said nothing in time.
        """
        begun = time.monotonic()
        look_s, alive_at = _FIRST_LOOK_S, begun
        try:
            while True:
                if self._comm.iprobe(source=source, tag=_TAG):
                    message: Message = self._comm.recv(source=source, tag=_TAG)
                    if message.number >= number:
                        return message
                    continue
                now = time.monotonic()
                if now - alive_at > _ALIVE_EVERY_S:
                    alive_at = now
                    # What it had said before it ended counts.
                    if not self._alive(source) and not self._comm.iprobe(source=source, tag=_TAG):
                        raise RankLost(f"{self.name(source)} (pid {self.peers[source].pid}) has died.")
                if now - begun > deadline_s:
                    raise RankLost(f"{self.name(source)} said nothing for {deadline_s:.0f} s.")
                if not spin:
                    time.sleep(look_s)
                    look_s = min(look_s * 1.5, _LAST_LOOK_S)
        except RuntimeError as error:
            raise RankLost(f"{self.name(source)} is lost: {error}.") from error

    def abort(self, status: int) -> None:
        """End every rank that still lives, without waiting for those that do not."""
        self._comm.Abort(status)

    def _alive(self, rank: int) -> bool:
        """False when the process is known to be gone: only one of this machine can be looked at."""
        peer, here = self.peers.get(rank), self.peers[self.rank]
        if peer is None or (peer.machine, peer.pids) != (here.machine, here.pids):
            return True
        try:
            os.kill(peer.pid, 0)
            state = Path(f"/proc/{peer.pid}/stat").read_text(encoding="ascii", errors="replace").rpartition(")")[2]
        except ProcessLookupError:
            return False
        except OSError:
            return True
        return state.split()[0] not in ("Z", "X")


def open_wire() -> Wire:
    """The ranks that mpirun or srun started.

    Raises:
        ConfigError: mpi4py is missing, or this is the only rank.
    """
    try:
        from mpi4py import MPI
    except (ImportError, RuntimeError) as error:
        raise ConfigError(
            f"--gpuio-mpi needs mpi4py and an MPI library ({error}): pip install 'pytest-gpuio[mpi]' on every host, or "
            "build mpi4py with the cluster's own MPI (pip install --no-binary mpi4py mpi4py)."
        ) from error
    if MPI.COMM_WORLD.size < 2:
        raise ConfigError(
            "--gpuio-mpi and only one rank: start the command with mpirun -n RANKS or srun -n RANKS, of the MPI that "
            f"mpi4py uses here ({MPI.Get_library_version().splitlines()[0].strip()})."
        )
    return Wire(MPI.COMM_WORLD)


#: Reads a clock in nanoseconds.
ClockNs = Callable[[], int]
_ROUNDS: Final = 20
_PING_S: Final = 30.0


def answer_clock(wire: Wire, number: int, clock: ClockNs = time.monotonic_ns) -> None:
    """The other side of :func:`clock_offset`, until it says that it is done."""
    while True:
        message = wire.receive(0, _PING_S, number=number, spin=True)
        if message.kind != "ping":
            return
        wire.send(0, Message(number, "pong", clock()))


def clock_offset(wire: Wire, rank: int, number: int, clock: ClockNs = time.monotonic_ns) -> tuple[int, int]:
    """A rank's clock less this one's, in nanoseconds, and how far that may be off either way.

    Of several round trips the fastest counts: the other clock was read between its begin and its end, so that half of
    it is a bound that needs no assumption about the way there and back.

    Raises:
        RankLost: it does not answer.
    """
    wire.send(rank, Message(number, "sync"))
    best: tuple[int, int] | None = None
    for _ in range(_ROUNDS):
        before = clock()
        wire.send(rank, Message(number, "ping"))
        there = int(wire.receive(rank, _PING_S, number=number, spin=True).body)
        after = clock()
        trip = after - before
        if best is None or trip < best[1]:
            best = (there - (before + after) // 2, trip)
    wire.send(rank, Message(number, "synced"))
    assert best is not None, "there was a round"
    return best[0], -(-best[1] // 2)
