"""The observer outside: a real busy process, and arithmetic on made-up samples."""

import os
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from pytest_gpuio.crosscheck.truth import LEAST_STRETCH_S, Sample, Strangers, Watch, growth, kernel_threads, observed
from pytest_gpuio.measure.host import HostTimes


def times(at, idle, cpus=2, steal=0.0):
    return HostTimes(round(at * 1e9), idle, steal, dict.fromkeys(range(cpus), (0.0, 0.0)))


def test_rates_are_between_the_first_and_the_last_sample():
    samples = [
        Sample(10.0, times(10.0, 100.0), 0, 100, {7: 0, 8: 0}),
        Sample(10.5, None, 5),
        Sample(12.0, times(12.0, 101.0), 1_500_000_000, 200_000_100, {7: 300_000_000, 9: 5}),
    ]
    seen = observed(samples)
    assert seen.seconds == 2.0
    assert seen.process_cores == pytest.approx(0.75)
    assert seen.host_cores == pytest.approx((2 * 2.0 - 1.0) / 2.0)
    # 3 of 4 CPU seconds were spent, 1.5 by the tool, 0.2 by us, 0.3 by the kernel's thread 7.
    assert seen.strangers == pytest.approx((3.0 - 1.5 - 0.2 - 0.3) / 2.0)


def test_too_little_is_nothing():
    assert observed([]) is None
    assert observed([Sample(1.0, None, 1)]) is None
    assert observed([Sample(1.0, None, 1), Sample(1.0 + LEAST_STRETCH_S / 2, None, 2)]) is None


def test_what_cannot_be_read_is_unknown():
    seen = observed([Sample(1.0, None, 1), Sample(2.0, times(2.0, 1.0), None)])
    assert (seen.process_cores, seen.host_cores, seen.strangers) == (None, None, None)


def test_a_busy_process_is_seen_with_its_threads():
    code = "import time, zlib\nimport threading\n"
    code += "work = lambda: [zlib.crc32(bytes(1 << 20)) for _ in range(4000)]\n"
    code += "threading.Thread(target=work).start()\ntime.sleep(60)"
    with subprocess.Popen([sys.executable, "-c", code]) as process:
        try:
            with Watch(process.pid) as watch:
                began = time.monotonic()
                time.sleep(1.2)
                ended = time.monotonic()
        finally:
            process.kill()
    seen = watch.between(began, ended)
    assert seen.process_cores > 0.1
    assert seen.host_cores > seen.process_cores - 0.2


def test_the_observer_ends_with_its_process_gone():
    with subprocess.Popen([sys.executable, "-c", ""]) as process:
        process.wait()
    before = threading.active_count()
    with Watch(process.pid) as watch:
        time.sleep(0.35)
    assert threading.active_count() == before
    assert watch.between(0.0, time.monotonic()).process_cores is None


def test_the_kernels_threads_are_found():
    names = {(Path(f"/proc/{pid}/comm").read_text().strip()) for pid in kernel_threads()}
    if not names:
        pytest.skip("/proc does not show the kernel's threads: a container")
    assert any(name.startswith("ksoftirqd") for name in names)
    assert os.getpid() not in kernel_threads()


def test_kernel_threads_of_a_made_up_proc(tmp_path):
    def process(pid, name, parent):
        (tmp_path / "proc" / str(pid)).mkdir(parents=True)
        (tmp_path / "proc" / str(pid) / "stat").write_text(f"{pid} ({name}) S {parent} 0 0 0")

    process(1, "init", 0)
    process(2, "kthreadd", 0)
    process(30, "kworker/0:1 (x) 1", 2)
    process(31, "evil) S 2 (", 1)
    process(32, "loop0", 2)
    (tmp_path / "proc/33").mkdir()  # ended while we looked
    (tmp_path / "proc/self").mkdir()
    assert sorted(kernel_threads(str(tmp_path))) == [30, 32]


def test_growth_counts_what_is_in_both():
    assert growth({1: 5, 2: 7, 3: 9}, {1: 8, 3: 9, 4: 100}) == 3
    assert growth({1: 5}, {1: 2}) == 0  # an id used again
    assert growth({}, {}) == 0


def busy(seconds):
    code = f"import time\nuntil = time.monotonic() + {seconds}\nwhile time.monotonic() < until: pass"
    return [sys.executable, "-c", code]


def test_our_children_are_no_strangers_alive_or_ended():
    before = Strangers(list)
    subprocess.run(busy(0.8), check=True)
    ended = before.share()
    alive_pids = []
    before = Strangers(lambda: alive_pids)
    with subprocess.Popen(busy(60)) as child:
        blind = Strangers(list)
        alive_pids.append(child.pid)
        time.sleep(1.0)
        alive, unseen = before.share(), blind.share()
        child.kill()
    # The same second with and without knowing the child: it made the difference.
    assert unseen - alive > 0.1 / (os.cpu_count() or 1)
    assert 0 <= ended <= 1


def test_a_moment_tells_nothing():
    assert Strangers(list).share() is None
