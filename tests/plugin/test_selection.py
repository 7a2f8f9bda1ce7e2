"""Which cells a suite becomes; nothing is measured here."""

import json
from pathlib import Path

import pytest

GOLDEN = Path(__file__).parents[1] / "golden"
PLAIN = """
import pytest

@pytest.mark.workload("inference/kv_fetch")
def test_kv_fetch(gpuio):
    gpuio.run()
"""


@pytest.fixture
def collect(pytester):
    """Item ids that a suite becomes on a tmpfs target, whatever disk the tests run on."""

    def collect(source: str, *arguments: str, target: str = "/dev/shm") -> list[str]:
        pytester.makepyfile(test_suite=source)
        result = pytester.runpytest_subprocess("--collect-only", "-q", f"--gpuio-target={target}", *arguments)
        assert result.ret in (pytest.ExitCode.OK, pytest.ExitCode.NO_TESTS_COLLECTED), result.outlines + result.errlines
        return [line.partition("::")[2] for line in result.outlines if "::" in line]

    return collect


def test_one_test_becomes_one_item_per_data_path_and_null_is_not_among_them(collect):
    assert collect(PLAIN) == [
        "test_kv_fetch[psync-ram-inference-kv_fetch-64k-qd1-j1]",
        "test_kv_fetch[libaio-ram-inference-kv_fetch-64k-qd32-j1]",
        "test_kv_fetch[io_uring-ram-inference-kv_fetch-64k-qd32-j1]",
        "test_kv_fetch[io_uring_sqpoll-ram-inference-kv_fetch-64k-qd32-j1]",
        "test_kv_fetch[io_uring_iopoll-ram-inference-kv_fetch-64k-qd32-j1]",
        "test_kv_fetch[io_uring_full-ram-inference-kv_fetch-64k-qd32-j1]",
        "test_kv_fetch[io_uring_cmd-ram-inference-kv_fetch-64k-qd32-j1]",
        # A mapping is the page cache: it has no direct form.
        "test_kv_fetch[mmap-ram-inference-kv_fetch-64k-qd1-j1-cold]",
        "test_kv_fetch[dax-ram-inference-kv_fetch-64k-qd1-j1]",
        # What ends in GPU memory says so; variants of a path come only when they are named.
        "test_kv_fetch[gds-ram-inference-kv_fetch-gpu-64k-qd1-j1]",
        "test_kv_fetch[gds_compat-ram-inference-kv_fetch-gpu-64k-qd1-j1]",
        "test_kv_fetch[kvikio-ram-inference-kv_fetch-gpu-64k-qd32-j1]",
        "test_kv_fetch[nixl_posix-ram-inference-kv_fetch-64k-qd32-j1]",
        "test_kv_fetch[nixl_gds-ram-inference-kv_fetch-gpu-64k-qd32-j1]",
    ]


def test_comma_lists_make_axes_and_impossible_pairs_are_never_generated(collect):
    ids = collect(PLAIN, "--gpuio-datapath=psync,io_uring", "--gpuio-qd=1,8", "--gpuio-bs=4k,1M", "--gpuio-jobs=1,2")
    assert len(ids) == 4 + 8
    assert not [name for name in ids if "psync" in name and "qd8" in name]


def test_batch_above_the_depth_is_never_generated(collect):
    ids = collect(PLAIN, "--gpuio-datapath=libaio", "--gpuio-qd=1,8", "--gpuio-batch=1,8x4")
    assert [name[name.index("qd") : -1] for name in ids] == ["qd1-j1", "qd8-j1", "qd8-j1-b8x4"]


def test_workload_option_drops_other_tests_without_a_skip(collect):
    assert collect(PLAIN, "--gpuio-workload=micro/*") == []


