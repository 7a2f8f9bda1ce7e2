"""A real child module, and what tests need to look at processes from outside."""

import os
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from pytest_gpuio.isolation.child import Child

CHILD = '''
import ctypes, json, os, resource, signal, subprocess, sys, time
from pytest_gpuio.core import errors
from pytest_gpuio.isolation.serve import serve, stop_requested, stop_word

resource.setrlimit(resource.RLIMIT_CORE, (0, 0))  # the crashes below are meant
REPLIES = int(sys.argv[3].split(",")[1])


def echo(params, emit):
    return params


def count(params, emit):
    for number in range(params["n"]):
        emit("step", number=number)
        time.sleep(params.get("gap_s", 0))
    return params["n"]


def segfault(params, emit):
    ctypes.string_at(0)


def leave(params, emit):
    os._exit(params["status"])


def hang(params, emit):
    """Until told to stop."""
    emit("started")
    while not stop_requested():
        time.sleep(0.01)
    emit("stopping")
    if "error" in params:
        raise errors.EngineError(params["error"], 110)
    return "stopped"


def deaf(params, emit):
    """Ignores whatever can be ignored, but says that it was asked."""
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    emit("started")
    while not stop_requested():
        time.sleep(0.01)
    emit("asked")
    while True:
        time.sleep(60)


def mute(params, emit):
    time.sleep(60)


def freeze(params, emit):
    os.kill(os.getpid(), signal.SIGSTOP)


def chatter(params, emit):
    """Noise on both streams, from Python and from underneath it."""
    for _ in range(params["lines"]):
        print('{"id": 1, "ok": true, "result": "a lie"}')
        print("noise", file=sys.stderr)
    os.write(1, b"\\xff\\x00 raw\\n")
    sys.stdout.flush()
    return "quiet"


def flood(params, emit):
    while True:
        emit("drop")


def shut(params, emit):
    os.close(REPLIES)
    time.sleep(60)


def torn(params, emit):
    os.write(REPLIES, b'{"id": 1, "ok": tr')
    os._exit(0)


def raw(params, emit):
    os.write(REPLIES, params["line"].encode() + b"\\n")
    time.sleep(60)


def last_words(params, emit):
    """A whole reply, and death right after it."""
    os.write(REPLIES, json.dumps({"id": params["id"], "ok": True, "result": "said"}).encode() + b"\\n")
    os._exit(0)


def family(params, emit):
    return subprocess.Popen(["sleep", "60"], stdout=subprocess.DEVNULL).pid


def fault(params, emit):
    return {}["missing"]


def not_json(params, emit):
    return float("nan")


def big(params, emit):
    return "x" * params["n"]


def stat(params, emit):
    os.stat(params["path"])


def void(params, emit):
    raise errors.CellVoid("littles_law", "in flight 3.0, expected 8.0")


def unsupported(params, emit):
    raise errors.CapabilityMissing("no io_uring here")


def word(params, emit):
    return [len(stop_word()), stop_word().itemsize, stop_word()[0]]


def modules(params, emit):
    return sorted(sys.modules)


def facts(params, emit):
    return {
        "pgid": os.getpgid(0),
        "sid": os.getsid(0),
        "int": signal.getsignal(signal.SIGINT) == signal.SIG_IGN,
        "env": os.environ.get("GPUIO_TEST_VARIABLE"),
        "fds": os.listdir("/proc/self/fd"),
        "safe": sys.flags.safe_path,
    }


if __name__ == "__main__":
    own = [one for one in list(globals().values()) if getattr(one, "__module__", "") == "__main__"]
    serve({one.__name__: one for one in own})
'''


@pytest.fixture(scope="session")
def child_env(tmp_path_factory):
    """Environment in which the child modules ``gpuio_{test,idle,broken}_child`` can be found."""
    folder = tmp_path_factory.mktemp("modules")
    (folder / "gpuio_test_child.py").write_text(CHILD)
    (folder / "gpuio_idle_child.py").write_text("from pytest_gpuio.isolation.serve import serve\nserve({})\n")
    (folder / "gpuio_broken_child.py").write_text("raise ImportError('no engine on this machine')\n")
    path = os.pathsep.join(part for part in (str(folder), os.environ.get("PYTHONPATH", "")) if part)
    return {"PYTHONPATH": path, "GPUIO_TEST_VARIABLE": "seen"}


@pytest.fixture
def child(child_env):
    """One child with a short grace."""
    with Child("gpuio_test_child", name="test", env=child_env, grace_s=0.3) as one:
        yield one


@pytest.fixture
def patient(child_env):
    """One child that gets all the time it wants to wind up."""
    with Child("gpuio_test_child", name="test", env=child_env, grace_s=30) as one:
        yield one


@pytest.fixture
def middle(child_env):
    """Starts a script in a process of its own, between this one and its children; killed after 60 s at most."""
    started = []

    def start(script: str) -> subprocess.Popen:
        process = subprocess.Popen(
            [sys.executable, "-P", "-c", script],
            env={**os.environ, **child_env},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        guard = threading.Timer(60, process.kill)
        guard.start()
        started.append((process, guard))
        return process

    yield start
    for process, guard in started:
        guard.cancel()
        process.kill()
        process.wait(10)
        process.stdin.close()
        process.stdout.close()


@pytest.fixture
def descriptors():
    """What this process has open, by number."""
    return lambda: {path.name for path in Path("/proc/self/fd").iterdir()}


@pytest.fixture
def gone():
    """Whether a process ends within 10 s, as /proc tells (a zombie has ended)."""

    def wait(pid: int) -> bool:
        until = time.monotonic() + 10
        while time.monotonic() < until:
            try:
                state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
            except (FileNotFoundError, ProcessLookupError):
                return True
            if state in "ZX":
                return True
            time.sleep(0.01)
        return False

    return wait
