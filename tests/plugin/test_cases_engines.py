"""What kernels, privileges and limits did to other tools, by the number of the public case."""

import hashlib
import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from pytest_gpuio.engine import probe
from pytest_gpuio.results.validate import validate_file

MIB = 1 << 20
ANY = "def test_any(gpuio):\n    gpuio.run()\n"
RANDREAD = "--gpuio-workload=micro/randread"
EVERY_PATH = "--gpuio-datapath=psync,libaio,io_uring"
SWITCH = Path("/proc/sys/kernel/io_uring_disabled")
#: Exit status of the launcher when this machine does not let it do what it was told.
CANNOT = 77

#: Changes this process for the worse in the way the first argument says, then becomes the rest.
LAUNCHER = r'''
import ctypes, errno, os, resource, struct, sys

libc = ctypes.CDLL(None, use_errno=True)
IO_URING_SETUP = 425  # on every architecture


def check(done, what):
    if done != 0:
        print(f"{what}: {os.strerror(ctypes.get_errno())}")
        sys.exit(77)


def prctl(*numbers):
    return libc.prctl(*(ctypes.c_ulong(number) for number in numbers))


def memlock(bytes_):
    """Little locked memory, and no privilege to ignore that."""
    if os.geteuid() == 0:
        check(prctl(24, 14, 0, 0, 0), "PR_CAPBSET_DROP of CAP_IPC_LOCK")
    most = resource.getrlimit(resource.RLIMIT_MEMLOCK)[1]
    if most != resource.RLIM_INFINITY and most < int(bytes_):
        print(f"the hard limit of locked memory is {most} bytes")
        sys.exit(77)
    resource.setrlimit(resource.RLIMIT_MEMLOCK, (int(bytes_), int(bytes_)))


def seccomp(name):
    """A real filter: io_uring_setup fails, everything else is allowed."""
    instructions = b"".join(
        struct.pack("=HBBI", *one)
        for one in (
            (0x20, 0, 0, 0),  # load the number of the system call
            (0x15, 0, 1, IO_URING_SETUP),
            (0x06, 0, 0, 0x00050000 | getattr(errno, name)),
            (0x06, 0, 0, 0x7FFF0000),
        )
    )
    filter_ = ctypes.create_string_buffer(instructions, len(instructions))
    program = ctypes.create_string_buffer(struct.pack("@HP", 4, ctypes.addressof(filter_)))
    check(prctl(38, 1, 0, 0, 0), "PR_SET_NO_NEW_PRIVS")
    check(libc.prctl(22, ctypes.c_ulong(2), program, 0, 0), "PR_SET_SECCOMP")
    libc.syscall.restype = ctypes.c_long
    assert libc.syscall(IO_URING_SETUP, 1, None) == -1
    assert ctypes.get_errno() == getattr(errno, name)


def fake_switch(value):
    """A fake sysctl file that says io_uring is switched off, and a filter that makes it so."""
    check(libc.unshare(0x00020000), "unshare")
    check(libc.mount(b"none", b"/", None, ctypes.c_ulong(0x4000 | 0x40000), None), "making mounts private")
    with open("fake-io_uring_disabled", "w") as file:
        file.write(value)
    there = b"/proc/sys/kernel/io_uring_disabled"
    check(libc.mount(b"fake-io_uring_disabled", there, None, ctypes.c_ulong(4096), None), "the bind mount")
    seccomp("EPERM")


for order in sys.argv[1].split("+"):
    name, _, value = order.partition("=")
    {"memlock": memlock, "seccomp": seccomp, "fake_switch": fake_switch}[name](value)
os.execv(sys.argv[2], sys.argv[2:])
'''


