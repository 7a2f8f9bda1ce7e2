"""Messages and clocks of ranks, over queues that stand for MPI; the real one is in tests/plugin/test_mpi.py."""

from __future__ import annotations

import subprocess
import sys
import threading
import time

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pytest_gpuio.core.errors import ConfigError, RankLost
from pytest_gpuio.sweep import wire as wires
from pytest_gpuio.sweep.wire import Message, Peer, answer_clock, clock_offset


def test_messages_of_cells_gone_by_are_dropped(pair):
    one, other = pair()
    for number in (1, 2, 3):
        other.send(0, Message(number, "pace", number))
    assert one.receive(1, 1.0, number=2).body == 2
    assert one.receive(1, 1.0, number=2).body == 3


def test_silence_has_an_end(pair):
    one, _ = pair()
    with pytest.raises(RankLost, match=r"rank 1 said nothing for 0 s\."):
        one.receive(1, 0.05)


def test_a_dead_process_of_this_machine_is_seen_at_once(pair):
    one, _ = pair()
    with subprocess.Popen([sys.executable, "-c", ""]) as gone:
        pass
    here = one.peers[0]
    one.peers[1] = Peer(1, "node7", here.machine, gone.pid, here.pids)
    begun = time.monotonic()
    with pytest.raises(RankLost, match=rf"rank 1 on node7 \(pid {gone.pid}\) has died"):
        one.receive(1, 60.0)
    assert time.monotonic() - begun < 30
    # Of another machine nothing is known but silence.
    one.peers[1] = Peer(1, "node7", "another", gone.pid, here.pids)
    with pytest.raises(RankLost, match="said nothing"):
        one.receive(1, 0.5)


def test_what_it_said_before_it_died_counts(pair):
    one, other = pair()
    with subprocess.Popen([sys.executable, "-c", ""]) as gone:
        pass
    here = one.peers[0]
    one.peers[1] = Peer(1, "node7", here.machine, gone.pid, here.pids)
    other.send(0, Message(0, "failed", "why"))
    assert one.receive(1, 5.0).body == "why"


@settings(max_examples=8, deadline=None)
@given(ahead_ns=st.integers(-(10**15), 10**15), slow_us=st.sampled_from([0, 200, 1500]))
def test_the_offset_is_inside_its_bound_however_lopsided_the_way(pair, ahead_ns, slow_us):
    one, other = pair(slow_us / 1e6)  # one way only

    def rank1():
        message = other.receive(0, 10.0, spin=True)
        assert message.kind == "sync"
        answer_clock(other, 0, lambda: time.monotonic_ns() + ahead_ns)

    thread = threading.Thread(target=rank1)
    thread.start()
    offset, uncertainty = clock_offset(one, 1, 0)
    thread.join()
    assert uncertainty >= slow_us * 1000 // 2
    assert abs(offset - ahead_ns) <= uncertainty


def test_one_rank_alone_is_told_how_to_start(monkeypatch):
    pytest.importorskip("mpi4py")
    code = (
        "from pytest_gpuio.core.errors import ConfigError\nfrom pytest_gpuio.sweep.wire import open_wire\n"
        "try:\n    open_wire()\nexcept ConfigError as error:\n    print(error)"
    )
    done = subprocess.run([sys.executable, "-P", "-c", code], capture_output=True, text=True, timeout=60, check=True)
    assert "only one rank: start the command with mpirun -n RANKS or srun -n RANKS" in done.stdout


def test_without_mpi4py_the_remedy_is_told(monkeypatch):
    monkeypatch.setitem(sys.modules, "mpi4py", None)
    with pytest.raises(ConfigError, match=r"pip install 'pytest-gpuio\[mpi\]'"):
        wires.open_wire()
