"""In the guest: running the product's commands; never imported on the host."""

import importlib
import json
import os
import shutil
import subprocess
import sys
import time
from pathlib import Path

LAB = Path("/lab")
HERE = Path("/tmp/suite")
_told = json.loads((LAB / "devices.json").read_text())
#: Name of the lab -> path in the guest.
DEVICES = _told["devices"]
#: A depth that emulated drives can hold: behind slow processors they answer sooner than a deeper queue fills. Paths
#: with one request at a time have depth 1 only.
_SYNCHRONOUS = ("psync", "mmap", "dax", "gds", "gds_compat")
ONE_DEPTH = " or ".join(("gpuio(qd=4)", *(f"gpuio(datapath='{path}')" for path in _SYNCHRONOUS)))
#: Plugins of this environment that the product does not need; starting them is slow under emulation.
_WITHOUT = ("codspeed", "cacheprovider", "hypothesispytest", "pytester", "xdist", "xdist.looponfail")


def say(*words):
    print(f"[{time.monotonic():7.1f}]", *words, flush=True)


def command(name, targets, *options, tests=("test_cell",), mark=None, allow=None):
    """The arguments to pytest of a run of cells, whose results will be ``/lab/NAME.json``.

    Args:
        name: of the run.
        targets: names of the lab, or (name, path) pairs.
        options: more of pytest's.
        tests: of the suite.
        mark: which cells. allow: devices that may be overwritten; None = all that are targets.
    """
    HERE.mkdir(exist_ok=True)
    shutil.copy(Path(__file__).with_name("suite.py"), HERE / "suite.py")
    (HERE / "pytest.ini").write_text("[pytest]\n")
    pairs = [(target, DEVICES[target]) if isinstance(target, str) else target for target in targets]
    # Rewriting the asserts of all plugins at each start is slow under emulation.
    words = ["--assert=plain", "-v", "-rs", "--durations=10"]
    words += [f"-pno:{plugin}" for plugin in _WITHOUT]
    words += [f"--gpuio-target={target}={path}" for target, path in pairs]
    devices = [path for _, path in pairs if path.startswith("/dev/")] if allow is None else allow
    words += [f"--gpuio-allow-destroy={','.join(devices)}"] if devices else []
    words += [
        "--gpuio-size=16M",
        "--gpuio-max-time=150ms",
        "--gpuio-window=40ms",
        f"--gpuio-results={LAB}/{name}.json",
        *options,
    ]
    words += [f"-m={mark}"] if mark else []
    return [*words, *(f"suite.py::{test}" for test in tests)]


class Forked:
    """A run of pytest in a fork of this process, which has its modules in memory: reading them takes half a minute."""

    def __init__(self, words, output):
        for module in ("pytest", "pytest_benchmark.plugin", "pytest_gpuio.plugin"):
            importlib.import_module(module)
        sys.stdout.flush()
        self._status = None
        self._pid = os.fork()
        if self._pid == 0:
            status = 70
            try:
                file = os.open(output, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
                os.dup2(file, 1)
                os.dup2(file, 2)
                os.chdir(HERE)
                status = int(importlib.import_module("pytest").main(words))
                sys.stdout.flush()
            finally:
                os._exit(status)

    def poll(self):
        """Its exit status; None while it runs."""
        if self._status is None:
            pid, status = os.waitpid(self._pid, os.WNOHANG)
            self._status = os.waitstatus_to_exitcode(status) if pid else None
        return self._status

    def wait(self):
        """Its exit status, once it has one."""
        while self.poll() is None:
            time.sleep(0.05)
        return self._status


def start(name, *arguments, **keywords):
    """Starts a run of cells, as :func:`command` says; what it prints is ``/lab/NAME.txt``."""
    say("cells", name, *arguments)
    return Forked(command(name, *arguments, **keywords), LAB / f"{name}.txt")


def cells(name, *arguments, **keywords):
    """Measures, as :func:`command` says; returns the exit status."""
    status = start(name, *arguments, **keywords).wait()
    say("cells", name, "ended with", status)
    return status


def again(name):
    """Path of a device after its driver was loaded anew: names may have changed."""
    sys.path.insert(0, str(LAB))
    return importlib.import_module("prepare").BUILDERS[name](name)


def run(*words):
    """Any program; its failure is the job's. Returns what it said."""
    say(*words)
    return subprocess.run(words, check=True, text=True, stdout=subprocess.PIPE).stdout


def signal(name, wait_s=300.0):
    """Asks the host to act, and waits until it has."""
    say("signal", name)
    (LAB / "signals" / name).touch()
    until = time.monotonic() + wait_s
    while not (LAB / "signals" / f"{name}.done").exists():
        if time.monotonic() > until:
            raise SystemExit(f"the host did not do {name} within {wait_s:.0f} s")
        time.sleep(0.05)


def busy(path, seconds, process):
    """Waits until a disk has been read for so long, by a run of cells, without a pause of half a second.

    Under emulation on a busy host anything may take long: as long as the run goes on it may still come.
    """
    stat = Path("/sys/block", path.removeprefix("/dev/"), "stat")
    reads, since, last = None, 0.0, 0.0
    while process.poll() is None:
        now, at = int(stat.read_text().split()[0]), time.monotonic()
        if now != reads:
            if at - last > 0.5:
                since = at
            reads, last = now, at
        if last == at and at - since >= seconds:
            say(path, "is being read:", now)
            return
        time.sleep(0.05)
    raise SystemExit(f"the run ended before {path} was read for {seconds} s")


def interrupts(prefix):
    """Interrupts so far of the lines in ``/proc/interrupts`` with a name that starts so."""
    total = 0
    for line in Path("/proc/interrupts").read_text().splitlines()[1:]:
        words = line.split()
        if any(word.startswith(prefix) for word in words[1:]):
            total += sum(int(word) for word in words[1:] if word.isdigit())
    return total