@pytest.fixture
def launched(pytester, target):
    """Function: like ``gpuio_run``, after the launcher did to the process what its first argument says."""

    def run(order: str, *arguments: str, suite: str = ANY) -> pytest.RunResult:
        pytester.makepyfile(test_suite=suite)
        launcher = pytester.path / "launcher.txt"
        launcher.write_text(LAUNCHER)
        command = [sys.executable, "-P", launcher, order, sys.executable, "-P", "-m", "pytest"]
        command += [f"--gpuio-target={target}", "--gpuio-size=32M", "--gpuio-max-time=200ms", *arguments]
        command += ["-p", "no:codspeed", "-p", "no:cacheprovider", "-p", "no:hypothesispytest"]
        result = pytester.run(*command, timeout=120)
        if result.ret == CANNOT:
            pytest.skip(f"needs privileges: {result.stdout.str().strip()}")
        return result

    return run


@pytest.fixture
def io_uring():
    """Skips where io_uring does not work to begin with."""
    reason = probe("io_uring")
    if reason is not None:
        pytest.skip(reason)


def digest(path):
    return hashlib.sha256(path.read_bytes()).hexdigest()


# ---- B1: locked memory ----------------------------------------------------------------------------------------------


@pytest.mark.usefixtures("io_uring")
def test_b1_little_locked_memory_costs_the_fixed_buffers_and_the_record_says_so(launched, results, target):
    arguments = ("--gpuio-datapath=io_uring", RANDREAD, "--gpuio-qd=32", "--gpuio-cache=hot")
    launched("memlock=65536", *arguments).assert_outcomes(passed=1)
    (cell,) = results()["cells"]
    assert "fixed_buffers" in cell["requested"]["knobs"]
    assert "fixed_buffers" not in cell["effective"]["knobs"]
    assert {"registered_files", "merged_wait"} <= set(cell["effective"]["knobs"])
    reason = cell["effective"]["knob_reason"]
    assert "fixed buffers are off" in reason
    assert f"RLIMIT_MEMLOCK of {32 * 4096} bytes" in reason
    assert "it is 65536" in reason
    assert "ulimit -l" in reason
    assert cell["verify"]["bad"] == 0


@pytest.mark.usefixtures("io_uring")
def test_b1_with_enough_locked_memory_the_buffers_are_fixed(launched, results):
    arguments = ("--gpuio-datapath=io_uring", RANDREAD, "--gpuio-qd=32", "--gpuio-cache=hot")
    launched(f"memlock={6 * MIB}", *arguments).assert_outcomes(passed=1)
    (cell,) = results()["cells"]
    assert "fixed_buffers" in cell["effective"]["knobs"]


# ---- B3, B4: io_uring forbidden --------------------------------------------------------------------------------------


@pytest.mark.usefixtures("io_uring")
@pytest.mark.parametrize("error", ["EPERM", "ENOSYS"])
def test_b3_a_seccomp_filter_is_a_skip_that_names_it(launched, pytester, results, error):
    result = launched(f"seccomp={error}", "-rs", "--gpuio-datapath=psync,io_uring", RANDREAD)
    result.assert_outcomes(passed=1, skipped=1)
    result.stdout.fnmatch_lines(["SKIPPED*needs io_uring: *seccomp filter*"])
    (skip,) = results()["skips"]
    assert "seccomp filter" in skip["reason"]
    assert "io_uring_disabled" not in skip["reason"]
    assert "datapath=io_uring|" in skip["case"]
    assert [cell["axes"]["datapath"] for cell in results()["cells"]] == ["psync"]
    assert validate_file(pytester.path / "gpuio-results.json") == []


@pytest.mark.usefixtures("io_uring")
def test_b3_what_is_required_fails_instead(launched):
    result = launched("seccomp=EPERM", "--gpuio-datapath=io_uring", RANDREAD, "--gpuio-require=io_uring")
    result.assert_outcomes(errors=1)
    result.stdout.fnmatch_lines(["*--gpuio-require=io_uring: needs io_uring: *seccomp filter*"])


def check_switched_off(result, results):
    result.assert_outcomes(passed=1, skipped=1)
    result.stdout.fnmatch_lines(["SKIPPED*needs io_uring: *sysctl kernel.io_uring_disabled is 2*"])
    (skip,) = results()["skips"]
    assert "sysctl -w kernel.io_uring_disabled=0" in skip["reason"]
    assert "seccomp" not in skip["reason"]


