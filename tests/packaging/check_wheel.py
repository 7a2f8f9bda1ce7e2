"""Build the wheel, repair it to a manylinux tag, and run it where no compiler can be found."""

from __future__ import annotations

import argparse
import os
import platform
import shutil
import subprocess
import sys
import venv
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
SMOKE = """
import pytest


@pytest.mark.workload("inference/random_read_4k")
def test_read(gpuio):
    record = gpuio.run()
    assert record["ios"] > 0
"""


def run(*command: str | Path, **keywords: object) -> str:
    """Run a command, echo it, and stop with its output when it fails."""
    print("$", *command, flush=True)
    done = subprocess.run([str(word) for word in command], text=True, capture_output=True, **keywords)
    print(done.stdout[-4000:], done.stderr[-4000:], sep="", flush=True)
    if done.returncode:
        sys.exit(f"failed with exit status {done.returncode}: {' '.join(map(str, command))}")
    return done.stdout


def main() -> None:
    """Build, repair, install, run."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path, help="where the wheels go")
    folder: Path = parser.parse_args().folder.resolve()
    marker = folder / ".made-by-check-wheel"
    if folder.exists() and any(folder.iterdir()) and not marker.exists():
        sys.exit(f"{folder} holds files that this script did not make: name an empty or a new folder")
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    marker.touch()

    run(sys.executable, "-m", "build", "--wheel", "--outdir", folder / "raw", ROOT)
    (raw,) = (folder / "raw").glob("*.whl")
    assert f"cp311-abi3-linux_{platform.machine()}" in raw.name, raw.name
    run(sys.executable, "-m", "auditwheel", "repair", "--wheel-dir", folder / "repaired", raw)
    (wheel,) = (folder / "repaired").glob("*.whl")
    assert "manylinux" in wheel.name, wheel.name

    home = folder / "venv"
    venv.create(home, with_pip=True)
    bare = {"PATH": str(home / "bin"), "HOME": str(folder), "PYTHONSAFEPATH": "1"}
    # Where packages come from is the machine's own setting, not ours to drop.
    bare |= {name: value for name, value in os.environ.items() if name.startswith(("PIP_", "SSL_", "HTTP", "http"))}
    assert shutil.which("gcc", path=bare["PATH"]) is None
    run(home / "bin/pip", "install", "--only-binary=:all:", wheel, env=bare)
    run(home / "bin/gpuio", "--help", env=bare)
    planned = run(home / "bin/gpuio", "sweep", "plan", "study", env=bare)
    assert "29,272 cells" in planned, planned

    suite = folder / "suite"
    suite.mkdir()
    (suite / "test_smoke.py").write_text(SMOKE)
    arguments = ("-v", "--gpuio-size=64M", "--gpuio-max-time=300ms", "--gpuio-datapath=null,psync,io_uring")
    print(run(home / "bin/pytest", *arguments, env=bare, cwd=suite), flush=True)
    listed = run(
        home / "bin/pytest", "--pyargs", "pytest_gpuio.bench_suites", "--collect-only", "-q", env=bare, cwd=suite
    )
    assert "test_inference.py::test_kv_fetch[" in listed, listed
    print(f"wheel: {wheel.name}, {wheel.stat().st_size:,} bytes; installed and run without a compiler")


if __name__ == "__main__":
    main()
