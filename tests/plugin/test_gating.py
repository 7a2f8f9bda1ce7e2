"""``--gpuio-gate`` in real runs of the null path."""

import json

import pytest

SUITE = """
import pytest

@pytest.mark.workload("micro/randread")
@pytest.mark.gpuio_gate(metric="bytes_per_s", min_effect="60%")
def test_null(gpuio):
    gpuio.run()
"""
RUN = ("-p", "no:codspeed", "--gpuio-datapath=null", "--gpuio-max-time=0.3", "--gpuio-bs=4k", "--gpuio-qd=32")


@pytest.fixture
def measured(pytester):
    """Function: one run of the suite, its results kept under a name."""
    pytester.makepyfile(test_gated=SUITE)

    def run(name, *more):
        return pytester.runpytest_subprocess(*RUN, f"--gpuio-results={name}.json", *more)

    return run


def test_one_run_never_decides_but_is_shown(measured, pytester):
    assert measured("old").ret == 0
    record = json.loads((pytester.path / "old.json").read_text())["cells"][0]
    assert record["gate_policy"] == {"metric": "bytes_per_s", "min_effect": "60%"}
    result = measured("new", "--gpuio-gate=old.json")
    assert result.ret == 0
    result.stdout.fnmatch_lines(["*- gpuio gate -*", "AMBIGUOUS*bytes_per_s*", "gate passed: 1 AMBIGUOUS*"])


def test_a_slow_down_confirmed_by_this_run_fails_it(measured, pytester):
    assert measured("seed").ret == 0
    content = json.loads((pytester.path / "seed.json").read_text())

    def copies(prefix, count, factor):
        for number in range(count):
            changed = json.loads(json.dumps(content))
            windows = changed["cells"][0]["windows"]
            windows["seconds"] = [s * factor * (1 + number / 1000) for s in windows["seconds"]]
            (pytester.path / f"{prefix}{number}.json").write_text(json.dumps(changed))
        return ",".join(f"{prefix}{number}.json" for number in range(count))

    # What was there before took a tenth of the time: this run, and three like it, are really slower.
    old, new = copies("old", 12, 0.1), copies("new", 3, 1.0)
    result = measured("now", f"--gpuio-gate={old}", f"--gpuio-gate-new={new}")
    assert result.ret == 1
    result.stdout.fnmatch_lines(["*1 passed*"])
    result.stdout.fnmatch_lines(["SLOWER*confirmed by a re-run*", "gate FAILED: 1 SLOWER"])
    result.stdout.no_fnmatch_line("*Traceback*")


def test_mistakes_cost_no_time(measured, pytester):
    for option, told in (
        ("--gpuio-gate=none.json", "*--gpuio-gate:*none.json does not exist.*"),
        ("--gpuio-gate=.", "*holds no run with gpuio cells*"),
    ):
        result = measured("x", option)
        assert result.ret == pytest.ExitCode.USAGE_ERROR
        result.stderr.fnmatch_lines([told])
    assert not (pytester.path / "x.json").exists()


def test_a_malformed_mark_fails_before_measuring(pytester):
    pytester.makepyfile(
        """
import pytest

@pytest.mark.workload("micro/randread")
@pytest.mark.gpuio_gate(metric="speed")
def test_null(gpuio):
    gpuio.run()
"""
    )
    result = pytester.runpytest_subprocess(*RUN)
    assert result.ret == 1
    result.stdout.fnmatch_lines(["*there is no metric 'speed'*"])
