import mmap
import os
import subprocess
import sys
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_gpuio.measure import processes
from pytest_gpuio.measure.processes import Census, Kin

#: Spins for the seconds given, says so, then waits to be told to end.
SPINNER = (
    "import sys, time; open('/proc/self/comm', 'w').write('gpuio-stranger')\n"
    "until = time.process_time() + float(sys.argv[1])\n"
    "while time.process_time() < until: pass\n"
    "print('done', flush=True); sys.stdin.read()"
)


def spinner(seconds):
    command = [sys.executable, "-S", "-c", SPINNER, str(seconds)]
    return subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)


def test_a_busy_stranger_is_seen_by_its_name():
    before = processes.count(ended=False)
    with spinner(0.5) as stranger:
        stranger.stdout.readline()
        after = processes.count(ended=False)
        found = processes.elsewhere(before, after, frozenset({os.getpid()}))
        without = processes.elsewhere(before, after, frozenset({os.getpid(), stranger.pid}))
        stranger.stdin.close()
    assert found["gpuio-stranger"] > 0.4
    assert "gpuio-stranger" not in without


def test_the_clock_of_a_process_is_what_wait_tells_of_it():
    with spinner(0.2) as child:
        child.stdout.readline()
        told = processes.clocks([child.pid])[child.pid] / 1e9
        child.stdin.close()
        _, _, usage = os.wait4(child.pid, 0)
        child.returncode = 0
    # Its end costs a little more.
    assert told <= usage.ru_utime + usage.ru_stime + 0.005
    assert told == pytest.approx(usage.ru_utime + usage.ru_stime, abs=0.1)


