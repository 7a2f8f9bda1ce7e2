"""Commands run to their end, with real processes."""

import sys
import time
from subprocess import DEVNULL

import pytest

from pytest_gpuio.core.errors import GpuioError
from pytest_gpuio.crosscheck.timed_process import run_timed

KEPT = 64 << 20


def python(code, deadline_s=30.0):
    command = [sys.executable, "-S", "-c", code]
    return run_timed(command, name="a command", deadline_s=deadline_s, stdout=DEVNULL, stderr=DEVNULL)


def test_status_time_and_memory_are_the_processs():
    done = python(f"import sys, time; kept = b'x' * {KEPT}; time.sleep(0.2); sys.exit(3)")
    assert done.status == 3
    assert done.seconds >= 0.2
    assert done.ended <= time.monotonic()
    assert KEPT <= done.peak < 4 * KEPT


def test_memory_is_not_that_of_who_started_it():
    mine = b"x" * (4 * KEPT)
    assert 0 < python("import time; time.sleep(0.2)").peak < len(mine) / 2


def test_descendants_count_by_the_largest():
    child = f"import time; kept = b'x' * {KEPT}; time.sleep(0.3)"
    done = python(f"import subprocess, sys; subprocess.run([sys.executable, '-S', '-c', {child!r}])")
    assert KEPT <= done.peak < 4 * KEPT


def test_what_is_late_is_killed():
    with pytest.raises(GpuioError, match=r"a command was not done within 0\.2 s and was killed"):
        python("import time; time.sleep(60)", deadline_s=0.2)
