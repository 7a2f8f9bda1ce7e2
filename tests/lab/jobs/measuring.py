"""In the guest: running the product's commands; never imported on the host."""

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
#: A depth that emulated drives can hold: behind slow processors they answer sooner than a deeper queue fills. Paths with
#: one request at a time have depth 1 only.
ONE_DEPTH = "gpuio(qd=4) or gpuio(datapath='psync') or gpuio(datapath='mmap') or gpuio(datapath='dax')"
#: Plugins of this environment that the product does not need; starting them is slow under emulation.
_WITHOUT = ("codspeed", "cacheprovider", "hypothesispytest", "pytester", "xdist", "xdist.looponfail")


def say(*words):
    print(f"[{time.monotonic():7.1f}]", *words, flush=True)


def environment():
    """Without the path that found this module."""
    return {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}


def command(name, targets, *options, test="test_cell", mark=None):
    """The command line of a run of cells, whose results will be ``/lab/NAME.json``.

    Args:
        targets: names of the lab, or (name, path) pairs.
    """
    HERE.mkdir(exist_ok=True)
    shutil.copy(Path(__file__).with_name("suite.py"), HERE / "suite.py")
    (HERE / "pytest.ini").write_text("[pytest]\n")
    pairs = [(target, DEVICES[target]) if isinstance(target, str) else target for target in targets]
    words = [sys.executable, "-m", "pytest", "-v", "-rs", "--durations=5"]
    words += [f"-pno:{plugin}" for plugin in _WITHOUT]
    words += [f"--gpuio-target={target}={path}" for target, path in pairs]
    devices = [path for _, path in pairs if path.startswith("/dev/")]
    words += [f"--gpuio-allow-destroy={','.join(devices)}"] if devices else []
    words += ["--gpuio-size=16M", "--gpuio-max-time=150ms", f"--gpuio-results={LAB}/{name}.json", *options]
    words += [f"-m={mark}"] if mark else []
    return [*words, f"suite.py::{test}"]


def cells(name, targets, *options, test="test_cell", mark=None):
    """Measures; what was printed is ``/lab/NAME.txt``. Returns the exit status."""
    say("cells", name, *targets, *options)
    with (LAB / f"{name}.txt").open("wb") as file:
        words = command(name, targets, *options, test=test, mark=mark)
        status = subprocess.run(words, cwd=HERE, stdout=file, stderr=file, env=environment(), check=False).returncode
    say("cells", name, "ended with", status)
    return status


def gpuio(*words):
    """Runs a ``gpuio`` command; what it printed is the job's."""
    say("gpuio", *words)
    return subprocess.run([sys.executable, "-m", "pytest_gpuio.cli", *words], env=environment(), check=False).returncode


def run(*words):
    """Any program; its failure is the job's.

    Returns:
        what it said.
    """
    say(*words)
    return subprocess.run(words, check=True, text=True, stdout=subprocess.PIPE).stdout


def interrupts(prefix):
    """Interrupts so far of the lines in ``/proc/interrupts`` whose name starts so."""
    total = 0
    for line in Path("/proc/interrupts").read_text().splitlines()[1:]:
        words = line.split()
        if any(word.startswith(prefix) for word in words[1:]):
            total += sum(int(word) for word in words[1:] if word.isdigit())
    return total
