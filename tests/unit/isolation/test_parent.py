"""What becomes of children when their parent is interrupted or killed; three levels of real processes."""

import json
import signal
import time

import pytest

from pytest_gpuio.core.errors import ChildDied
from pytest_gpuio.isolation.process import reap_given_up

PROLOGUE = """
import json, os, signal, sys
from pytest_gpuio.isolation.child import Child
signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell's background job would ignore it
def say(*words): print(*words, flush=True)
child = Child("gpuio_test_child", name="test", grace_s={grace})
"""

INTERRUPTED = (
    PROLOGUE
    + """
seen = []
def on_event(name, data):
    seen.append(name)
    say(name)
try:
    child.request("{op}", deadline_s=50, on_event=on_event)
except KeyboardInterrupt:
    alive = child.alive
    again = child.request("echo", {{"n": 1}}, deadline_s=20) if alive else None
    say(json.dumps({{"pid": child.pid, "alive": alive, "seen": seen, "again": again}}))
"""
)


def read_until(process, word):
    """Lines up to the one that begins with ``word``; the fixture's guard ends this if it never comes."""
    lines = []
    for line in process.stdout:
        lines.append(line)
        if line.startswith(word):
            return line
    pytest.fail(f"no line {word!r} in: {''.join(lines)}")


def test_ctrl_c_lets_the_child_wind_up_and_keeps_it(middle):
    process = middle(INTERRUPTED.format(grace=20, op="hang"))
    read_until(process, "started")
    process.send_signal(signal.SIGINT)
    end = json.loads(read_until(process, "{"))
    assert end["alive"]
    assert end["seen"] == ["started", "stopping"]  # the last event came after the interrupt
    assert end["again"] == {"n": 1}
    assert process.wait(20) == 0


def test_ctrl_c_kills_a_child_that_does_not_wind_up(middle, gone):
    process = middle(INTERRUPTED.format(grace=0.3, op="deaf"))
    read_until(process, "started")
    process.send_signal(signal.SIGINT)
    end = json.loads(read_until(process, "{"))
    assert not end["alive"]
    assert gone(end["pid"])


def test_a_second_ctrl_c_kills_at_once(middle, gone):
    process = middle(INTERRUPTED.format(grace=1000, op="deaf"))
    read_until(process, "started")
    process.send_signal(signal.SIGINT)
    read_until(process, "asked")  # the first one has reached the child's stop word
    process.send_signal(signal.SIGINT)
    end = json.loads(read_until(process, "{"))
    assert not end["alive"]
    assert gone(end["pid"])


@pytest.mark.parametrize("op", ["hang", "deaf", "mute"])
def test_kill_9_of_the_parent_leaves_no_orphan(middle, gone, op):
    process = middle(
        PROLOGUE.format(grace=2)
        + f"""
child.request("echo", deadline_s=20)
say("pid", child.pid)
child.request("{op}", deadline_s=50)
"""
    )
    pid = int(read_until(process, "pid").split()[1])
    process.kill()
    process.wait(10)
    assert gone(pid)


def test_kill_9_of_the_parent_while_the_child_is_idle(middle, gone):
    process = middle(
        PROLOGUE.format(grace=2) + 'child.request("echo", deadline_s=20); say("pid", child.pid); signal.pause()'
    )
    pid = int(read_until(process, "pid").split()[1])
    process.kill()
    process.wait(10)
    assert gone(pid)


def test_an_interpreter_that_ends_takes_its_children_along(middle, gone):
    process = middle(PROLOGUE.format(grace=2) + 'child.request("echo", deadline_s=20); say("pid", child.pid)')
    pid = int(read_until(process, "pid").split()[1])
    assert process.wait(20) == 0
    assert gone(pid)


def test_a_lost_exit_status_is_not_made_up(middle):
    process = middle(
        PROLOGUE.format(grace=2)
        + """
signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # now the kernel reaps
try:
    child.request("leave", {"status": 3}, deadline_s=20)
except Exception as error:
    say(f"{type(error).__name__}: {error}")
"""
    )
    line = read_until(process, "ChildDied")
    assert "ended, but something else in this process took its exit status, during 'leave'" in line


def test_a_child_held_back_by_a_tracer_is_given_up(child, middle, monkeypatch):
    """A tracer that does not wait keeps a dead process from its real parent."""
    child.request("echo", deadline_s=30)
    tracer = middle(
        f"""
import ctypes, time
libc = ctypes.CDLL(None, use_errno=True)
seized = libc.ptrace(0x4206, {child.pid}, None, None)  # PTRACE_SEIZE
print("seized" if seized == 0 else f"errno {{ctypes.get_errno()}}", flush=True)
time.sleep(60)
"""
    )
    answer = tracer.stdout.readline().strip()
    if answer != "seized":
        pytest.skip(f"this process may not trace another: {answer}")
    monkeypatch.setattr("pytest_gpuio.isolation.process.KILL_WAIT_S", 0.2)
    with pytest.raises(ChildDied, match=rf"held back by a debugger or strace: given up, pid {child.pid}"):
        child.request("leave", {"status": 0}, deadline_s=30)
    child.close()
    assert reap_given_up() == 1
    tracer.kill()
    tracer.wait(10)
    until = time.monotonic() + 10
    while reap_given_up() and time.monotonic() < until:
        time.sleep(0.01)
    assert reap_given_up() == 0


def test_a_fork_of_the_parent_does_not_kill_its_children(middle):
    process = middle(
        PROLOGUE.format(grace=2)
        + """
child.request("echo", deadline_s=20)
if os.fork() == 0:
    child.close()
    sys.exit(0)  # runs the exit handlers too
os.wait()
say("then", child.request("echo", {"n": 1}, deadline_s=20))
"""
    )
    assert read_until(process, "then") == "then {'n': 1}\n"
