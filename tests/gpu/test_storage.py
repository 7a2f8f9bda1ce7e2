"""cuFile, KvikIO and NIXL on a real GPU: every path moves checked data, and says which way it took."""

import importlib.util
import json
import os
import subprocess
import sys
from contextlib import ExitStack
from pathlib import Path

import pytest

from pytest_gpuio.core.errors import CapabilityMissing
from pytest_gpuio.crosscheck import devices
from pytest_gpuio.engine import find_cufile, probe
from pytest_gpuio.measure.libraries.nixl import module_name

pytestmark = pytest.mark.gpu
SUITE = """
import pytest


@pytest.mark.workload("micro/randread", "micro/seqwrite")
def test_cell(gpuio):
    gpuio.run()
"""
NOISE = ("data_verified", "path_proved", "no_errors", "no_short_io", "littles_law")


@pytest.fixture
def memory_target():
    """A folder in memory: libcufile 1.20 takes its files without udev's database."""
    import shutil
    import tempfile

    if not os.access("/dev/shm", os.W_OK):
        pytest.skip("needs a writable /dev/shm")
    folder = tempfile.mkdtemp(dir="/dev/shm", prefix="gpuio-test-")
    yield Path(folder)
    shutil.rmtree(folder)


@pytest.fixture
def disk_target():
    """A folder on ext4 on a loop device, known to udev's database: every libcufile takes its files."""
    with ExitStack() as stack:
        try:
            folder = stack.enter_context(devices.ext4_on_loop(600 << 20))
        except CapabilityMissing as error:
            pytest.skip(str(error))
        number = folder.stat().st_dev
        entry = Path(f"/run/udev/data/b{os.major(number)}:{os.minor(number)}")
        if not entry.exists():
            made = [path for path in (entry.parent, entry.parent.parent) if not path.exists()]
            entry.parent.mkdir(parents=True, exist_ok=True)
            entry.write_text("I:1\nE:ID_FS_USAGE=filesystem\nE:ID_FS_TYPE=ext4\nE:ID_FS_VERSION=1.0\nG:systemd\nV:1\n")
            for path in reversed(made):
                stack.callback(path.rmdir)
            stack.callback(entry.unlink)
        yield folder


@pytest.fixture
def cells(gpus, pytester, memory_target):
    def run(*options, target=memory_target):
        pytester.makepyfile(test_suite=SUITE)
        done = pytester.runpytest_subprocess(
            f"--gpuio-target={target}", "--gpuio-size=256M", "--gpuio-max-time=400ms", "--gpuio-bs=256k",
            "-p", "no:cacheprovider", "-p", "no:hypothesispytest", "-rs", *options, timeout=300,
        )  # fmt: skip
        found = json.loads((pytester.path / "gpuio-results.json").read_text())
        # A shared machine may void a cell by noise; wrong data and a wrong path are no noise.
        assert not [void for void in found["voids"] if void["gate"] in NOISE], done.stdout.str()
        assert not found["failures"], done.stdout.str()
        return found, done

    return run


def needs(name):
    if name == "cufile" and (find_cufile() is None and probe("cufile") is not None):
        pytest.skip("libcufile is not there")
    if name == "kvikio" and importlib.util.find_spec("kvikio") is None:
        pytest.skip("KvikIO is not installed")
    if name == "nixl" and module_name() is None:
        pytest.skip("NIXL is not installed")


def check(found, names):
    assert {cell["axes"]["datapath"] for cell in found["cells"]} == names
    for cell in found["cells"]:
        assert cell["axes"]["destination"] == "gpu"
        assert cell["verify"]["checked"] > 0
        assert cell["verify"]["bad"] == 0
        assert cell["effective"]["datapath"] == cell["axes"]["datapath"]
        assert cell["gpu_meter"]["reason"] is None or "not installed" in cell["gpu_meter"]["reason"]


def test_cufile_falls_back_here_and_says_so(cells):
    needs("cufile")
    if Path("/proc/driver/nvidia-fs").exists():
        pytest.skip("this machine has nvidia-fs")
    found, done = cells(
        "--gpuio-datapath=gds,gds_compat,gds_compat_batch,gds_compat_stream", "--gpuio-qd=1,8", "--gpuio-jobs=4"
    )
    check(found, {"gds_compat", "gds_compat_batch", "gds_compat_stream"})
    for cell in found["cells"]:
        assert cell["effective"]["route"] == "compat"
        counters = cell["cufile"]["counters"]
        assert counters["nvfs"] + counters["p2p"] + counters["batch_nvfs"] + counters["batch_p2p"] == 0
    strict = [skip["reason"] for skip in found["skips"] if "datapath=gds|" in skip["case"]]
    assert strict, done.stdout.str()
    assert all("5001" in reason for reason in strict)


def test_kvikio_is_classified_by_cufile_s_counters(cells):
    needs("kvikio")
    found, _ = cells("--gpuio-datapath=kvikio", "--gpuio-qd=2", "--gpuio-jobs=4")
    check(found, {"kvikio"})
    for cell in found["cells"]:
        assert cell["effective"]["route"] in ("compat", "bypassed")
        assert len(cell["cufile"]["libraries"]) == 1
        assert cell["library"]["settings"]["num_threads"] == 8


def test_nixl_s_plug_ins_move_checked_data(cells, disk_target):
    needs("nixl")
    options = ("--gpuio-datapath=nixl_gds,nixl_gds_mt", "--gpuio-qd=8", "--gpuio-jobs=1")
    # NIXL brings the libcufile of its own choice, which may be one that takes no files in memory.
    found, _ = cells(*options, target=disk_target)
    check(found, {"nixl_gds", "nixl_gds_mt"})
    for cell in found["cells"]:
        assert cell["effective"]["route"] == "compat"


def test_the_management_library_sees_the_bytes_that_came(cells):
    pytest.importorskip("pynvml")
    found, _ = cells(
        "--gpuio-datapath=psync", "--gpuio-destination=gpu", "--gpuio-jobs=8", "--gpuio-workload=micro/randread"
    )
    (cell,) = found["cells"]
    (gpu,) = cell["gpu_meter"]["gpus"]
    assert gpu["contexts"] >= 1
    assert gpu["sm_clock_hz"] > 1e8
    if gpu["pcie_rx_bytes_per_s"] is not None:
        # Independent of us: at least what the windows moved, spread over the stretch with its gaps.
        assert gpu["pcie_rx_bytes_per_s"] * gpu["seconds"] > 0.5 * cell["bytes"]


def test_the_probe_forecasts_what_happens(gpus, memory_target):
    done = subprocess.run(
        [sys.executable, "-P", "-m", "pytest_gpuio.cli", "probe", str(memory_target), "--json", "-"],
        capture_output=True, text=True, timeout=240, check=True,
    )  # fmt: skip
    found = json.loads(done.stdout)["gpu_storage"]
    if Path("/proc/driver/nvidia-fs").exists():
        pytest.skip("this machine has nvidia-fs")
    assert found["forecast"]["route"] in ("compat", "none")
    assert found["strict"]["reason"]
    assert any("nvidia-fs is not loaded" in sentence for sentence in found["forecast"]["in_the_way"])
