"""Real children: they answer, crash, hang, babble and vanish, and the parent always gets an end."""

import contextlib
import os
import signal
import subprocess
import sys
import threading

import pytest

from pytest_gpuio.core.errors import CapabilityMissing, CellVoid, ChildDied, ChildFault, EngineError, GpuioError
from pytest_gpuio.isolation import messages, process
from pytest_gpuio.isolation.child import Child
from pytest_gpuio.isolation.messages import MessageError
from pytest_gpuio.isolation.serve import ARGUMENT, serve, stop_word

LONG = 30.0  # a deadline that no healthy child reaches


def test_it_answers_again_and_again(child):
    for number in range(5):
        assert child.request("echo", {"n": number, "text": "ä\n"}, deadline_s=LONG) == {"n": number, "text": "ä\n"}
    assert child.alive
    assert child.usage is None


def test_it_is_set_up_as_promised(child):
    facts = child.request("facts", deadline_s=LONG)
    assert facts["pgid"] == facts["sid"] == child.pid
    assert facts["int"]
    assert facts["safe"]
    assert facts["env"] == "seen"
    # three standard streams, two pipes, the stop word's memory twice (its descriptor and mmap's own), the listing
    assert len(facts["fds"]) == 8
    assert child.request("word", deadline_s=LONG) == [1, 4, 0]


def test_it_starts_lean(child):
    loaded = child.request("modules", deadline_s=LONG)
    own = {name for name in loaded if name.startswith("pytest_gpuio")}
    assert not {"numpy", "pytest", "rich", "psutil", "pytest_gpuio.isolation.child"} & set(loaded)
    assert own == {
        "pytest_gpuio",
        "pytest_gpuio.core",
        "pytest_gpuio.core.cufile_codes",
        "pytest_gpuio.core.errors",
        "pytest_gpuio.isolation",
        "pytest_gpuio.isolation.failures",
        "pytest_gpuio.isolation.messages",
        "pytest_gpuio.isolation.serve",
    }


def test_events_come_in_order_before_the_reply(child):
    seen = []
    got = child.request("count", {"n": 4}, deadline_s=LONG, on_event=lambda *event: seen.append(event))
    assert got == 4
    assert seen == [("step", {"number": number}) for number in range(4)]


def test_events_hold_off_the_silence_limit(child):
    child.request("echo", deadline_s=LONG)
    assert child.request("count", {"n": 10, "gap_s": 0.2}, deadline_s=LONG, silence_s=1.5) == 10


@pytest.mark.parametrize("size", [1_000_000, messages.MAX_LINE - 100])
def test_long_messages_pass_both_ways(child, size):
    assert len(child.request("big", {"n": size}, deadline_s=LONG)) == size
    assert len(child.request("echo", {"text": "y" * size}, deadline_s=LONG)["text"]) == size


def test_a_reply_over_the_limit_is_an_error_and_the_child_lives(child):
    with pytest.raises(GpuioError, match="over the limit of 16,777,216 bytes"):
        child.request("big", {"n": messages.MAX_LINE}, deadline_s=LONG)
    assert child.request("echo", {}, deadline_s=LONG) == {}


def test_parameters_without_a_json_form_are_refused_before_they_are_sent(child):
    with pytest.raises(MessageError, match="cannot be written as JSON"):
        child.request("echo", {"x": float("nan")}, deadline_s=LONG)
    assert child.request("echo", {"x": 1}, deadline_s=LONG) == {"x": 1}


def test_errors_come_as_their_own_class(child):
    with pytest.raises(CellVoid, match=r"^littles_law: in flight 3.0, expected 8.0$") as void:
        child.request("void", deadline_s=LONG)
    assert void.value.gate == "littles_law"
    with pytest.raises(CapabilityMissing, match="no io_uring here"):
        child.request("unsupported", deadline_s=LONG)
    with pytest.raises(GpuioError, match=r"'test' has no operation 'dance'; it knows: .*echo"):
        child.request("dance", deadline_s=LONG)
    with pytest.raises(GpuioError, match="cannot be written as JSON"):
        child.request("not_json", deadline_s=LONG)
    assert child.alive


def test_a_bug_in_the_child_keeps_its_traceback_apart(child):
    with pytest.raises(
        ChildFault, match=r"^unexpected error in child 'test', operation 'fault': KeyError: 'missing'$"
    ) as fault:
        child.request("fault", deadline_s=LONG)
    assert "in fault" in fault.value.traceback
    assert child.alive


def test_a_crash_names_the_signal_and_the_last_words(child):
    with pytest.raises(ChildDied, match=r"was killed by SIGSEGV \(Segmentation fault\), during 'segfault'") as died:
        child.request("segfault", deadline_s=LONG)
    assert "in segfault" in str(died.value)  # faulthandler's stack
    assert not child.alive
    assert child.usage.ru_maxrss > 0
    with pytest.raises(ChildDied, match="is gone: it was killed by SIGSEGV"):
        child.request("echo", deadline_s=LONG)


