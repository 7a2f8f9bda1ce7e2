from __future__ import annotations

import errno
import os
import subprocess
import sys
from pathlib import Path

import pytest

from pytest_gpuio.core.errors import EngineError
from pytest_gpuio.engine import (
    Clock,
    Pool,
    Run,
    RunSpec,
    engine_is_synchronous,
    engine_names,
    find_liburing,
    load_engine,
    probe,
)

BUILT_IN = (
    "null", "psync", "libaio", "io_uring", "io_uring_sqpoll", "io_uring_iopoll", "io_uring_full", "io_uring_cmd",
    "io_uring_nop", "mmap", "dax", "spdk", "usrbio", "cufile", "cufile_batch", "cufile_stream",
)  # fmt: skip


def test_names():
    assert engine_names()[: len(BUILT_IN)] == BUILT_IN


def test_which_are_synchronous():
    assert {name for name in BUILT_IN if engine_is_synchronous(name)} == {"psync", "mmap", "dax", "cufile"}
    with pytest.raises(EngineError, match="no engine named warp"):
        engine_is_synchronous("warp")


def test_probe():
    assert probe("null") is None
    assert probe("psync") is None
    assert probe("warp") == "there is no engine named warp"


def test_probe_of_a_library_that_is_none(tmp_path):
    sentence = probe("io_uring", str(tmp_path / "nowhere.so"))
    assert sentence is not None
    assert "nowhere.so" in sentence
    assert "pip install liburing" in sentence


def test_the_environment_names_the_library(tmp_path, monkeypatch):
    monkeypatch.setenv("GPUIO_LIBURING", str(tmp_path / "mine.so"))
    assert find_liburing() == str(tmp_path / "mine.so")
    assert "mine.so" in (probe("io_uring") or "")


def test_liburing_is_found_without_importing_it():
    code = (
        "import sys; from pytest_gpuio.engine import find_liburing; print(find_liburing()); "
        "print('liburing' in sys.modules)"
    )
    environment = {name: value for name, value in os.environ.items() if name != "GPUIO_LIBURING"}
    done = subprocess.run(
        [sys.executable, "-P", "-c", code], capture_output=True, text=True, check=True, env=environment
    )
    path, imported = done.stdout.split()
    assert imported == "False"
    assert path == "None" or path.endswith("liburing.so")


def test_the_start_path_is_light():
    code = "import sys, pytest_gpuio.engine; print(*sys.modules)"
    done = subprocess.run([sys.executable, "-P", "-c", code], capture_output=True, text=True, check=True)
    heavy = {"numpy", "pytest", "rich", "psutil", "pytest_benchmark", "pytest_gpuio._engine"}
    assert not heavy & set(done.stdout.split())


def test_a_missing_extension_is_named_when_used(tmp_path):
    """The sources alone, as ``python -m pytest`` in a checkout finds them."""
    code = (
        "import sys; sys.modules['pytest_gpuio._engine'] = None\n"
        "import pytest_gpuio.engine as e\n"
        "from pytest_gpuio.core.errors import EngineError\n"
        "try: e.engine_names()\n"
        "except EngineError as error: print(error)"
    )
    done = subprocess.run([sys.executable, "-P", "-c", code], capture_output=True, text=True, check=True)
    assert "the compiled engine is missing" in done.stdout
    assert "pip install ." in done.stdout


def test_the_skeleton_works_and_loads_once(shared_object, target, clock: Clock, pool: Pool):
    library = shared_object(Path("src/engines/skeleton.c"))
    assert load_engine(library) == "skeleton"
    assert load_engine(library) == "skeleton"
    assert engine_names().count("skeleton") == 1
    assert probe("skeleton") is None
    spec = RunSpec(
        engine="skeleton", fd=target(), depth=8, region_bytes=4 << 20, order="random", pattern_seed=7, verify=True,
        read_percent=50,
    )  # fmt: skip
    with Run(spec, clock, pool) as run:
        window = run.window(500)
        assert (window.ios, window.bad, window.verified) == (500, 0, window.reads)
        assert run.sweep().bad == 0


def names_with(path: str) -> subprocess.CompletedProcess[str]:
    code = "from pytest_gpuio.engine import engine_names; print(*engine_names())"
    environment = {**os.environ, "GPUIO_ENGINE_PATH": path}
    return subprocess.run([sys.executable, "-P", "-c", code], capture_output=True, text=True, env=environment)


def test_engines_named_in_the_environment(shared_object, tmp_path):
    named = [str(shared_object(Path(source))) for source in ("src/engines/skeleton.c", "tests/engines/stingy.c")]
    assert names_with(os.pathsep.join(named)).stdout.split()[len(BUILT_IN) :] == ["skeleton", "stingy"]
    assert names_with("").stdout.split() == list(BUILT_IN)
    missing = names_with(str(tmp_path / "nowhere.so"))
    assert "EngineError: GPUIO_ENGINE_PATH: the engine cannot be loaded" in missing.stderr


@pytest.mark.parametrize(
    ("source", "code", "words"),
    [
        ("tests/engines/no_table.c", errno.EINVAL, "no table named gpuio_engine"),
        ("tests/engines/wrong_abi.c", errno.EPROTO, "engine ABI"),
        ("tests/engines/incomplete.c", errno.EINVAL, "lacks its name or one of"),
        ("tests/engines/taken_name.c", errno.EEXIST, "named psync is there already"),
    ],
)
def test_what_is_no_engine(shared_object, source, code, words):
    with pytest.raises(EngineError, match=words) as raised:
        load_engine(shared_object(Path(source)))
    assert raised.value.errno == code


def test_an_engine_that_is_not_there(tmp_path):
    with pytest.raises(EngineError, match=r"nowhere\.so") as raised:
        load_engine(tmp_path / "nowhere.so")
    assert raised.value.errno == errno.ENOENT