def test_the_clock_holds_threads_that_ended():
    script = (
        "import sys, threading, time\n"
        "def spin():\n    until = time.thread_time() + 0.3\n    while time.thread_time() < until: pass\n"
        "thread = threading.Thread(target=spin); thread.start(); thread.join()\n"
        "print('done', flush=True); sys.stdin.read()"
    )
    with subprocess.Popen([sys.executable, "-S", "-c", script], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as child:
        child.stdout.readline()
        assert processes.clocks([child.pid])[child.pid] > 0.3e9
        child.stdin.close()


def test_a_process_that_is_gone_has_no_clock():
    with subprocess.Popen(["true"]) as child:
        child.wait()
    assert processes.clocks([child.pid]) == {}
    assert processes.process_name(child.pid) == "ended"


def test_the_cpu_of_processes_that_came_and_went_is_found():
    before = processes.count(ended=True)
    with spinner(0.5) as stranger:
        stranger.stdout.readline()
        stranger.stdin.close()
    after = processes.count(ended=True)
    assert processes.reaped(before, after)[os.getpid()] > 0.4
    found = processes.elsewhere(before, after, frozenset({os.getpid()}))
    name = processes.group_name(processes.process_name(os.getpid()))
    assert found[f"{name} (ended children)"] > 0.4


def test_what_an_ended_process_had_used_before_is_not_counted():
    with spinner(0.6) as stranger:
        stranger.stdout.readline()
        before = processes.count(ended=True)
        stranger.stdin.close()
    after = processes.count(ended=True)
    assert processes.reaped(before, after).get(os.getpid(), 0.0) < 0.3


def test_grandchildren_reach_whoever_lives():
    # A shell of our own runs the spinner and ends, too.
    before = processes.count(ended=True)
    shell = f'{sys.executable} -S -c "import time\nwhile time.process_time() < 0.4: pass"; exit 0'
    subprocess.run(["sh", "-c", shell], check=True)
    after = processes.count(ended=True)
    assert processes.reaped(before, after)[os.getpid()] > 0.3


CLOCKS = st.integers(0, 10**12)


@st.composite
def histories(draw):
    """A family before and after; CPU that is spent, and processes that end and are waited for, conserve the sum."""
    size = draw(st.integers(2, 8))
    parent = {pid: draw(st.integers(1, pid - 1)) if pid > 1 else 0 for pid in range(1, size + 1)}
    own = {pid: draw(CLOCKS) for pid in parent}
    children = {pid: draw(CLOCKS) for pid in parent}
    before = Census(dict(own), {pid: Kin(parent[pid], children[pid]) for pid in parent})
    spent = 0
    ended = draw(st.sets(st.sampled_from(sorted(set(parent) - {1})), max_size=size - 1))
    for pid in sorted(parent):
        burnt = draw(CLOCKS)
        own[pid] += burnt
        spent += burnt
    for pid in sorted(ended, reverse=True):  # children have larger ids than their parents: they end first
        children[parent[pid]] += own.pop(pid) + children.pop(pid)
        for orphan in [child for child, its in parent.items() if its == pid]:
            parent[orphan] = parent[pid]
        del parent[pid]
    after = Census(dict(own), {pid: Kin(parent[pid], children[pid]) for pid in parent})
    return before, after, spent


@given(histories())
def test_every_second_is_found_once_whoever_ends(history):
    before, after, spent = history
    living = sum(after.clocks[pid] - before.clocks[pid] for pid in after.clocks)
    found = living / 1e9 + sum(processes.reaped(before, after).values())
    # An ended process's orphans may have a living heir that is not the one who got their time: nothing is lost by it.
    assert found == pytest.approx(spent / 1e9, rel=1e-9, abs=1e-6)


def test_a_parent_that_ignores_the_end_of_children_gets_nothing_and_loses_nothing():
    before = Census({1: 0, 2: 5 * 10**9}, {1: Kin(0, 0), 2: Kin(1, 0)})
    after = Census({1: 10**9}, {1: Kin(0, 0)})
    assert processes.reaped(before, after) == {}


@pytest.mark.parametrize(
    ("name", "group"),
    [
        ("kworker/u8:2+loop0", "kworker loop0"),
        ("kworker/u8:2-loop0", "kworker loop0"),
        ("kworker/0:1H-kblockd", "kworker kblockd"),
        ("kworker/R-nvme-wq", "kworker nvme-wq"),
        ("kworker/3:0", "kworker"),
        ("ksoftirqd/11", "ksoftirqd"),
        ("jbd2/vda-8", "jbd2/vda-8"),
        ("python3", "python3"),
    ],
)
def test_names_lose_what_tells_cpus_apart(name, group):
    assert processes.group_name(name) == group


def test_small_spenders_and_a_long_tail_are_one_sum():
    before = Census(dict.fromkeys(range(10**6, 10**6 + 20), 0))
    after = Census({pid: (pid - 10**6) * 10**5 for pid in before.clocks})
    found = processes.elsewhere(before, after, frozenset())
    assert sum(found.values()) == pytest.approx(sum(after.clocks.values()) / 1e9)
    assert set(found) == {"ended", "others"}


def test_a_process_id_given_away_again_counts_from_zero():
    found = processes.elsewhere(Census({10**6: 9 * 10**9}), Census({10**6: 2 * 10**9}), frozenset())
    assert found == {"ended": 2.0}


@pytest.mark.parametrize(
    ("line", "kin"),
    [
        (b"7 (a) b) R) S 3 7 7 0 -1 4194304 1 2 3 4 50 60 11 12 20 0 1 0 5", Kin(3, 23 * processes._TICK_NS)),
        (b"2 (kthreadd) S 0 0 0 0 -1 2129984 0 0 0 0 0 0 0 0 20 0 1 0 5", None),
        (b"", None),
    ],
)
def test_a_line_of_stat_is_read_behind_the_name(line, kin):
    assert processes.parse_stat(line) == kin


def test_kernel_threads_have_no_kin():
    census = processes.count(ended=True)
    assert os.getpid() in census.kin
    assert census.kin[os.getpid()].parent == os.getppid()
    if processes.process_name(2) == "kthreadd":
        assert 2 in census.clocks
        assert 2 not in census.kin


def test_a_loop_devices_worker_works_elsewhere(loop_over_tmpfs):
    device = loop_over_tmpfs(512, 64 << 20)
    name = device.removeprefix("/dev/")
    before, spent, deadline = processes.count(ended=False), 0.0, time.monotonic() + 30
    fd, buffer = os.open(device, os.O_RDONLY | os.O_DIRECT), mmap.mmap(-1, 1 << 20)
    try:
        while spent < 0.02 and time.monotonic() < deadline:
            for _ in range(50):
                os.preadv(fd, [buffer], 0)
            found = processes.elsewhere(before, processes.count(ended=False), frozenset({os.getpid()}))
            # Older kernels have a thread for each device.
            spent = found.get(f"kworker {name}", 0.0) + found.get(name, 0.0)
    finally:
        os.close(fd)
    assert spent >= 0.02, found
