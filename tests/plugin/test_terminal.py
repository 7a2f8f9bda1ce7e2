"""What a person sees while and after it runs."""

import json
import os
import pty
import select
import sys
import time

NULLS = "import pytest\n\n@pytest.mark.workload('micro/randread')\ndef test_it(gpuio):\n    gpuio.run()\n"


def test_many_rows_give_a_short_table_and_the_gate_still_runs(gpuio_run, pytester):
    # The real limit is 50; a lower one keeps this test short.
    pytester.makeconftest("from pytest_gpuio.plugin import summary\n\nsummary.MANY_ROWS = 2\n")
    arguments = ("--gpuio-datapath=null", "--gpuio-qd=1,2,4,8", "--gpuio-max-time=1ms")
    first = gpuio_run(*arguments, "--benchmark-save=base", suite=NULLS)
    first.assert_outcomes(passed=4)
    first.stdout.no_fnmatch_line("*Name (time in*")
    first.stdout.fnmatch_lines(["*- gpuio -*", "*micro/randread*", "results: *gpuio-results.json"])
    (saved,) = pytester.path.glob(".benchmarks/*/*base.json")
    base = json.loads(saved.read_text())
    for benchmark in base["benchmarks"]:
        benchmark["stats"]["min"] /= 10  # what comes now is slower
    saved.write_text(json.dumps(base))
    second = gpuio_run(*arguments, "--benchmark-compare", "--benchmark-compare-fail=min:50%", suite=NULLS)
    assert second.ret != 0
    assert "Performance has regressed" in second.stdout.str() + second.stderr.str()


def run_on_terminal(command, folder, seconds):
    """Output of a command that sees a terminal of 120 columns."""
    pid, master = pty.fork()
    if pid == 0:
        os.chdir(folder)
        os.environ.update(TERM="xterm", COLUMNS="120", PYTHONSAFEPATH="1")
        os.execv(command[0], command)
    output, until = b"", time.monotonic() + seconds
    while time.monotonic() < until:
        if select.select([master], [], [], 0.5)[0]:
            try:
                output += os.read(master, 65536)
            except OSError:  # the other side is gone
                break
    os.close(master)
    os.waitpid(pid, 0)
    return output.decode()


def test_a_live_line_on_a_terminal_for_long_cells_that_leaves_no_trace(pytester, target):
    pytester.makepyfile(test_suite=NULLS)
    options = [f"--gpuio-target={target}", "--gpuio-datapath=null", "--gpuio-precision=0.0001%", "--gpuio-max-time=4s"]
    output = run_on_terminal([sys.executable, "-m", "pytest", "-v", *options], str(pytester.path), 60)
    assert "\x1b7 measuring " in output
    # Erased before the verdict is written over it.
    assert output.rindex("\x1b[K") > output.rindex("\x1b7 measuring ")
    assert "PASSED" in output[output.rindex("\x1b[K") :]


def test_no_live_line_without_a_terminal(gpuio_run):
    result = gpuio_run("-v", "--gpuio-datapath=null", "--gpuio-precision=0.0001%", "--gpuio-max-time=3s", suite=NULLS)
    result.assert_outcomes(passed=1)
    assert "\x1b7" not in result.stdout.str()
