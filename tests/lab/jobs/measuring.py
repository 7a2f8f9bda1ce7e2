"""In the guest: running the product's commands; never imported on the host."""

import json
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
    """The command line of a run of cells, whose results will be ``/lab/NAME.json``.

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
    words = [sys.executable, "-m", "pytest", "--assert=plain", "-v", "-rs", "--durations=5"]
    words += [f"-pno:{plugin}" for plugin in _WITHOUT]
    words += [f"--gpuio-target={target}={path}" for target, path in pairs]
    devices = [path for _, path in pairs if path.startswith("/dev/")] if allow is None else allow
    words += [f"--gpuio-allow-destroy={','.join(devices)}"] if devices else []
    words += ["--gpuio-size=16M", "--gpuio-max-time=150ms", f"--gpuio-results={LAB}/{name}.json", *options]
    words += [f"-m={mark}"] if mark else []
    return [*words, *(f"suite.py::{test}" for test in tests)]


def start(name, *arguments, **keywords):
    """Starts a run of cells, as :func:`command` says; what it prints is ``/lab/NAME.txt``."""
    say("cells", name, *arguments)
    with (LAB / f"{name}.txt").open("wb") as file:
        return subprocess.Popen(command(name, *arguments, **keywords), cwd=HERE, stdout=file, stderr=file)


def cells(name, *arguments, **keywords):
    """Measures, as :func:`command` says; returns the exit status."""
    status = start(name, *arguments, **keywords).wait()
    say("cells", name, "ended with", status)
    return status


def gpuio(*words):
    """Runs a ``gpuio`` command; what it printed is the job's. Returns its exit status."""
    say("gpuio", *words)
    return subprocess.run([sys.executable, "-m", "pytest_gpuio.cli", *words], check=False).returncode


def run(*words):
    """Any program; its failure is the job's. Returns what it said."""
    say(*words)
    return subprocess.run(words, check=True, text=True, stdout=subprocess.PIPE).stdout


def signal(name, wait_s=60.0):
    """Asks the host to act, and waits until it has."""
    say("signal", name)
    (LAB / "signals" / name).touch()
    until = time.monotonic() + wait_s
    while not (LAB / "signals" / f"{name}.done").exists():
        if time.monotonic() > until:
            raise SystemExit(f"the host did not do {name} within {wait_s:.0f} s")
        time.sleep(0.05)


def busy(path, seconds, deadline_s=240.0):
    """Waits until a disk has been read for so long without a pause."""
    stat = Path("/sys/block", path.removeprefix("/dev/"), "stat")
    until = time.monotonic() + deadline_s
    reads = since = None
    while time.monotonic() < until:
        now = int(stat.read_text().split()[0])
        if reads is None or now - reads < 5:
            since = time.monotonic()
        elif time.monotonic() - since >= seconds:
            say(path, "is being read:", now)
            return
        reads = now
        time.sleep(0.1)
    raise SystemExit(f"{path} was not read for {seconds} s within {deadline_s:.0f} s")


def interrupts(prefix):
    """Interrupts so far of the lines in ``/proc/interrupts`` with a name that starts so."""
    total = 0
    for line in Path("/proc/interrupts").read_text().splitlines()[1:]:
        words = line.split()
        if any(word.startswith(prefix) for word in words[1:]):
            total += sum(int(word) for word in words[1:] if word.isdigit())
    return total
