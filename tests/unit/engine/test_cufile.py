"""cuFile's driver: a stand-in library for our logic (marked so), and the real libcufile where the kernel allows it."""

from __future__ import annotations

import importlib.util
import json
import mmap
import os
import subprocess
import sys
from pathlib import Path

import pytest

from pytest_gpuio.core.errors import EngineError
from pytest_gpuio.engine import CuFile, find_cufile, find_library, mapped_libraries, probe


def test_stand_in_tells_what_it_is(libcufile, monkeypatch):
    monkeypatch.setenv("STANDIN_VERSION", "1180")
    if not Path("/proc/modules").exists():
        monkeypatch.setenv("STANDIN_VERSION", "1150")
    with CuFile(libcufile) as driver:
        assert driver.info.release in ("1.18", "1.15")
        assert driver.info.may_fall_back is True
        assert driver.info.max_direct_bytes == 16 << 20
        assert driver.counters().nothing
        assert mapped_libraries() == (libcufile,)
    with pytest.raises(EngineError, match="is closed"):
        driver.counters()
    driver.close()


def test_stand_in_refusals_carry_the_remedy(libcufile, monkeypatch, tmp_path):
    monkeypatch.setenv("STANDIN_VERSION", "1150")
    monkeypatch.setenv("STANDIN_FAULT", "open:5001")
    with pytest.raises(EngineError, match=r"cuFile code 5001.*modprobe nvidia-fs") as caught:
        CuFile(libcufile)
    assert caught.value.errno == 5001
    monkeypatch.setenv("STANDIN_FAULT", "register:5027")
    with CuFile(libcufile) as driver, (tmp_path / "f").open("wb") as file:
        with pytest.raises(EngineError, match=r"cuFileHandleRegister.*run udevd") as caught:
            driver.accepts(file.fileno())
        assert caught.value.errno == 5027
        monkeypatch.delenv("STANDIN_FAULT")
        driver.accepts(file.fileno())


def test_no_library_is_told_with_the_install_line(tmp_path, monkeypatch):
    monkeypatch.setenv("GPUIO_CUFILE", str(tmp_path / "nowhere.so"))
    assert find_cufile() == find_library("cufile_batch") == str(tmp_path / "nowhere.so")
    assert "pip install nvidia-cufile" in probe("cufile")
    with pytest.raises(EngineError, match="pip install nvidia-cufile"):
        CuFile(find_cufile())


def test_maps_are_read_for_what_is_really_in_use(tmp_path):
    (tmp_path / "proc/self").mkdir(parents=True)
    (tmp_path / "proc/self/maps").write_text(
        "7f00-7f10 r-xp 00000000 fe:00 1 /usr/lib/libcufile.so.0\n"
        "7f10-7f20 r--p 00000000 fe:00 1 /usr/lib/libcufile.so.0\n"
        "7f20-7f30 r-xp 00000000 fe:00 2 /opt/a b/libcufile.so.1.15.1 (deleted)\n"
        "7f30-7f40 r-xp 00000000 fe:00 3 /usr/lib/libcufile_rdma.so.1\n"
        "7f40-7f50 rw-p 00000000 00:00 0\n"
        "7f50-7f60 rw-p 00000000 00:00 0 [stack]\n"
    )
    found = mapped_libraries(root=str(tmp_path))
    assert found == ("/opt/a b/libcufile.so.1.15.1 (deleted)", "/usr/lib/libcufile.so.0")
    assert mapped_libraries(root=str(tmp_path / "nowhere")) == ()


# What follows talks to NVIDIA's own library, on host memory, without a GPU.

SHIM = """
#include <dlfcn.h>
#include <stdio.h>
#include <string.h>
/* A kernel without modules has no /proc/modules, for which libcufile 1.16 to 1.20 waits for ever. */
static const char *shown(const char *path) { return strcmp(path, "/proc/modules") ? path : "/dev/null"; }
FILE *fopen(const char *path, const char *mode)
{
	FILE *(*real)(const char *, const char *) = dlsym(RTLD_NEXT, "fopen");
	return real(shown(path), mode);
}
FILE *fopen64(const char *path, const char *mode)
{
	FILE *(*real)(const char *, const char *) = dlsym(RTLD_NEXT, "fopen64");
	return real(shown(path), mode);
}
"""