def test_a_test_without_a_mark_runs_every_workload(collect):
    source = "def test_all(gpuio):\n    gpuio.run()\n"
    ids = collect(source, "--gpuio-datapath=libaio", "--gpuio-workload=inference/kv_fetch,inference/r*")
    assert ids == [
        "test_all[libaio-ram-inference-kv_fetch-64k-qd32-j1]",
        "test_all[libaio-ram-inference-random_read_4k-4k-qd32-j1]",
    ]


@pytest.mark.parametrize(
    ("expression", "count"),
    [
        ("gpuio(datapath='io_uring')", 1),
        ("gpuio(datapath='io_uring', medium='ram')", 1),
        ("gpuio(datapath='io_uring', medium='nvme_ssd')", 0),
        ("gpuio(phase='inference')", 14),
        ("gpuio(workload='inference/kv_fetch', qd=1)", 5),
    ],
)
def test_exact_selection_by_mark(collect, expression, count):
    assert len([name for name in collect(PLAIN, "-m", expression) if "[" in name]) == count


def test_a_suite_narrows_an_axis_by_its_own_parametrize(collect):
    source = """
import pytest

@pytest.mark.workload("inference/kv_fetch")
@pytest.mark.parametrize("datapath", ["psync", "libaio"], indirect=True)
@pytest.mark.parametrize("gpuio_qd", [1, 4], indirect=True)
def test_kv_fetch(gpuio):
    gpuio.run()
"""
    ids = collect(source)
    assert len(ids) == 3
    assert len([name for name in ids if "psync" in name]) == 1


def test_a_medium_that_no_target_lies_on_is_told_once(pytester):
    pytester.makepyfile(
        """
import pytest

@pytest.mark.workload("inference/kv_fetch")
@pytest.mark.parametrize("medium", ["hdd"], indirect=True)
@pytest.mark.parametrize("datapath", ["psync"], indirect=True)
def test_kv_fetch(gpuio):
    gpuio.run()
"""
    )
    result = pytester.runpytest_subprocess("-rs", "--gpuio-target=/dev/shm")
    result.assert_outcomes(skipped=1)
    result.stdout.fnmatch_lines(["*no --gpuio-target lies on hdd (default is ram)*"])


def test_targets_that_share_a_medium_have_their_names_in_ids(pytester, collect):
    other = pytester.mkdir("other")
    shared = collect(PLAIN, f"--gpuio-target=b=/dev/shm/{other.name}", "--gpuio-datapath=psync", target="a=/dev/shm")
    assert shared == [
        "test_kv_fetch[psync-ram-a-inference-kv_fetch-64k-qd1-j1]",
        "test_kv_fetch[psync-ram-b-inference-kv_fetch-64k-qd1-j1]",
    ]


def test_classes_and_modules_can_carry_the_workload(collect):
    source = """
import pytest

@pytest.mark.workload("micro/randread")
class TestReads:
    def test_one(self, gpuio):
        gpuio.run()
"""
    assert collect(source, "--gpuio-datapath=psync") == ["TestReads::test_one[psync-ram-micro-randread-4k-qd1-j1]"]


@pytest.mark.parametrize(
    ("source", "message"),
    [
        ('@pytest.mark.workload("inference/kv_fech")', "*inference/kv_fech*Did you mean inference/kv_fetch?*"),
        ("@pytest.mark.workload()", "*pytest.mark.workload needs names*"),
        (
            '@pytest.mark.workload("micro/randread")\n@pytest.mark.parametrize("datapath", ["gdss"], indirect=True)',
            "*unknown data path 'gdss'*",
        ),
        (
            '@pytest.mark.workload("inference/kv_fetch")\n@pytest.mark.parametrize("gpuio_bs", ["4k"], indirect=True)',
            "*gpuio_bs value '4k' is not a whole number*",
        ),
    ],
)
def test_a_wrong_mark_is_a_collection_error_without_a_traceback(pytester, source, message):
    pytester.makepyfile(f"import pytest\n\n{source}\ndef test_it(gpuio):\n    gpuio.run()\n")
    result = pytester.runpytest_subprocess("--gpuio-target=/dev/shm")
    assert result.ret == pytest.ExitCode.INTERRUPTED
    result.stdout.fnmatch_lines([message])
    result.stdout.no_fnmatch_line("*Traceback*")
    result.stdout.no_fnmatch_line("*selection.py*")