@pytest.mark.usefixtures("io_uring")
def test_b4_a_fake_sysctl_that_forbids_io_uring_is_named(launched, results):
    if not SWITCH.exists():
        pytest.skip("this kernel has no kernel.io_uring_disabled (Linux 6.6)")
    result = launched("fake_switch=2", "-rs", "--gpuio-datapath=psync,io_uring", RANDREAD)
    check_switched_off(result, results)


@pytest.mark.usefixtures("io_uring")
def test_b4_the_real_sysctl(gpuio_run, results):
    if not (os.environ.get("CI") or os.environ.get("GPUIO_TEST_SYSCTL")):
        pytest.skip("switches io_uring off for the whole machine: set GPUIO_TEST_SYSCTL=1")
    try:
        before = SWITCH.read_text()
        SWITCH.write_text("2")
    except OSError as error:
        pytest.skip(f"kernel.io_uring_disabled cannot be set here: {error}")
    try:
        result = gpuio_run("-rs", "--gpuio-datapath=psync,io_uring", RANDREAD, suite=ANY)
    finally:
        SWITCH.write_text(before)
    check_switched_off(result, results)


# ---- B11: nothing of one cell in the next ----------------------------------------------------------------------------


@pytest.mark.usefixtures("io_uring")
def test_b11_nothing_of_a_cell_runs_on_in_the_next(gpuio_run, pytester, results):
    pytester.makeconftest(
        """
import json, os, time
from pathlib import Path
import pytest

def children():
    found = {}
    for pid in Path(f"/proc/self/task/{os.getpid()}/children").read_text().split():
        tasks = list(Path(f"/proc/{pid}/task").iterdir())
        busy = sum(int((task / "schedstat").read_text().split()[0]) for task in tasks)
        name = Path(f"/proc/{pid}/cmdline").read_text().split("\\0")[5]
        found[name] = {"threads": [(task / "comm").read_text().strip() for task in tasks], "busy_ns": busy}
    return found

@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item):
    before = children()
    yield
    with open("children.jsonl", "a") as file:
        file.write(json.dumps([item.callspec.params["datapath"], before, children()]) + "\\n")
"""
    )
    # Buffered writes, which many file systems hand to the ring's kernel helpers; then what costs nothing.
    suite = """
import pytest

@pytest.mark.workload("micro/randwrite")
@pytest.mark.parametrize("gpuio_jobs", [2], indirect=True)
@pytest.mark.parametrize("datapath", ["io_uring"], indirect=True)
def test_first(gpuio):
    gpuio.run()

@pytest.mark.workload("micro/randread")
@pytest.mark.parametrize("datapath", ["null", "io_uring"], indirect=True)
def test_then(gpuio):
    gpuio.run()
"""
    gpuio_run("--gpuio-cache=hot", "--gpuio-qd=8", suite=suite).assert_outcomes(passed=3)
    rows = [json.loads(line) for line in (pytester.path / "children.jsonl").read_text().splitlines()]
    assert [row[0] for row in rows] == ["io_uring", "null", "io_uring"]
    for _, _, after in rows:
        for child in after.values():
            assert len(child["threads"]) == 1, "workers and kernel helpers are gone when a cell is over"
    _, before, after = rows[1]
    assert before["io_uring"]["busy_ns"] > 0
    assert after["io_uring"]["busy_ns"] - before["io_uring"]["busy_ns"] < 2_000_000, "the ring's child is at rest"
    _, null, reads = results()["cells"]
    assert [thread for thread in null["cpu"]["threads"] if thread["role"] == "kernel_helper"] == []
    # One job's cell names one submitter, though the cell before it in the same child had two.
    assert [t["name"] for t in reads["cpu"]["threads"] if t["role"] == "submitter"] == ["worker0"]


