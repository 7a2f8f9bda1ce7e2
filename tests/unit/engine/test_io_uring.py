"""The ring: every knob on and off, and every reason why it, or a part of it, cannot be had."""

from __future__ import annotations

import errno
import json
import os
import shutil
import subprocess
import sys
from dataclasses import replace

import pytest

from pytest_gpuio.core.errors import EngineError
from pytest_gpuio.engine import KNOBS, Clock, Pool, Run, RunSpec, probe

MIB = 1 << 20


@pytest.fixture
def ring(target) -> RunSpec:
    reason = probe("io_uring")
    if reason is not None:
        pytest.skip(reason)
    return RunSpec(
        engine="io_uring", fd=target(), depth=16, block=4096, order="random", region_bytes=4 * MIB, pattern_seed=7,
        verify=True, timeout_s=60,
    )  # fmt: skip


@pytest.mark.parametrize("bits", range(1 << len(KNOBS)))
def test_every_set_of_knobs(ring, clock: Clock, pool: Pool, bits):
    knobs = frozenset(name for i, name in enumerate(KNOBS) if bits >> i & 1)
    with Run(replace(ring, knobs=knobs, jobs=2, submit_batch=1 + bits % 16), clock, pool) as run:
        for reap_batch_window in range(3):
            window = run.window(500 + reap_batch_window)
            assert (window.ios, window.verified, window.bad) == (500 + reap_batch_window, 500 + reap_batch_window, 0)
        slat = run.histograms()["slat"].count
        effective, reason = run.effective_knobs, run.knob_reason
    assert slat == (0 if "merged_wait" in knobs else 502)
    assert effective <= knobs
    assert bool(reason) == (effective != knobs)


@pytest.mark.parametrize("batches", [(1, 1), (16, 1), (1, 16), (16, 16), (5, 3)])
@pytest.mark.parametrize("merged", [False, True])
def test_batches(ring, clock: Clock, pool: Pool, batches, merged):
    knobs = frozenset({"merged_wait"}) if merged else frozenset()
    spec = replace(ring, submit_batch=batches[0], reap_batch=batches[1], knobs=knobs, read_percent=50, verify=False)
    with Run(spec, clock, pool) as run:
        assert run.window(1009).ios == 1009
        assert run.window(1).ios == 1
        assert run.sweep().bad == 0


def test_a_ring_that_is_too_deep(ring, clock: Clock, pool: Pool):
    with pytest.raises(EngineError, match="the most is 32768") as raised:
        Run(replace(ring, depth=32769, block=512), clock, pool)
    assert raised.value.errno == errno.EINVAL


def test_more_slots_than_a_ring_registers(ring, clock: Clock, pool: Pool):
    deep = replace(ring, depth=16385, block=512, knobs=frozenset({"fixed_buffers"}))
    with Run(deep, clock, pool) as run:
        assert run.effective_knobs == frozenset()
        assert "registers at most 16384" in run.knob_reason
    with pytest.raises(EngineError, match="registers at most 16384"):
        Run(replace(deep, require_knobs=True), clock, pool)


_OPEN = """
import json, os, resource, sys, tempfile
from pytest_gpuio.core.errors import EngineError
from pytest_gpuio.engine import Clock, Pool, Run, RunSpec, probe
resource.setrlimit(resource.RLIMIT_MEMLOCK, (65536, 65536))
spec = RunSpec(engine="io_uring", fd=os.open(sys.executable, os.O_RDONLY), depth=64, block=65536, region_bytes=65536,
               knobs=frozenset({"fixed_buffers", "registered_files"}))
clock, pool = Clock.calibrate(), Pool()
with Run(spec, clock, pool) as run:
    out = {"effective": sorted(run.effective_knobs), "reason": run.knob_reason}
try:
    Run(RunSpec(**{**{n: getattr(spec, n) for n in spec.__slots__}, "require_knobs": True}), clock, pool)
except EngineError as error:
    out |= {"errno": error.errno, "error": str(error)}
print(json.dumps(out))
"""


def test_locked_memory_is_not_enough(ring):
    command = [sys.executable, "-P", "-c", _OPEN]
    if os.geteuid() == 0:
        setpriv = shutil.which("setpriv")
        if setpriv is None:
            pytest.skip("root has CAP_IPC_LOCK, and setpriv (util-linux) is missing to give it up")
        command = [setpriv, "--bounding-set=-ipc_lock", "--inh-caps=-ipc_lock", *command]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    out = json.loads(done.stdout)
    if "fixed_buffers" in out["effective"]:
        pytest.skip("this kernel does not count registered buffers as locked memory")
    assert out["effective"] == ["registered_files"]
    assert "RLIMIT_MEMLOCK of 4194304 bytes" in out["reason"]
    assert "it is 65536" in out["reason"]
    assert out["errno"] == errno.ENOMEM
    assert out["error"] == out["reason"]


# A real seccomp filter, as containers have one, in a process of its own.
_FILTERED = """
import ctypes, struct, sys
from pytest_gpuio.engine import probe
libc = ctypes.CDLL(None, use_errno=True)
LOAD_NUMBER, JUMP_IF_EQUAL, RETURN = 0x20, 0x15, 0x06
IO_URING_SETUP, ALLOW, ERRNO = 425, 0x7FFF0000, 0x00050000
filters = b"".join(struct.pack("HBBI", *entry) for entry in [
    (LOAD_NUMBER, 0, 0, 0),
    (JUMP_IF_EQUAL, 0, 1, IO_URING_SETUP),
    (RETURN, 0, 0, ERRNO | int(sys.argv[1])),
    (RETURN, 0, 0, ALLOW),
])
keep = ctypes.create_string_buffer(filters)
program = ctypes.create_string_buffer(struct.pack("HxxxxxxP", 4, ctypes.addressof(keep)))
assert libc.prctl(38, 1, 0, 0, 0) == 0  # PR_SET_NO_NEW_PRIVS
if libc.prctl(22, 2, program, 0, 0):  # PR_SET_SECCOMP
    print("no seccomp here")
else:
    print(probe(sys.argv[2]))
"""


@pytest.mark.parametrize(
    ("code", "words"),
    [
        (errno.EPERM, "a seccomp filter (container or sandbox) forbids io_uring"),
        (errno.ENOSYS, "seccomp filter of this"),
    ],
)
@pytest.mark.parametrize("engine", ["io_uring", "io_uring_sqpoll", "io_uring_iopoll", "io_uring_full", "io_uring_cmd"])
def test_a_container_forbids_it(ring, code, words, engine):
    done = subprocess.run(
        [sys.executable, "-P", "-c", _FILTERED, str(code), engine], capture_output=True, text=True, timeout=60
    )
    assert done.returncode == 0, done.stderr
    if "no seccomp here" in done.stdout:
        pytest.skip("seccomp filters cannot be set here")
    assert words in done.stdout


def test_a_library_that_is_none(ring, clock: Clock, pool: Pool):
    with pytest.raises(EngineError, match="liburing cannot be opened") as raised:
        Run(replace(ring, library="/nowhere/liburing.so"), clock, pool)
    assert raised.value.errno == errno.ELIBACC