def test_an_axis_without_the_gpuio_fixture_says_what_is_missing(pytester):
    pytester.makepyfile("def test_it(datapath):\n    pass\n")
    result = pytester.runpytest_subprocess()
    result.stdout.fnmatch_lines(["*the test must also ask for the fixture 'gpuio'*"])


def test_third_parties_register_paths_and_workloads(pytester, collect):
    pytester.makeconftest(
        """
import dataclasses
from pytest_gpuio.datapaths import get
from pytest_gpuio.phases import Workload

def pytest_gpuio_register_datapaths(config):
    return [dataclasses.replace(get("psync"), name="mine", title="ours")]

def pytest_gpuio_register_workloads(config):
    return [Workload("micro/mine", "a title", order="random", bs=8192, qd=2, source="a test")]
"""
    )
    source = "import pytest\n\n@pytest.mark.workload('micro/mine')\ndef test_it(gpuio):\n    gpuio.run()\n"
    assert collect(source, "--gpuio-datapath=mine") == ["test_it[mine-ram-micro-mine-8k-qd1-j1]"]


def test_ids_and_cases_of_the_shipped_suites_are_the_golden_ones(pytester):
    """They are history keys: a change here orphans every stored baseline and needs a changelog entry."""
    pytester.makeconftest(
        """
import json
from pathlib import Path
from pytest_gpuio.plugin.selection import CELL

def pytest_collection_finish(session):
    rows = {item.nodeid: item.stash[CELL].case for item in session.items}
    Path("cases.json").write_text(json.dumps(rows))
"""
    )
    suites = Path(__file__).parents[2] / "bench_suites"
    for suite in suites.rglob("test_*.py"):
        (pytester.path / suite.name).write_text(suite.read_text())
    pytester.runpytest_subprocess(
        "--collect-only", "-q", "--gpuio-target=/dev/shm", "--gpuio-datapath=null,psync,libaio,io_uring"
    )
    found = json.loads((pytester.path / "cases.json").read_text())
    golden = GOLDEN / "cases.json"
    assert found == json.loads(golden.read_text())
    assert len(set(found.values())) == len(found)


def test_a_cache_mode_drops_paths_it_means_nothing_for(collect):
    paths = {name.partition("[")[2].partition("-")[0] for name in collect(PLAIN, "--gpuio-cache=hot")}
    assert {"psync", "mmap"} <= paths
    assert not {"io_uring_iopoll", "io_uring_full", "io_uring_cmd"} & paths


def test_arrivals_make_an_axis_and_are_in_the_id(collect):
    ids = collect(PLAIN, "--gpuio-datapath=libaio", "--gpuio-arrivals=closed,poisson:1000")
    assert ids == [
        "test_kv_fetch[libaio-ram-inference-kv_fetch-64k-qd32-j1]",
        "test_kv_fetch[libaio-ram-inference-kv_fetch-64k-qd32-j1-poisson1000]",
    ]


@pytest.mark.parametrize("before", [True, False])
def test_garbage_collection_rests_while_items_are_made_and_is_as_before_afterwards(collect, pytester, before):
    pytester.makeconftest(
        f"""
import gc
from pathlib import Path

gc.{"enable" if before else "disable"}()


def pytest_generate_tests(metafunc):
    Path("meanwhile").write_text(str(gc.isenabled()))


def pytest_unconfigure():
    Path("after").write_text(str(gc.isenabled()))
"""
    )
    assert collect(PLAIN, "--gpuio-datapath=null")
    assert (pytester.path / "meanwhile").read_text() == "False"
    assert (pytester.path / "after").read_text() == str(before)
