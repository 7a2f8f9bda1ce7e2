"""Each gate meets its situation for real: made by a stranger, an engine, a clock or a control group, not by numbers."""

import contextlib
import os
import subprocess
import sys
from pathlib import Path

import pytest

from pytest_gpuio.targets import lay_out

ENGINES = Path(__file__).parent / "engines"
HEADER_BYTES = 2 << 20
#: Measured until the time is up: no spread is as small as that.
ON_AND_ON = ("--gpuio-precision=0.0001%",)

#: Acts on a file shortly after a younger process opened it with O_DIRECT; that process is then measuring.
STRANGER = """
import ctypes, os, sys, time

file, action = sys.argv[1:]
until = time.monotonic() + 100

def started(process):
    with open(f"/proc/{process}/stat") as file:
        return int(file.read().rpartition(")")[2].split()[19])

mine = started(os.getpid())

def direct_elsewhere():
    for process in os.listdir("/proc"):
        folder = f"/proc/{process}"
        try:
            if not process.isdigit() or int(process) == os.getpid() or started(process) < mine:
                continue
            for fd in os.listdir(f"{folder}/fd"):
                if os.readlink(f"{folder}/fd/{fd}") == file:
                    flags = [line for line in open(f"{folder}/fdinfo/{fd}") if line.startswith("flags")]
                    if int(flags[0].split()[1], 8) & os.O_DIRECT:
                        return True
        except (OSError, IndexError):
            continue
    return False

print("waiting", flush=True)
while not direct_elsewhere():
    if time.monotonic() > until:
        sys.exit("nobody measures")
    time.sleep(0.05)
time.sleep(0.7)
size, header = os.path.getsize(file), 2 << 20
fd = os.open(file, os.O_RDWR)
if action == "shrink":
    os.ftruncate(fd, header + (size - header) // 2)
elif action == "punch":
    libc = ctypes.CDLL(None, use_errno=True)
    keep_size_and_punch = 1 | 2
    code = libc.fallocate(fd, keep_size_and_punch, ctypes.c_long(header), ctypes.c_long(size - header))
    if code:
        sys.exit(os.strerror(ctypes.get_errno()))
elif action == "overwrite":
    for offset in range(header, size, 1 << 20):
        os.pwrite(fd, os.urandom(1 << 20), offset)
os.fsync(fd)
"""


@pytest.fixture
def with_engine(shared_object, pytester, monkeypatch):
    """Function: an engine built from its source, and a data path of that name."""

    def add(name, *, moves_data):
        monkeypatch.setenv("GPUIO_ENGINE_PATH", str(shared_object(ENGINES / f"{name}.c")))
        pytester.makeconftest(
            f"""
from pytest_gpuio.datapaths import DataPath
from pytest_gpuio.datapaths.base import kernel_path


def pytest_gpuio_register_datapaths(config):
    return [
        DataPath(
            name="{name}", title="of a test", engine="{name}", needs=("engine",), family="{name}", synchronous=True,
            moves_data={moves_data}, prove=kernel_path("{name}", "{name}"),
        )
    ]
"""
        )

    return add


@pytest.fixture
def verdicts(results):
    """Function: what each gate said of the only cell of a run, measured or void: ``{gate: (state, detail)}``."""

    def read():
        written = results()
        if written["cells"]:
            (cell,) = written["cells"]
            return {gate["gate"]: (gate["state"], gate["detail"]) for gate in cell["gates"]}
        (void,) = written["voids"]
        told = {}
        for line in void["evidence"]:
            head, _, detail = line.partition(": ")
            gate, state = head.split()
            told[gate] = state, detail
        assert told[void["gate"]][0] == "failed"
        return told

    return read


