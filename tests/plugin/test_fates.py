"""What becomes of cells that are not measured: void, skipped, failed, interrupted; each told, none lost."""

import os
import signal
import subprocess
import sys
import time

import pytest

from pytest_gpuio.results.validate import validate_file

HEADER_BYTES = 2 << 20


def overwrite_data(file):
    """Replace the data region in place, as a stranger might."""
    with file.open("r+b") as handle:
        handle.seek(HEADER_BYTES)
        size = file.stat().st_size - HEADER_BYTES
        handle.write(os.urandom(1 << 20) * (size >> 20))
        os.fsync(handle.fileno())


def test_wrong_data_voids_the_cell_and_keeps_it_out_of_the_statistics(gpuio_run, pytester, results, target):
    gpuio_run("--gpuio-datapath=psync").assert_outcomes(passed=1)
    overwrite_data(target / "gpuio-read.dat")
    result = gpuio_run("--gpuio-datapath=psync,null", "--benchmark-json=out.json", "-W", "error")
    result.assert_outcomes(passed=1, failed=1)
    result.stdout.fnmatch_lines(["*data_verified:*blocks hold wrong data*"])
    result.stdout.no_fnmatch_line("*Traceback*")
    theirs = results("out.json")
    assert [bench["params"]["datapath"] for bench in theirs["benchmarks"]] == ["null"]
    (void,) = theirs["gpuio"]["voids"]
    assert (void["gate"], void["axes"]["datapath"]) == ("data_verified", "psync")
    assert any(line.startswith("no_errors passed") for line in void["evidence"])
    assert results()["voids"] == [void]
    assert validate_file(pytester.path / "out.json") == []
    assert validate_file(pytester.path / "gpuio-results.json") == []


def test_results_are_written_even_if_nothing_passed(gpuio_run, pytester, results, target):
    gpuio_run("--gpuio-datapath=psync").assert_outcomes(passed=1)
    overwrite_data(target / "gpuio-read.dat")
    gpuio_run("--gpuio-datapath=psync").assert_outcomes(failed=1)
    assert results()["cells"] == []
    assert validate_file(pytester.path / "gpuio-results.json") == []


def test_full_verification_finds_a_single_wrong_block_inside_the_window(gpuio_run, results, target):
    gpuio_run("--gpuio-datapath=psync").assert_outcomes(passed=1)
    with (target / "gpuio-read.dat").open("r+b") as handle:
        handle.seek(HEADER_BYTES + (1 << 20) + 4095)
        handle.write(b"\xaa\xaa")
    result = gpuio_run("--gpuio-datapath=psync", "--gpuio-verify=full", "--gpuio-bs=64k")
    result.assert_outcomes(failed=1)
    assert results()["voids"][0]["gate"] == "data_verified"


def test_a_file_system_without_direct_io_skips_with_the_remedy(gpuio_run, results):
    result = gpuio_run("-rs", "--gpuio-datapath=psync", target="/sys")
    result.assert_outcomes(skipped=1)
    result.stdout.fnmatch_lines(["SKIPPED*needs o_direct: *Name another --gpuio-target*"])
    (skip,) = results()["skips"]
    assert skip["reason"].startswith("needs o_direct: ")
    required = gpuio_run("--gpuio-datapath=psync", "--gpuio-require=o_direct", target="/sys")
    required.assert_outcomes(errors=1)
    required.stdout.fnmatch_lines(["*--gpuio-require=o_direct: needs o_direct:*"])


def test_strict_fails_what_is_not_steady_but_keeps_the_number(gpuio_run, results):
    # Precision far below this machine's noise; the record says so by itself.
    result = gpuio_run("--gpuio-datapath=psync", "--gpuio-strict")
    (cell,) = results()["cells"]
    shaky = [gate for gate in cell["gates"] if gate["class"] == "unsettled" and gate["state"] == "failed"]
    result.assert_outcomes(**({"failed": 1} if shaky else {"passed": 1}))
    if shaky:
        result.stdout.fnmatch_lines(["*--gpuio-strict: stable: *"])


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--gpuio-bs=1000",), "block size 1000 bytes is not a multiple of the"),
        (("--gpuio-bs=64M",), "is larger than the region of 32m"),
        (("--gpuio-bs=8M", "--gpuio-qd=64", "--gpuio-datapath=libaio"), "fewer than the 64 requests in flight"),
        (("--gpuio-jobs=100000",), "jobs 100,000 is above the limit"),
        (("--gpuio-workload=finetune/model_load", "--gpuio-size=16M"), "use --gpuio-size="),
    ],
)
def test_impossible_geometry_is_refused_before_any_io(gpuio_run, target, arguments, message):
    suite = "def test_any(gpuio):\n    gpuio.run()\n"
    chosen = (() if any("workload" in word for word in arguments) else ("--gpuio-workload=micro/randread",)) + (
        () if any("datapath" in word for word in arguments) else ("--gpuio-datapath=psync",)
    )
    result = gpuio_run(*arguments, *chosen, suite=suite)
    result.assert_outcomes(failed=1)
    assert message in result.stdout.str()
    assert "Traceback" not in result.stdout.str()
    assert list(target.iterdir()) == []


