"""Other ways to start pytest: xdist, disabled benchmarks, collection only, and neighbours that take our place."""

import pytest


def made_by_us(folder):
    """Names in the run's folder, less what pytest-benchmark makes when it configures and what pytester keeps."""
    names = {path.name for path in folder.iterdir()} - {".benchmarks", "__pycache__", "stdout", "stderr"}
    return {name for name in names if not name.startswith("runpytest-")}


def test_disabled_benchmarks_are_a_smoke_run(gpuio_run, pytester):
    result = gpuio_run("--benchmark-disable", "--gpuio-datapath=psync,libaio", "--benchmark-json=out.json")
    result.assert_outcomes(passed=2)
    assert not (pytester.path / "gpuio-results.json").exists()


def test_xdist_runs_smoke_tests_side_by_side(gpuio_run, pytester, target):
    result = gpuio_run("-n", "2", "--gpuio-datapath=psync,libaio,null")
    result.assert_outcomes(passed=3)
    assert not (pytester.path / "gpuio-results.json").exists()
    assert [file.name for file in target.iterdir()] == ["gpuio-read.dat"]


def test_xdist_with_benchmark_only_is_a_usage_error(gpuio_run):
    assert gpuio_run("-n", "2", "--benchmark-only").ret == pytest.ExitCode.USAGE_ERROR


def test_collect_only_probes_and_writes_nothing(gpuio_run, pytester, target):
    assert gpuio_run("--collect-only", "--gpuio-require=all").ret == 0
    assert list(target.iterdir()) == []
    assert made_by_us(pytester.path) == {"test_suite.py"}


def test_without_pytest_benchmark(gpuio_run):
    result = gpuio_run("-p", "no:benchmark")
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    assert "pytest-gpuio records through pytest-benchmark" in result.stderr.str()
    assert "Traceback" not in result.stderr.str()


def test_without_pytest_benchmark_other_tests_run(pytester):
    pytester.makepyfile("def test_plain():\n    pass\n")
    pytester.runpytest_subprocess("-p", "no:benchmark").assert_outcomes(passed=1)


def test_codspeed_takes_the_fixture_away(pytester, target):
    pytest.importorskip("pytest_codspeed")
    pytester.makepyfile(
        "import pytest\n\n@pytest.mark.workload('micro/randread')\ndef test_it(gpuio):\n    gpuio.run()\n"
    )
    result = pytester.runpytest_subprocess("--codspeed", f"--gpuio-target={target}", "--gpuio-datapath=psync")
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    assert "--codspeed" in result.stderr.str()
    assert "Traceback" not in result.stderr.str()


def test_benchmark_skip_and_only_work_unchanged(gpuio_run):
    gpuio_run("--benchmark-skip", "--gpuio-datapath=psync").assert_outcomes(skipped=1)
    gpuio_run("--benchmark-only", "--gpuio-datapath=psync").assert_outcomes(passed=1)


def test_cprofile_does_not_disturb_the_figures(gpuio_run, results):
    gpuio_run("--benchmark-cprofile=tottime", "--gpuio-datapath=psync", "--benchmark-json=out.json").assert_outcomes(
        passed=1
    )
    (bench,) = results("out.json")["benchmarks"]
    assert bench["stats"]["ops"] == pytest.approx(bench["extra_info"]["gpuio"]["iops"], rel=1e-9)


def test_a_users_own_benchmark_mark_is_kept(gpuio_run, results):
    suite = """
import pytest


@pytest.mark.benchmark(group="mine")
@pytest.mark.workload("inference/random_read_4k")
def test_read(gpuio):
    gpuio.run()
"""
    gpuio_run("--gpuio-datapath=psync", "--benchmark-json=out.json", suite=suite).assert_outcomes(passed=1)
    assert results("out.json")["benchmarks"][0]["group"] == "mine"


def test_a_test_that_never_measures_is_told_by_pytest_benchmark(gpuio_run):
    suite = "import pytest\n\n@pytest.mark.workload('micro/randread')\ndef test_it(gpuio):\n    pass\n"
    result = gpuio_run("--gpuio-datapath=psync", suite=suite)
    assert "Benchmark fixture was not used at all" in result.stdout.str() + result.stderr.str()
