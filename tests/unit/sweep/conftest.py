"""Plans placed on targets that are only named: nothing is measured."""

import queue
import time
from pathlib import Path

import pytest

from pytest_gpuio.measure import settings
from pytest_gpuio.sweep import expand, plan
from pytest_gpuio.sweep.wire import Wire


@pytest.fixture(scope="session")
def placed():
    """Function: a plan's text on targets, ``name=medium``, with options of the command line."""

    def make(text, targets=None, **options):
        made = plan.parse(text, "p.toml")
        given = {"default": "virtual"} if targets is None else targets
        asked = settings.read(lambda name: options.get(name.replace("-", "_"), made.options.get(name)), Path("/tmp"))
        return expand.place(made, asked, {name: Path("/tmp", name) for name in given}, given)

    return make


class FakeComm:
    """One end of queues that behave as a communicator; ``slow_s`` is how long a message is under way."""

    def __init__(self, rank, boxes, slow_s=0.0):
        self.rank, self.size, self._boxes, self._slow_s = rank, len(boxes), boxes, slow_s
        self._seen = {}

    def isend(self, message, dest, tag):  # noqa: ARG002 - as mpi4py has it
        self._boxes[dest].put((self.rank, time.monotonic() + self._slow_s, message))

        class Sent:
            def test(self):
                return True, None

        return Sent()

    def iprobe(self, source, tag):  # noqa: ARG002 - as mpi4py has it
        while not self._boxes[self.rank].empty():
            sender, at, message = self._boxes[self.rank].get()
            self._seen.setdefault(sender, []).append((at, message))
        waiting = self._seen.get(source, [])
        return bool(waiting) and waiting[0][0] <= time.monotonic()

    def recv(self, source, tag):  # noqa: ARG002 - as mpi4py has it
        return self._seen[source].pop(0)[1]


@pytest.fixture(scope="session")
def pair():
    """Function: both ends of a wire between two ranks, over queues that stand for MPI."""

    def make(slow_s=0.0):
        boxes = [queue.Queue(), queue.Queue()]
        return Wire(FakeComm(0, boxes, slow_s)), Wire(FakeComm(1, boxes))

    return make
