"""The counters' machinery on an event that every machine has; the processor's own where there is one."""

import errno
import os
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from pytest_gpuio.measure import perf


def spin(seconds):
    until = time.thread_time() + seconds
    while time.thread_time() < until:
        pass


def open_files():
    return {entry.name for entry in Path("/proc/self/fd").iterdir()}


@pytest.fixture
def task_clock():
    counters = perf.Counters(perf.TASK_CLOCK)
    if counters.reason is not None:
        pytest.skip(counters.reason)
    yield counters
    counters.close()


def test_threads_started_later_are_counted_and_user_and_kernel_time(task_clock):
    before = task_clock.read()
    thread = threading.Thread(target=spin, args=(0.2,))
    thread.start()
    thread.join()
    grown = perf.growth(before, task_clock.read())
    assert grown["task_clock"] > 0.15e9


def test_a_thread_that_lives_is_counted_too(task_clock):
    hold, ready = threading.Event(), threading.Event()

    def work():
        spin(0.2)
        ready.set()
        hold.wait(30)

    thread = threading.Thread(target=work)
    thread.start()
    ready.wait(30)
    value, _, _ = task_clock.read()["task_clock"]
    hold.set()
    thread.join()
    assert value > 0.15e9


def test_closed_counters_say_nothing(task_clock):
    task_clock.close()
    task_clock.close()
    assert task_clock.read() is None


def test_the_processors_counters_count_or_say_why_not():
    counters = perf.Counters()
    if counters.reason is not None:
        assert counters.read() is None
        assert counters.reason.endswith(("machines", "CAP_PERFMON", "hides them")), counters.reason
        return
    before = counters.read()
    spin(0.05)
    grown = perf.growth(before, counters.read())
    counters.close()
    assert grown is None or (grown["cycles"] > 1e6 and grown["instructions"] > 1e6)


def test_a_counter_that_was_shared_is_scaled_and_one_never_had_is_unknown():
    before = {"cycles": (100, 1000, 1000)}
    assert perf.growth(before, {"cycles": (600, 3000, 2000)}) == {"cycles": 500 * 2000 / 1000}
    assert perf.growth(before, {"cycles": (100, 3000, 1000)}) is None
    assert perf.growth(None, before) is None
    assert perf.growth(before, None) is None


def test_no_descriptor_is_left_when_one_event_cannot_be_opened():
    before = open_files()
    counters = perf.Counters({**perf.TASK_CLOCK, "nonsense": (0xFFFF, 1)})
    assert counters.reason is not None
    assert open_files() == before


@pytest.mark.parametrize(
    ("code", "words"),
    [
        (errno.ENOENT, "virtual machines"),
        (errno.EACCES, "kernel.perf_event_paranoid"),
        (errno.EPERM, "CAP_PERFMON"),
        (errno.ENOSYS, "CONFIG_PERF_EVENTS"),
        (errno.EMFILE, "EMFILE"),
    ],
)
def test_reasons_tell_the_remedy(code, words):
    assert words in perf._why(code)


def test_without_the_right_the_reason_names_it():
    if os.geteuid() != 0:
        pytest.skip("needs root, to give rights up")
    script = (
        "import os\n"
        "from pytest_gpuio.measure import perf\n"
        "os.setgid(65534); os.setuid(65534)\n"
        "print(perf.Counters(perf.TASK_CLOCK).reason)"
    )
    level = int(Path("/proc/sys/kernel/perf_event_paranoid").read_text())
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    # From level 2 on, a user without rights may not count the kernel's part.
    assert ("perf_event_paranoid" in done.stdout) == (level >= 2)
