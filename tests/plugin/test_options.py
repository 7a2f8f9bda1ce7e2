"""Bad options end in one sentence that names the option, before anything is collected or written."""

import subprocess
import sys

import pytest

HEAVY = (
    "numpy",
    "psutil",
    "rich",
    "cffi",
    "jsonschema",
    "pytest_gpuio._engine",
    "pytest_gpuio.engine",
    "pytest_gpuio.measure.session",
    "pytest_gpuio.measure.prepare",
)


@pytest.mark.parametrize(
    ("argument", "message"),
    [
        ("--gpuio-bs=4x", "--gpuio-bs: block size '4x' is not a size"),
        ("--gpuio-bs=0", "--gpuio-bs: block size '0' must be above zero"),
        ("--gpuio-bs=,", "--gpuio-bs: ',' names nothing"),
        ("--gpuio-size=-1", "--gpuio-size: size '-1' is not a size"),
        ("--gpuio-size=0.3", "is not a whole number of bytes"),
        ("--gpuio-qd=0", "--gpuio-qd: '0' is not a whole number above zero"),
        ("--gpuio-qd=1.5", "--gpuio-qd: '1.5' is not a whole number"),
        ("--gpuio-jobs=two", "--gpuio-jobs: 'two' is not a whole number"),
        ("--gpuio-batch=4y2", "--gpuio-batch: '4y2' is not a batch"),
        ("--gpuio-batch=0x1", "--gpuio-batch: '0x1' is not a batch"),
        ("--gpuio-precision=0%", "--gpuio-precision: percentage '0%' must be above 0%"),
        ("--gpuio-precision=200%", "must be above 0% and below 100%"),
        ("--gpuio-max-time=soon", "--gpuio-max-time: duration 'soon' is not a duration"),
        ("--gpuio-window=4ms", "--gpuio-window: '4ms' is shorter than 5 ms"),
        ("--gpuio-profile=fast", "--gpuio-profile: 'fast' is none of quick, standard, thorough"),
        ("--gpuio-cache=warm", "--gpuio-cache: 'warm' is none of direct, cold, hot"),
        ("--gpuio-verify=maybe", "--gpuio-verify: 'maybe' is none of none, sweep, full"),
        ("--gpuio-seed=x", "--gpuio-seed: 'x' is not a whole number"),
        ("--gpuio-target=", "has no path"),
        ("--gpuio-target=fast=", "has no path"),
        ("--gpuio-target=Fast=/x", "target name 'Fast' must be lower-case"),
        ("--gpuio-datapath=gds2", "unknown data path 'gds2'"),
        ("--gpuio-datapath=io_urin", "did you mean io_uring or "),
        ("--gpuio-workload=inference/kv", "inference/kv_fetch"),
        ("--gpuio-require=warp", "'warp' is neither a capability nor a data path"),
    ],
)
def test_a_bad_option_is_a_usage_error(pytester, argument, message):
    pytester.makepyfile("def test_plain():\n    pass\n")
    result = pytester.runpytest_subprocess(argument)
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    assert message in result.stderr.str()
    assert "Traceback" not in result.stderr.str() + result.stdout.str()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--gpuio-target=/a", "--gpuio-target=/b"), "several targets need names"),
        (("--gpuio-target=x=/a", "--gpuio-target=x=/b"), "two targets are named 'x'"),
    ],
)
def test_target_names(pytester, arguments, message):
    result = pytester.runpytest_subprocess(*arguments)
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    assert message in result.stderr.str()


def test_ini_twins_last_and_the_command_line_wins(pytester):
    pytester.makeini(
        "[pytest]\ngpuio_profile = thorough\ngpuio_size = 64M\ngpuio_target =\n    fast=/dev/shm\n    slow=/tmp\n"
    )
    result = pytester.runpytest_subprocess("--gpuio-profile=standard")
    result.stdout.fnmatch_lines(
        ["gpuio: * (profile standard, size 64m, cache direct, target fast=/dev/shm, slow=/tmp)"]
    )


def test_help_names_every_option_and_its_twin(pytester):
    from pytest_gpuio.measure.options import OPTIONS

    text = pytester.runpytest_subprocess("--help").stdout.str()
    for option in OPTIONS:
        assert option.flag_name in text
        # A permission to destroy is for one run: it has no twin.
        assert (f"{option.dest} (" in text) == option.ini


def test_a_session_without_gpuio_tests_loads_nothing_heavy_and_writes_nothing(pytester):
    pytester.makepyfile(
        f"""
import sys

def test_plain():
    assert [name for name in {HEAVY!r} if name in sys.modules] == []
"""
    )
    result = pytester.runpytest_subprocess("-p", "no:codspeed")
    result.assert_outcomes(passed=1)
    assert not (pytester.path / ".gpuio").exists()
    assert not (pytester.path / "gpuio-results.json").exists()


def test_importing_the_plugin_loads_nothing_heavy():
    code = f"import sys, pytest_gpuio.plugin; print([name for name in {HEAVY!r} if name in sys.modules])"
    assert (
        subprocess.run([sys.executable, "-P", "-c", code], capture_output=True, text=True, check=True).stdout == "[]\n"
    )