# ---- B13, B15, B16: more than there is -------------------------------------------------------------------------------


def test_b13_more_events_than_the_kernel_has_are_refused_before_start(gpuio_run, results, target):
    most, used = (int(Path(f"/proc/sys/fs/{name}").read_text()) for name in ("aio-max-nr", "aio-nr"))
    jobs = (most - used) // 4096 + 1
    wanted = jobs * 4096
    if wanted * 4096 > 1 << 30:
        pytest.skip(f"fs.aio-max-nr={most} is so large that memory ends first")
    # The region itself must hold so many requests; it is never laid out.
    geometry = (f"--gpuio-size={wanted * 4096}", "--gpuio-qd=4096", f"--gpuio-jobs={jobs}")
    result = gpuio_run("--gpuio-datapath=libaio", RANDREAD, *geometry, suite=ANY)
    result.assert_outcomes(failed=1)
    (failure,) = results()["failures"]
    assert f"libaio needs {wanted:,} events ({jobs} jobs x queue depth 4096)" in failure["reason"]
    assert f"fs.aio-max-nr={most}" in failure["reason"]
    assert "sysctl -w fs.aio-max-nr=" in failure["reason"]
    assert list(target.iterdir()) == []


@pytest.mark.parametrize(
    ("arguments", "messages"),
    [
        (
            ("--gpuio-jobs=4097,100000000",),
            ("jobs 4,097 is above the limit of 4,096", "jobs 100,000,000 is above the limit of 4,096"),
        ),
        (
            ("--gpuio-jobs=1000", "--gpuio-bs=2M", "--gpuio-qd=32,65537"),
            ("the 32,000 requests in flight (1000 jobs x queue depth 32)", "queue depth 65,537 is above the limit"),
        ),
        (
            ("--gpuio-bs=16M,4G", "--gpuio-size=8T", "--gpuio-jobs=4096", "--gpuio-qd=64"),
            ("4,398,046,511,104 bytes, over half of the", "more than Linux moves in one request"),
        ),
    ],
)
@pytest.mark.usefixtures("io_uring")
def test_b16_a_plan_that_is_too_large_is_refused_with_its_numbers(gpuio_run, results, target, arguments, messages):
    gpuio_run("--gpuio-datapath=io_uring", RANDREAD, *arguments, suite=ANY).assert_outcomes(failed=2)
    for message, failure in zip(messages, results()["failures"], strict=True):
        assert message in failure["reason"]
    assert list(target.iterdir()) == []


def test_b15_64_jobs_start_and_are_measured(gpuio_run, results):
    gpuio_run("--gpuio-datapath=psync", RANDREAD, "--gpuio-jobs=64", suite=ANY).assert_outcomes(passed=1)
    (cell,) = results()["cells"]
    submitters = [thread for thread in cell["cpu"]["threads"] if thread["role"] == "submitter"]
    assert len(submitters) == 64
    assert cell["ios"] == cell["windows"]["count"] * cell["windows"]["ios_per_window"]


def test_b15_64_jobs_of_asynchronous_paths_start(gpuio_run):
    # A smoke run: whether this disk keeps so many requests at a time is another question.
    arguments = (RANDREAD, "--gpuio-jobs=64", "--gpuio-qd=8", "--benchmark-disable")
    outcomes = gpuio_run("--gpuio-datapath=libaio,io_uring", *arguments, suite=ANY).parseoutcomes()
    assert outcomes["passed"] + outcomes.get("skipped", 0) == 2


# ---- B18: full devices -----------------------------------------------------------------------------------------------


def test_b18_a_file_system_that_is_too_small_is_refused_before_a_byte_is_written(gpuio_run, pytester, results, mounted):
    folder = mounted("tmpfs", options="size=20m")
    (folder / "somebody-elses").write_bytes(b"x" * MIB)
    gpuio_run("--gpuio-datapath=psync", RANDREAD, suite=ANY, target=folder).assert_outcomes(failed=1)
    (failure,) = results()["failures"]
    assert re.search(r"laying out 32m \(33,554,432 bytes\) in .* needs 35,651,584 bytes", failure["reason"])
    assert "lower --gpuio-size" in failure["reason"]
    assert [file.name for file in folder.iterdir()] == ["somebody-elses"]
    assert validate_file(pytester.path / "gpuio-results.json") == []