def test_two_runs_do_not_disturb_each_other(gpuio_run, pytester):
    holder = subprocess.Popen(
        [
            sys.executable,
            "-P",
            "-c",
            "import sys, time; from pytest_gpuio.isolation import HostLock\n"
            "lock = HostLock(30.0); lock.acquire(); print('held', flush=True); sys.stdin.read()",
        ],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    )
    try:
        assert holder.stdout.readline() == b"held\n"
        result = gpuio_run("--gpuio-datapath=psync", "--gpuio-lock-timeout=200ms")
        assert result.ret == pytest.ExitCode.USAGE_ERROR
        assert f"pid {holder.pid}" in result.stdout.str() + result.stderr.str()
    finally:
        holder.communicate()
    gpuio_run("--gpuio-datapath=psync").assert_outcomes(passed=1)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_an_interrupt_keeps_what_was_finished(pytester, target, number):
    pytester.makepyfile(
        test_suite="""
import pytest


@pytest.mark.workload("inference/random_read_4k")
@pytest.mark.parametrize("datapath", ["psync", "libaio"], indirect=True)
@pytest.mark.parametrize("gpuio_jobs", [1], indirect=True)
def test_read(gpuio, datapath):
    if datapath == "libaio":
        open("second-cell", "w").close()
    gpuio.run()
"""
    )
    arguments = [
        "-v",
        f"--gpuio-target={target}",
        "--gpuio-size=32M",
        "--gpuio-precision=0.0001%",
        "--benchmark-json=out.json",
    ]
    first = ["--gpuio-max-time=1s", "-p", "no:cacheprovider"]
    process = subprocess.Popen(
        [sys.executable, "-m", "pytest", *arguments, *first],
        cwd=pytester.path,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        env=os.environ | {"PYTHONSAFEPATH": "1"},
        start_new_session=True,
        text=True,
    )
    until = time.monotonic() + 60
    while not (pytester.path / "second-cell").exists() and time.monotonic() < until and process.poll() is None:
        time.sleep(0.02)
    time.sleep(0.5)
    process.send_signal(number)
    output, _ = process.communicate(timeout=30)
    (pytester.path / "second-cell").unlink()
    left = {path.name for path in pytester.path.iterdir()} - {
        ".benchmarks",
        "__pycache__",
    }  # pytest-benchmark's own, empty
    if number == signal.SIGINT:
        assert process.returncode == pytest.ExitCode.INTERRUPTED, output
        assert validate_file(pytester.path / "gpuio-results.json") == []
        assert validate_file(pytester.path / "out.json") == []
        import json

        ours = json.loads((pytester.path / "gpuio-results.json").read_text())
        theirs = json.loads((pytester.path / "out.json").read_text())
        assert ours["interrupted"] is theirs["gpuio"]["interrupted"] is True
        assert [cell["axes"]["datapath"] for cell in ours["cells"]] == ["psync"]
        assert left == {"test_suite.py", "gpuio-results.json", "out.json"}
    else:
        # Killed without a word: no half-written JSON, and the journal holds what was finished.
        from pytest_gpuio.results import journal

        assert process.returncode == -signal.SIGTERM
        assert "gpuio-results.json" not in left
        (file,) = pytester.path.glob("gpuio-results-*.jsonl")
        contents = journal.read(file)
        assert [entry.kind for entry in contents.entries] == ["start", "cell"]
        assert contents.entries[1].body["axes"]["datapath"] == "psync"
    assert [file.name for file in target.iterdir()] == ["gpuio-read.dat"]


def test_the_journal_of_a_run_that_was_killed_holds_every_fate(gpuio_run, pytester, target):
    gpuio_run("--gpuio-datapath=psync").assert_outcomes(passed=1)
    overwrite_data(target / "gpuio-read.dat")
    suite = """
import os
import signal

import pytest

pytestmark = pytest.mark.workload("inference/random_read_4k")


@pytest.mark.skip(reason="not today")
@pytest.mark.parametrize("datapath", ["null"], indirect=True)
def test_skipped(gpuio):
    gpuio.run()


@pytest.mark.parametrize("datapath", ["null"], indirect=True)
def test_failed(gpuio):
    raise ValueError("by the suite")


@pytest.mark.parametrize("datapath", ["null", "psync"], indirect=True)
def test_measured(gpuio):
    gpuio.run()


@pytest.mark.parametrize("datapath", ["null"], indirect=True)
def test_killed(gpuio):
    os.kill(os.getpid(), signal.SIGKILL)
"""
    gpuio_run("--gpuio-qd=1", suite=suite)
    (file,) = pytester.path.glob("gpuio-results-*.jsonl")
    assert validate_file(file) == []
    from pytest_gpuio.results import journal
    from pytest_gpuio.results.runs import read_run

    kinds = [entry.kind for entry in journal.read(file).entries]
    assert kinds == ["start", "skip", "failure", "cell", "void"]
    run = read_run(file)
    assert (list(run.skips.values()), list(run.failures.values())) == (["not today"], ["by the suite"])
    assert [void["gate"] for void in run.voids.values()] == ["data_verified"]
    assert run.machine["kernel"] == os.uname().release
    assert run.interrupted
