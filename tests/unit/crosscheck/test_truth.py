"""The observer outside: a real busy process, and arithmetic on made-up samples."""

import subprocess
import sys
import threading
import time

import pytest

from pytest_gpuio.crosscheck.truth import LEAST_STRETCH_S, Sample, Watch, observed
from pytest_gpuio.measure.host import HostTimes


def times(at, idle, cpus=2, steal=0.0):
    return HostTimes(round(at * 1e9), idle, steal, dict.fromkeys(range(cpus), (0.0, 0.0)))


def test_rates_are_between_the_first_and_the_last_sample():
    samples = [
        Sample(10.0, times(10.0, 100.0), 0),
        Sample(10.5, None, 5),
        Sample(12.0, times(12.0, 101.0), 1_500_000_000),
    ]
    seen = observed(samples)
    assert seen.seconds == 2.0
    assert seen.process_cores == pytest.approx(0.75)
    assert seen.host_cores == pytest.approx((2 * 2.0 - 1.0) / 2.0)
    assert seen.others == pytest.approx(1.5 - 0.75)


def test_too_little_is_nothing():
    assert observed([]) is None
    assert observed([Sample(1.0, None, 1)]) is None
    assert observed([Sample(1.0, None, 1), Sample(1.0 + LEAST_STRETCH_S / 2, None, 2)]) is None


def test_what_cannot_be_read_is_unknown():
    seen = observed([Sample(1.0, None, 1), Sample(2.0, times(2.0, 1.0), None)])
    assert (seen.process_cores, seen.host_cores, seen.others) == (None, None, None)


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