PROGRAM = """
import json, mmap, os, sys
from pytest_gpuio.engine import Clock, CuFile, Pool, Run, RunSpec, find_cufile, mapped_libraries, pattern_fill
from pytest_gpuio.engine.cufile_settings import publish, settings
from pytest_gpuio.core.errors import EngineError

mode, path = sys.argv[1:]
publish(settings(allow_compat=mode == "compat", environment={}, root="/nonexistent"))
try:
    driver = CuFile(find_cufile())
except EngineError as error:
    print(json.dumps({"refused": str(error), "code": error.errno}))
    sys.exit(0)
found = {"release": driver.info.release, "libraries": mapped_libraries(), "may_fall_back": driver.info.may_fall_back}
fd = os.open(path, os.O_RDWR | os.O_DIRECT)
clock, pool = Clock.calibrate(), Pool()
for engine, depth, percent in [(e, d, p) for e, d in (("cufile", 1), ("cufile_batch", 16)) for p in (100, 0)]:
    before = driver.counters()
    spec = RunSpec(engine, fd=fd, jobs=2, depth=depth, block=65536, order="random", read_percent=percent,
                   region_bytes=8 << 20, seed=5, pattern_seed=7, timeout_s=30, knobs=frozenset({"fixed_buffers"}))
    with Run(spec, clock, pool) as run:
        window = run.window(400)
        swept = run.sweep()
        knobs = sorted(run.effective_knobs)
    found[f"{engine}-{percent}"] = {
        "ios": window.ios, "errors": window.errors, "first_error": window.first_error, "checked": swept.checked,
        "bad": swept.bad, "knobs": knobs, "counters": (driver.counters() - before).to_json(),
    }
driver.close()
print(json.dumps(found))
"""


@pytest.fixture(scope="module")
def real_environment(shared_object):
    """Environment in which NVIDIA's libcufile opens here."""
    if os.environ.get("GPUIO_CUFILE") or importlib.util.find_spec("nvidia") is None or find_cufile() is None:
        pytest.skip("PyPI's nvidia-cufile is not installed: pip install nvidia-cufile")
    environment = dict(os.environ)
    if Path("/proc/modules").exists():
        return environment
    # This kernel has no /proc/modules: the shim shows one.
    return environment | {"LD_PRELOAD": str(shared_object(SHIM))}


def in_a_child(environment, mode, path):
    ended = subprocess.run(
        [sys.executable, "-P", "-c", PROGRAM, mode, str(path)],
        env=environment, capture_output=True, text=True, timeout=60, check=False,
    )  # fmt: skip
    assert ended.returncode == 0, ended.stderr
    return json.loads(ended.stdout.splitlines()[-1])


@pytest.fixture
def file_in_memory(tmp_path):
    from pytest_gpuio.engine import pattern_fill

    if not os.access("/dev/shm", os.W_OK):
        pytest.skip("needs a writable /dev/shm: libcufile takes files of tmpfs without udev's database")
    path = Path(f"/dev/shm/gpuio-test-cufile-{os.getpid()}")
    content = mmap.mmap(-1, 8 << 20)
    pattern_fill(content, 0, 7)
    path.write_bytes(content)
    yield path
    path.unlink()


def test_real_libcufile_moves_and_counts_on_host_memory(real_environment, file_in_memory):
    found = in_a_child(real_environment, "compat", file_in_memory)
    if "refused" in found:
        pytest.skip(f"libcufile does not open here: {found['refused']}")
    assert found["may_fall_back"] is True
    assert len(found["libraries"]) == 1
    for name in ("cufile-100", "cufile-0", "cufile_batch-100", "cufile_batch-0"):
        cell = found[name]
        if cell["errors"] and tuple(map(int, found["release"].split("."))) < (1, 20):
            pytest.skip(f"libcufile {found['release']} takes no file of tmpfs")
        assert (cell["ios"], cell["errors"], cell["bad"]) == (400, 0, 0), (name, cell)
        assert cell["checked"] > 0
        counters = cell["counters"]
        if "batch" in name:
            # Requests, and bytes, as NVIDIA's library counted them: all of them fell back.
            assert counters["batch_total"] == 400
            assert counters["batch_aio"] + counters["batch_io_uring"] + counters["batch_posix"] >= 400
            assert counters["batch_bytes"] == 400 * 65536
            assert counters["batch_nvfs"] == counters["batch_p2p"] == 0
        else:
            assert counters["process_ops"] == 400
            assert counters["process_bytes"] == 400 * 65536
            assert counters["gpus"] == 0


def test_real_libcufile_refuses_strictly_what_it_cannot_do_directly(real_environment, file_in_memory):
    if Path("/proc/driver/nvidia-fs").exists():
        pytest.skip("this machine has nvidia-fs")
    found = in_a_child(real_environment, "strict", file_in_memory)
    assert found["code"] in (5001, 5033)
    assert "cuFileDriverOpen was refused" in found["refused"]