def test_an_exit_names_the_status(child):
    with pytest.raises(ChildDied, match=r"exited with status 3, during 'leave'. It printed nothing"):
        child.request("leave", {"status": 3}, deadline_s=LONG)


def test_a_module_that_cannot_be_imported_says_why(child_env):
    with (
        Child("gpuio_broken_child", name="broken", env=child_env) as child,
        pytest.raises(ChildDied, match="ImportError: no engine on this machine"),
    ):
        child.request("echo", deadline_s=LONG)


def test_a_whole_reply_counts_even_if_death_comes_with_it(child):
    assert child.request("last_words", {"id": 1}, deadline_s=LONG) == "said"
    with pytest.raises(ChildDied, match="exited with status 0"):
        child.request("echo", deadline_s=LONG)


def test_a_torn_line_is_no_reply(child):
    with pytest.raises(ChildDied, match="exited with status 0 in the middle of a message"):
        child.request("torn", deadline_s=LONG)


@pytest.mark.parametrize(
    "line",
    [
        "not json",
        "[]",
        "{}",
        '{"id": 7, "ok": true, "result": 0}',
        '{"id": 1, "ok": false}',
        '{"id": 1, "ok": "yes"}',
        '{"id": 1, "event": "step"}',
        '{"id": 1, "event": "step", "data": {}, "ok": true}',
    ],
)
def test_a_line_that_is_no_message_ends_the_child(child, line, gone):
    with pytest.raises(ChildDied, match="broke the protocol"):
        child.request("raw", {"line": line}, deadline_s=LONG)
    assert not child.alive
    assert gone(child.pid)


def test_what_it_prints_is_never_a_message(child):
    assert child.request("chatter", {"lines": 20_000}, deadline_s=LONG) == "quiet"  # 1 MB, 16 times what a pipe holds
    assert "noise" in child.output
    assert len(child.output) <= process.OUTPUT_LIMIT
    with pytest.raises(ChildDied, match=r"Its last words:\n(.*\n)*.*raw"):
        child.request("leave", {"status": 1}, deadline_s=LONG)


def test_a_closed_pipe_is_a_death(child, gone):
    with pytest.raises(ChildDied, match="closed its message pipe, during 'shut'"):
        child.request("shut", deadline_s=LONG)
    assert gone(child.pid)


@pytest.mark.parametrize("op", ["deaf", "mute", "freeze"])
def test_a_hang_is_killed_at_its_deadline(child, op, gone):
    with pytest.raises(
        ChildDied, match=rf"was not done within 1 s during '{op}', then did not answer within 0.3 s .* and was killed"
    ):
        child.request(op, deadline_s=1.0)
    assert not child.alive
    assert gone(child.pid)
    assert child.usage is not None


def test_silence_is_a_hang(child, gone):
    with pytest.raises(ChildDied, match=r"said nothing for 0.5 s during 'deaf'"):
        child.request("deaf", deadline_s=LONG, silence_s=0.5)
    assert gone(child.pid)


def test_a_flood_of_events_does_not_outrun_the_deadline(child, gone):
    with pytest.raises(ChildDied, match=r"was not done within 0.5 s during 'flood'"):
        child.request("flood", deadline_s=0.5)
    assert gone(child.pid)


def test_a_stopped_child_that_cannot_even_take_the_request(child, gone):
    child.request("echo", deadline_s=LONG)
    os.kill(child.pid, signal.SIGSTOP)
    with pytest.raises(ChildDied, match=r"was not done within 0.5 s during 'echo'"):
        child.request("echo", {"text": "y" * 1_000_000}, deadline_s=0.5)
    assert gone(child.pid)


def test_a_late_child_that_heeds_the_stop_word_lives_on(patient):
    child, child_pid = patient, patient.pid
    child.request("echo", deadline_s=LONG)
    with pytest.raises(ChildDied, match=r"was not done within 0.5 s during 'hang'; it stopped when told to"):
        child.request("hang", deadline_s=0.5)
    assert child.alive
    with pytest.raises(ChildDied, match="told to stop, it answered: worker 3 is stuck") as late:
        child.request("hang", {"error": "worker 3 is stuck"}, deadline_s=0.5)
    assert isinstance(late.value.__cause__, EngineError)
    assert late.value.__cause__.errno == 110
    assert child.request("word", deadline_s=LONG) == [1, 4, 0]  # cleared for the next request
    assert child.pid == child_pid


def test_stop_ends_a_request_early_with_a_good_reply(child):
    def on_event(name, data):
        if name == "started":
            threading.Timer(0.05, child.stop).start()

    assert child.request("hang", deadline_s=LONG, on_event=on_event) == "stopped"