def test_b18_a_device_that_runs_full_in_the_middle(gpuio_run, pytester, results, mounted):
    mkfs = shutil.which("mkfs.ext4", path="/usr/sbin:/sbin:/usr/bin")
    if mkfs is None:
        pytest.skip("needs mkfs.ext4")
    # A thinly provisioned disk: it promises 96 MiB and has 40.
    pool = mounted("tmpfs", options="size=40m")
    disk = pool / "disk.img"
    disk.touch()
    os.truncate(disk, 96 * MIB)
    made = subprocess.run([mkfs, "-q", "-F", "-m", "0", "-O", "^has_journal", disk], timeout=60, check=False)
    if made.returncode:
        pytest.skip("mkfs.ext4 failed")
    folder = mounted("ext4", str(disk), "loop")
    arguments = ("--gpuio-datapath=psync", RANDREAD, "--benchmark-json=out.json")
    gpuio_run(*arguments, "--gpuio-size=64M", suite=ANY, target=folder).assert_outcomes(failed=1)
    (failure,) = results()["failures"]
    assert re.search(r"failed after [\d,]+ of 67,108,864 bytes: ENOSPC \(No space left on device\)", failure["reason"])
    assert "the file is removed" in failure["reason"]
    assert [file.name for file in folder.iterdir() if file.name != "lost+found"] == []
    assert validate_file(pytester.path / "gpuio-results.json") == []


# ---- B19: what is not ours -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("where", ["in_folder", "as_target"])
def test_b19_a_file_that_is_not_ours_is_left_alone(gpuio_run, results, target, where):
    names = ("gpuio-read.dat", "gpuio-write.dat") if where == "in_folder" else ("precious.tar",)
    for name in names:
        (target / name).write_bytes(os.urandom(3 * MIB))

    def state():
        found = {}
        for file in target.iterdir():
            status = file.stat()
            found[file.name] = (digest(file), status.st_ino, status.st_size, status.st_mtime_ns, status.st_ctime_ns)
        return found

    before = state()
    result = gpuio_run(
        "--gpuio-datapath=psync",
        "--gpuio-workload=micro/randread,micro/randwrite,pretrain/checkpoint_save",
        "--gpuio-size=256M",
        suite=ANY,
        target=target if where == "in_folder" else target / "precious.tar",
    )
    result.assert_outcomes(failed=3)
    for failure in results()["failures"]:
        name = names[0] if "micro/randread" in failure["case"] else names[-1]
        assert failure["reason"] == f"{target / name} exists and was not made by gpuio: name another path."
    assert state() == before
    assert sorted(before) == sorted(names)


def test_b19_reading_changes_nothing_in_our_own_file(gpuio_run, target):
    arguments = ("--gpuio-datapath=psync", RANDREAD)
    gpuio_run(*arguments, suite=ANY).assert_outcomes(passed=1)
    file = target / "gpuio-read.dat"
    before, status = digest(file), file.stat()
    gpuio_run(*arguments, suite=ANY).assert_outcomes(passed=1)
    assert digest(file) == before
    assert (file.stat().st_ino, file.stat().st_mtime_ns) == (status.st_ino, status.st_mtime_ns)


# ---- B22: file systems -----------------------------------------------------------------------------------------------


def check_each_passes_or_says_why(result, results, file_system):
    """Three cells: each measured with direct I/O, or skipped with a sentence."""
    outcomes = result.parseoutcomes()
    assert outcomes.get("passed", 0) + outcomes.get("skipped", 0) == 3, result.stdout.str()
    for cell in results()["cells"]:
        assert cell["effective"]["direct"] is True
        assert cell["target"]["file_system"] == file_system
    for skip in results()["skips"]:
        assert skip["reason"].startswith("needs ")
        assert len(skip["reason"]) > 30