@contextlib.contextmanager
def stranger(file, action):
    process = subprocess.Popen(
        [sys.executable, "-c", STRANGER, str(file), action], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    try:
        assert process.stdout.readline() == "waiting\n"
        yield
        _, errors = process.communicate(timeout=120)
        assert process.returncode == 0, errors
    finally:
        process.kill()
        process.communicate()


@pytest.fixture
def measured_with_a_stranger(gpuio_run, target):
    """Function: a cell whose file a stranger changes about a second into it."""

    def measure(action, *options):
        file = lay_out(target / "gpuio-read.dat", 32 << 20).path
        with stranger(file, action):
            result = gpuio_run("--gpuio-datapath=psync", *ON_AND_ON, "--gpuio-max-time=3s", *options)
        result.assert_outcomes(failed=1)
        result.stdout.no_fnmatch_line("*Traceback*")

    return measure


def test_a_file_that_shrinks_is_short_io(measured_with_a_stranger, verdicts):
    measured_with_a_stranger("shrink")
    assert verdicts()["no_short_io"][0] == "failed"


def test_holes_punched_meanwhile_are_wrong_data(measured_with_a_stranger, verdicts):
    measured_with_a_stranger("punch")
    state, detail = verdicts()["data_verified"]
    assert state == "failed"
    assert "blocks hold wrong data; first at offset" in detail


def test_a_strangers_write_is_wrong_data(measured_with_a_stranger, verdicts):
    measured_with_a_stranger("overwrite", "--gpuio-verify=full")
    assert verdicts()["data_verified"][0] == "failed"


def test_the_page_cache_does_not_pass_for_the_device(gpuio_run, with_engine, verdicts):
    with_engine("buffering", moves_data=True)
    gpuio_run("--gpuio-datapath=buffering").assert_outcomes(failed=1)
    state, detail = verdicts()["device_bytes"]
    assert state == "failed"
    assert "page cache" in detail or "from a cache" in detail


def test_buffered_libaio_is_not_the_depth_it_was_asked_for(gpuio_run, verdicts):
    gpuio_run("--gpuio-datapath=libaio", "--gpuio-cache=cold", "--gpuio-qd=32").assert_outcomes(failed=1)
    # All 32 are submitted before any is reaped, each after it was read: fio's depth map shows 32 for that.
    told = verdicts()
    assert told["depth_achieved"][0] == "failed"
    assert told["littles_law"][0] == "passed"


@pytest.mark.parametrize("cache", ["direct", "cold"])
def test_io_uring_has_the_depth_it_counts(gpuio_run, verdicts, cache):
    result = gpuio_run("-rs", "--gpuio-datapath=io_uring", f"--gpuio-cache={cache}", "--gpuio-qd=32")
    if result.parseoutcomes().get("skipped"):
        pytest.skip("needs io_uring")
    assert verdicts()["depth_achieved"][0] == "passed"


def test_a_coarse_clock_is_refused(gpuio_run, shared_object, verdicts, monkeypatch):
    monkeypatch.setenv("GPUIO_CLOCK", "monotonic")
    gpuio_run("--gpuio-datapath=psync").assert_outcomes(passed=1)
    assert verdicts()["clock_sane"][0] == "passed"
    monkeypatch.setenv("LD_PRELOAD", str(shared_object(ENGINES / "coarse_clock.c")))
    gpuio_run("--gpuio-datapath=psync").assert_outcomes(failed=1)
    state, detail = verdicts()["clock_sane"]
    assert state == "failed"
    assert "a latency of 0 ns" in detail or "smallest step" in detail


@contextlib.contextmanager
def hogs():
    """A busy process pinned on every CPU of ours."""
    busy = "import os, sys\nos.sched_setaffinity(0, {int(sys.argv[1])})\nprint(flush=True)\nwhile True: pass"
    started = []
    try:
        for cpu in sorted(os.sched_getaffinity(0)):
            started.append(
                subprocess.Popen([sys.executable, "-S", "-c", busy, str(cpu)], stdout=subprocess.PIPE, text=True)
            )
            assert started[-1].stdout.readline() == "\n"
        yield
    finally:
        for process in started:
            process.kill()
            process.communicate()


@pytest.mark.parametrize("path", ["null", "io_uring_sqpoll"])
def test_a_busy_core_is_told(gpuio_run, verdicts, path):
    with hogs():
        result = gpuio_run("-rs", f"--gpuio-datapath={path}")
    outcomes = result.parseoutcomes()
    if outcomes.get("skipped") or "needs a CPU of its own" in result.stdout.str():
        pytest.skip(f"{path} cannot be measured here")
    state, detail = verdicts()["cores_available"]
    assert state == "failed"
    assert "for a CPU" in detail


def test_a_step_in_the_middle_is_found(gpuio_run, with_engine, results, verdicts, monkeypatch):
    with_engine("slowing", moves_data=False)
    monkeypatch.setenv("GPUIO_TEST_SLOW_AFTER_MS", "4500")
    gpuio_run("--gpuio-datapath=slowing", *ON_AND_ON, "--gpuio-max-time=9s").assert_outcomes(passed=1)
    (cell,) = results()["cells"]
    state, detail = verdicts()["stable"]
    assert state == "failed"
    steps = cell["windows"]["drift"]["change_points"]
    assert steps, cell["windows"]["seconds"]
    assert max(step["ratio"] for step in steps) > 1.5
    assert "throttling" in detail


def test_an_open_loop_that_cannot_keep_up_is_refused(gpuio_run, with_engine, verdicts):
    with_engine("slowing", moves_data=False)
    # 20 us each are 50,000 a second at most.
    gpuio_run("--gpuio-datapath=slowing", "--gpuio-arrivals=fixed:80000").assert_outcomes(failed=1)
    state, detail = verdicts()["open_loop_lag"]
    assert state == "failed"
    assert "lower the rate" in detail


@pytest.fixture
def small_quota():
    """The folder of a control group that may use a third of a CPU; removed afterwards."""
    if os.geteuid() != 0:
        pytest.skip("needs root: control groups")
    for top, file, quota in (
        ("/sys/fs/cgroup/cpu", "cpu.cfs_quota_us", "33000"),
        ("/sys/fs/cgroup/cpu,cpuacct", "cpu.cfs_quota_us", "33000"),
        ("/sys/fs/cgroup", "cpu.max", "33000 100000"),
    ):
        group = Path(top, f"gpuio-test-{os.getpid()}")
        try:
            group.mkdir()
        except OSError:
            continue
        try:
            if (group / file).exists():
                (group / file).write_text(quota)
                yield group
                return
        finally:
            with contextlib.suppress(OSError):
                group.rmdir()
    pytest.skip("no control group with a CPU quota can be made here")


def test_a_cpu_quota_is_told(gpuio_run, pytester, small_quota, verdicts):
    pytester.makeconftest(f"import os\nopen({str(small_quota / 'cgroup.procs')!r}, 'w').write(str(os.getpid()))\n")
    gpuio_run("--gpuio-datapath=null").assert_outcomes(passed=1)
    state, detail = verdicts()["no_quota"]
    assert state == "failed"
    assert "for its CPU quota" in detail
