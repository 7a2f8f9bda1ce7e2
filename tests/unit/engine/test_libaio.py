"""How libaio's completions are taken, as strace saw it."""

import re

import pytest

_RUN = """
import os, sys
from pytest_gpuio.engine import Clock, Pool, Run, RunSpec
fd = os.open(sys.argv[1], os.O_RDONLY)
spec = RunSpec(
    engine="libaio", fd=fd, region_bytes=1 << 20, block=4096, depth=int(sys.argv[2]), submit_batch=int(sys.argv[3]),
    reap_batch=int(sys.argv[3]), order="random", timeout_s=20.0,
)
with Run(spec, Clock.calibrate(), Pool()) as run:
    window = run.window(300)
print(window.ios, window.errors, window.short_ios)
"""


@pytest.mark.parametrize(("depth", "batch"), [(1, 1), (8, 1), (8, 4)])
def test_what_has_ended_is_taken_without_a_call(tmp_path, traced, depth, batch):
    """Requests for cached pages are over when io_submit returns: nothing is left to wait for in the kernel."""
    (tmp_path / "target").write_bytes(bytes(1 << 20))
    (tmp_path / "target").read_bytes()
    said, threads = traced("io_submit,io_getevents", _RUN, tmp_path / "target", depth, batch)
    assert said.split() == ["300", "0", "0"]
    calls = "".join(threads.values())
    assert sum(map(int, re.findall(r"io_submit\(.*\) = (\d+)", calls))) == 300
    assert "io_getevents" not in calls