@pytest.fixture
def memory():
    """A folder of our own in tmpfs."""
    folder = Path(f"/dev/shm/gpuio-test-{os.getpid()}")
    if not folder.parent.is_dir():
        pytest.skip("no /dev/shm on this machine")
    folder.mkdir()
    yield folder
    shutil.rmtree(folder)


def test_b22_tmpfs(gpuio_run, results, memory):
    result = gpuio_run("--gpuio-size=16M", EVERY_PATH, RANDREAD, "--gpuio-qd=1", suite=ANY, target=memory)
    check_each_passes_or_says_why(result, results, "tmpfs")
    assert {cell["axes"]["medium"] for cell in results()["cells"]} <= {"ram"}


@pytest.fixture
def layers(target, memory, request):
    """Lower, upper and work directory of an overlay, on the disk or in memory."""
    base = target if request.param == "disk" else memory
    folders = [base / name for name in ("lower", "upper", "work")]
    for folder in folders:
        folder.mkdir()
    yield folders
    for folder in folders:
        shutil.rmtree(folder)


@pytest.mark.parametrize("layers", ["disk", "tmpfs"], indirect=True)
def test_b22_overlay(gpuio_run, results, layers, mounted):
    options = ",".join(f"{kind}dir={layer}" for kind, layer in zip(("lower", "upper", "work"), layers, strict=True))
    folder = mounted("overlay", "overlay", options)
    result = gpuio_run("--gpuio-size=16M", EVERY_PATH, RANDREAD, "--gpuio-qd=1", suite=ANY, target=folder)
    check_each_passes_or_says_why(result, results, "overlay")


def test_b22_ramfs_skips_with_the_remedy_and_the_remedy_works(gpuio_run, results, mounted):
    folder = mounted("ramfs")
    result = gpuio_run("-rs", "--gpuio-datapath=psync", RANDREAD, suite=ANY, target=folder)
    result.assert_outcomes(skipped=1)
    (skip,) = results()["skips"]
    assert "(ramfs) refuses O_DIRECT" in skip["reason"]
    assert "--gpuio-cache=hot" in skip["reason"]
    assert list(folder.iterdir()) == []
    gpuio_run("--gpuio-datapath=psync", RANDREAD, "--gpuio-cache=hot", suite=ANY, target=folder).assert_outcomes(
        passed=1
    )


def test_b22_places_that_hold_no_files_are_named_errors_or_skips(gpuio_run, results):
    places = {
        "processes": "/proc",
        "memory": "/proc/self/mem",
        "attributes": "/sys",
        "nothing": "/dev/null",
        "full": "/dev/full",
        "nowhere": "/nowhere/at/all",
        "new": "/proc/self/target.dat",
    }
    first, *others = (f"{name}={path}" for name, path in places.items())
    workloads = "--gpuio-workload=micro/randread,micro/randwrite"
    more = (f"--gpuio-target={other}" for other in others)
    result = gpuio_run("--gpuio-datapath=psync", workloads, *more, suite=ANY, target=first)
    assert "passed" not in result.parseoutcomes()
    assert "Traceback" not in result.stdout.str()
    fates = results()["failures"] + results()["skips"]
    assert len(fates) == 2 * len(places)
    for name, path in places.items():
        told = [fate["reason"] for fate in fates if f"|target={name}|" in fate["case"]]
        assert len(told) == 2
        assert all(path in reason or str(Path(path).parent) in reason for reason in told), told


def test_b22_a_read_only_file_system(gpuio_run, results, mounted):
    folder = mounted("tmpfs", options="ro,size=64m")
    result = gpuio_run("--gpuio-datapath=psync", RANDREAD, suite=ANY, target=folder)
    (fate,) = results()["failures"] + results()["skips"]
    assert "Read-only file system" in fate["reason"]
    assert "passed" not in result.parseoutcomes()
