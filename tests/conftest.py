"""Real block devices and mounts for tests that run as root; skipped with a reason elsewhere."""

import os
import shutil
import subprocess
import tempfile
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import settings

# The same examples in every run of CI: a rare example is found by developers, not by a change that did not cause it.
# Fewer, too, where a test does not ask for a number of its own.
settings.register_profile("ci", derandomize=True, max_examples=40)
if os.environ.get("CI"):
    settings.load_profile("ci")

HERE = Path(__file__).parent
#: Files and folders whose tests measure: one after another, never beside others.
MEASURING = (
    "plugin",
    "unit/crosscheck/test_real_fio.py",
    "unit/crosscheck/test_suite.py",
    "unit/crosscheck/test_truth.py",
    "unit/cli/test_crosscheck_command.py",
    "unit/docs/test_docs.py",
    "unit/engine",
    "unit/measure",
    "unit/phases/traces/test_writers.py",
    "unit/sweep",
)
#: Of those folders: tests that collect, refuse or print, and measure nothing.
QUIET = (
    "plugin/test_options.py",
    "plugin/test_selection.py",
    "unit/engine/test_offsets.py",
    "unit/measure/test_completion.py",
    "unit/measure/test_gates.py",
    "unit/measure/test_gates_of_models.py",
    "unit/measure/test_daemons.py",
    "unit/measure/test_merge.py",
    "unit/measure/test_pace.py",
    "unit/measure/test_placement.py",
    "unit/measure/test_stopping.py",
    "unit/sweep/test_crossover_search.py",
    "unit/sweep/test_expand.py",
    "unit/sweep/test_merge.py",
    "unit/sweep/test_order.py",
    "unit/sweep/test_pacing.py",
    "unit/sweep/test_plan.py",
    "unit/sweep/test_shards.py",
    "unit/sweep/test_status.py",
    "unit/sweep/test_wire.py",
)


def part_of(file: Path) -> str:
    """Which part of the suite a file of tests belongs to: ``measuring`` wants the machine to itself, ``quiet`` not."""
    here = file.relative_to(HERE)

    def listed(names):
        return any(here.is_relative_to(name) for name in names)

    return "measuring" if listed(MEASURING) and not listed(QUIET) else "quiet"


def pytest_addoption(parser):
    more = "run only the tests that measure, or only the others (tox run -e tests: the others side by side, then these)"
    parser.addoption("--part", choices=("quiet", "measuring"), help=more)


def pytest_ignore_collect(collection_path, config):
    """Files of the other part are not even read, unless they are named."""
    part = config.getoption("--part")
    if part is None or not collection_path.name.startswith("test_") or collection_path.suffix != ".py":
        return None
    named = {(config.invocation_params.dir / word.partition("::")[0]).resolve() for word in config.args}
    return True if part_of(collection_path) != part and collection_path not in named else None


def pytest_collection_modifyitems(config, items):
    part = config.getoption("--part")
    other = [item for item in items if part is not None and part_of(item.path) != part]
    if other:
        config.hook.pytest_deselected(items=other)
        items[:] = [item for item in items if item not in other]


def need_root(*programs):
    """Skips unless this process may mount and attach loop devices with these programs."""
    if os.geteuid() != 0:
        pytest.skip("needs root: mounts and loop devices")
    for program in programs:
        if shutil.which(program, path=f"{os.environ.get('PATH', '')}:/usr/sbin:/sbin") is None:
            pytest.skip(f"needs {program}")


def run(*command):
    environment = dict(os.environ, PATH=f"{os.environ.get('PATH', '')}:/usr/sbin:/sbin")
    return subprocess.run(command, capture_output=True, text=True, timeout=60, check=False, env=environment)


@pytest.fixture
def loop_over_tmpfs():
    """Function: a loop device over a 16 MiB file in tmpfs with a sector size; detached and removed afterwards."""
    need_root("losetup")
    if not Path("/dev/loop-control").exists() or not Path("/dev/shm").is_dir():
        pytest.skip("needs loop devices and /dev/shm")
    devices = []
    with tempfile.TemporaryDirectory(dir="/dev/shm", prefix="gpuio-test-") as folder:

        def attach(sector: int, size: int = 16 << 20) -> str:
            image = Path(folder) / f"disk{len(devices)}.img"
            image.touch()
            os.truncate(image, size)
            attached = run("losetup", "--find", "--show", "--sector-size", str(sector), str(image))
            if attached.returncode:
                pytest.skip(f"no loop device can be attached here: {attached.stderr.strip()}")
            devices.append(attached.stdout.strip())
            return devices[-1]

        yield attach
        for device in devices:
            run("losetup", "--detach", device)


@pytest.fixture
def mounted(tmp_path):
    """Function: mounts a file system (type, source, options) on a new directory; unmounted afterwards."""
    need_root("mount", "umount")
    points = []

    def mount(kind: str, source: str = "none", options: str = "rw") -> Path:
        point = tmp_path / f"mount{len(points)}"
        point.mkdir()
        made = run("mount", "-t", kind, "-o", options, source, str(point))
        if made.returncode:
            pytest.skip(f"{kind} cannot be mounted here: {made.stderr.strip()}")
        points.append(point)
        return point

    yield mount
    for point in reversed(points):
        run("umount", str(point))


@pytest.fixture(scope="session")
def shared_object(tmp_path_factory) -> Callable[..., Path]:
    """Function: a shared object made from C, once per run, ``shared_object(source, name=None, folder=None)``.

    ``source`` is a path (relative ones are below ``cnative``) or the text of a program; ``name`` and ``folder`` are the
    file's, for what is found by its name. Skips where there is no compiler or no checkout.
    """
    compiler = shutil.which("cc") or shutil.which("gcc")
    cnative = HERE.parent / "cnative"
    built: dict[tuple[Path | str, str | None, Path | None], Path] = {}

    def build(source: Path | str, name: str | None = None, folder: Path | None = None) -> Path:
        key = (source, name, folder)
        if key not in built:
            if compiler is None:
                pytest.skip("there is no C compiler to build a shared object of the tests with")
            if not cnative.is_dir():
                pytest.skip("gpuio.h is not here: this is no checkout")
            out = folder or tmp_path_factory.mktemp("built")
            file = cnative / source if isinstance(source, Path) else out / "source.c"
            if isinstance(source, str):
                file.write_text(source)
            target = out / (name or f"{file.stem}.so")
            flags = ["-std=c11", "-D_GNU_SOURCE", "-O2", "-Wall", "-shared", "-fPIC", "-pthread"]
            command = [compiler, *flags, "-I", cnative / "include", "-o", target, file]
            subprocess.run(command, check=True, timeout=120)
            built[key] = target
        return built[key]

    return build


@pytest.fixture(scope="session")
def libcuda(shared_object) -> str:
    """A stand-in for the CUDA driver; host memory plays its GPUs'."""
    return str(shared_object(Path("tests/standin/libcuda.c"), "libcuda.so.1"))


@pytest.fixture(scope="session")
def libcufile(shared_object) -> str:
    """A stand-in for NVIDIA's libcufile."""
    return str(shared_object(Path("tests/standin/libcufile.c"), "libcufile.so.0"))
