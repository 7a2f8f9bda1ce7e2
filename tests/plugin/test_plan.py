"""``--gpuio-plan``: a sweep's plan inside pytest."""

import json

import pytest

PLAN = """
[options]
size = "16M"
max-time = "100ms"
[axes]
datapath = ["null", "psync"]
workload = ["micro/randread", "micro/randwrite"]
bs = ["4k", "8k"]
qd = [1, 2]
{more}
"""


MANY = """
[windows]
length = "20ms"
count = 1
warm_up = "5ms"
[axes]
datapath = "null"
workload = "micro/randread"
bs = ["4k", "8k", "16k", "32k"]
qd = "4..60+4"
jobs = 1
"""
MINE = """
import pytest

@pytest.mark.workload("micro/randwrite")
@pytest.mark.parametrize("gpuio_bs", [8192])
def test_mine(gpuio):
    gpuio.run()
"""


@pytest.fixture
def plan(pytester):
    def write(more=""):
        (pytester.path / "p.toml").write_text(PLAN.format(more=more))

    return write


def collected(result):
    return [line for line in result.outlines if "::test_" in line]


def test_a_plan_without_a_suite_is_all_its_cells_reads_first(pytester, plan):
    plan()
    result = pytester.runpytest_subprocess("--collect-only", "-q", "--gpuio-plan=p.toml", "-p", "no:codspeed")
    items = collected(result)
    assert len(items) == 2 * 2 * 2 + 2 * 2
    kinds = ["randread" in item for item in items]
    assert kinds == sorted(kinds, reverse=True)
    assert all("::test_sweep[" in item for item in items)


def test_a_plan_is_measured_and_options_replace_its_axes(gpuio_run, plan, results, pytester):
    plan('[windows]\nlength = "20ms"\ncount = 3\nwarm_up = "5ms"\n')
    result = gpuio_run("--gpuio-plan=p.toml", "--gpuio-bs=4k", "--gpuio-qd=1", suite="")
    assert result.ret in (0, pytest.ExitCode.TESTS_FAILED)
    cells = results()["cells"]
    assert {(cell["axes"]["bs"], cell["axes"]["qd"]) for cell in cells} == {(4096, 1)}
    assert all(cell["windows"]["count"] == 3 for cell in cells)
    assert all(cell["suite"] == "test_sweep.test_sweep" for cell in cells)


def test_a_suites_own_marks_choose_among_the_plans_cells(pytester, plan):
    plan()
    pytester.makepyfile(test_mine=MINE)
    result = pytester.runpytest_subprocess(
        "--collect-only", "-q", "--gpuio-plan=p.toml", "-p", "no:codspeed", "test_mine.py"
    )  # fmt: skip
    items = collected(result)
    assert len(items) == 3  # null at two depths, psync at one
    assert all("::test_mine[" in item and "8192" in item for item in items)


@pytest.mark.parametrize(
    ("more", "what"),
    [
        ('cache = ["direct", "hot"]', "several states of the page cache"),
        ('environment = ["few"]\n[environments.few]\nbefore = "true"', "has environments"),
        ('[limits]\nin_flight = "x"', "p.toml:11: in_flight 'x' is not a whole number"),
        ("depth = 1", "p.toml:10: unknown key 'depth'"),
        ('target = ["fast"]', "--gpuio-plan: plan p has no target 'default'"),
    ],
)
def test_what_a_run_cannot_do_is_told_before_anything(pytester, plan, more, what):
    plan(more)
    options = ["--gpuio-target=."] if "target" in more else []
    result = pytester.runpytest_subprocess("--gpuio-plan=p.toml", "-p", "no:codspeed", *options)
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines([f"*{what}*".replace("[", "[[]")])


def test_a_target_without_a_path_is_left_out_and_told(gpuio_run, plan, pytester, target):
    plan('target = ["fast", "slow"]')
    narrow = ("--gpuio-datapath=null", "--gpuio-bs=4k", "--gpuio-qd=1")
    result = gpuio_run("--gpuio-plan=p.toml", *narrow, suite="", target=f"fast={target}")
    result.stdout.fnmatch_lines(["*target slow has no path: give --gpuio-target slow=PATH*"])


@pytest.mark.parametrize(
    ("options", "kept"), [((), 0), (("--benchmark-json=b.json",), 60), (("--benchmark-autosave",), 60)]
)
def test_rows_of_a_large_run_stay_in_memory_only_where_they_are_needed(pytester, gpuio_run, options, kept):
    (pytester.path / "many.toml").write_text(MANY)
    pytester.makeconftest(
        """
        def pytest_sessionfinish(session):
            print("rows:", len(session.config._benchmarksession.benchmarks))
        """
    )
    result = gpuio_run("--gpuio-plan=many.toml", "-s", *options, suite="")
    rows = [line.split()[-1] for line in result.outlines if "rows: " in line]
    found = json.loads((pytester.path / "gpuio-results.json").read_text())
    assert len(found["cells"]) + len(found["voids"]) == 60
    assert rows == [str(len(found["cells"]) if kept else 0)]
    assert any("cells, best first" in line for line in result.outlines)
    if "--benchmark-json=b.json" in options:
        written = json.loads((pytester.path / "b.json").read_text())
        assert [row["extra_info"]["gpuio"] for row in written["benchmarks"]] == found["cells"]