def test_an_error_in_on_event_leaves_the_child_idle(patient):
    child = patient

    def on_event(name, data):
        raise RuntimeError("the caller's own")

    with pytest.raises(RuntimeError, match="the caller's own"):
        child.request("hang", deadline_s=LONG, on_event=on_event)
    assert child.request("echo", {"n": 1}, deadline_s=LONG) == {"n": 1}


def test_one_request_at_a_time(patient):
    child = patient

    def on_event(name, data):
        child.request("echo", deadline_s=LONG)

    with pytest.raises(GpuioError, match="busy with another request"):
        child.request("hang", deadline_s=LONG, on_event=on_event)
    assert child.request("echo", {"n": 1}, deadline_s=LONG) == {"n": 1}


def test_death_while_idle_is_told_at_the_next_request(child, gone):
    child.request("echo", deadline_s=LONG)
    os.kill(child.pid, signal.SIGKILL)
    assert gone(child.pid)
    with pytest.raises(ChildDied, match=r"died while it was idle: it was killed by SIGKILL \(Killed\); if nobody did"):
        child.request("echo", deadline_s=LONG)
    assert not child.alive


def test_close_asks_an_idle_child_and_kills_its_family(patient, gone):
    child = patient
    grandchild = child.request("family", deadline_s=LONG)
    child.close()
    assert child._process.returncode == 0  # it left by itself
    assert child.usage.ru_maxrss > 0
    assert gone(child.pid)
    assert gone(grandchild)
    child.close()
    child.stop()
    with pytest.raises(GpuioError, match="is closed"):
        child.request("echo", deadline_s=LONG)


def test_close_kills_a_child_that_does_not_exit(child):
    child.request("echo", deadline_s=LONG)
    os.kill(child.pid, signal.SIGSTOP)
    child.close()
    assert child._process.returncode == -signal.SIGKILL


def test_a_crash_takes_the_family_along(child, gone):
    grandchild = child.request("family", deadline_s=LONG)
    with pytest.raises(ChildDied):
        child.request("leave", {"status": 1}, deadline_s=LONG)
    assert gone(grandchild)


def test_a_forgotten_child_is_killed_when_it_is_collected(child_env, gone):
    child = Child("gpuio_test_child", name="forgotten", env=child_env)
    pid = child.pid
    child.request("echo", deadline_s=LONG)
    del child
    assert gone(pid)


def test_children_leave_no_descriptor_behind(child_env, descriptors):
    before = descriptors()
    for op in ("echo", "segfault", "shut"):
        with Child("gpuio_test_child", name="fds", env=child_env, grace_s=0.3) as child, contextlib.suppress(ChildDied):
            child.request(op, deadline_s=LONG)
    assert descriptors() == before


def test_an_interpreter_that_cannot_be_started_is_named(child_env, monkeypatch, descriptors):
    before = descriptors()
    monkeypatch.setattr(sys, "executable", "/nonexistent/python")
    with pytest.raises(ChildDied, match=r"'x': /nonexistent/python cannot be started: ENOENT"):
        Child("gpuio_test_child", name="x", env=child_env)
    assert descriptors() == before


def test_a_child_module_run_by_hand_says_what_it_is(child_env):
    done = subprocess.run(
        [sys.executable, "-P", "-m", "gpuio_idle_child"],
        env={**os.environ, **child_env},
        stderr=subprocess.PIPE,
        text=True,
        timeout=LONG,
        check=False,
    )
    assert done.returncode == 1
    assert done.stderr == "This module is a measuring child that gpuio starts by itself; it does nothing by hand.\n"


def test_a_child_whose_parent_died_before_it_could_look_ends_itself(child_env):
    """Its parent's number is not the one it was given: that parent is gone."""
    done = subprocess.run(
        [sys.executable, "-P", "-m", "gpuio_idle_child", ARGUMENT, "late", "0,1,2,1"],
        env={**os.environ, **child_env},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        timeout=LONG,
        check=False,
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, b"", b"")


def test_the_stop_word_is_a_childs_only():
    with pytest.raises(GpuioError, match="this process is not a measuring child"):
        stop_word()


def test_exit_cannot_be_a_handler():
    with pytest.raises(ValueError, match="'exit' is the operation that ends a child"):
        serve({"exit": print})


def test_a_process_that_outlives_sigkill_is_given_up(child, monkeypatch, gone):
    """Fake: SIGKILL does nothing, as if the child were stuck in the kernel (test_stuck has a real one)."""
    child.request("echo", deadline_s=LONG)
    with monkeypatch.context() as fake:
        fake.setattr(process, "kill_group", lambda *_: None)
        fake.setattr(process, "KILL_WAIT_S", 0.1)
        with pytest.raises(
            ChildDied, match=rf"and was killed, but outlives SIGKILL \(state S\): given up, pid {child.pid}"
        ):
            child.request("mute", deadline_s=0.2)
        child.close()
        assert process.reap_given_up() == 1
    os.kill(child.pid, signal.SIGKILL)
    assert gone(child.pid)
    assert process.reap_given_up() == 0
    assert child.usage is not None
