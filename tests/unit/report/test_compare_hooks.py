import copy
import subprocess
import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pytest_benchmark import plugin as theirs

from pytest_gpuio.core.errors import ConfigError
from pytest_gpuio.report import compare_hooks as ours


def bench(name, *, group=None, params=None, record=None, **stats):
    return {
        "name": name,
        "fullname": f"test_x.py::{name}",
        "group": group,
        "param": name.partition("[")[2].rstrip("]") or None,
        "params": params,
        "extra_info": {} if record is None else {"gpuio": record},
        **stats,
    }


def axes(medium, workload):
    return {"axes": {"medium": medium, "workload": workload, "datapath": "psync"}}


ROWS = [
    bench("test_b[psync-2]", group="g", params={"datapath": "psync"}),
    bench("test_b[libaio-1]", group="g", params={"datapath": "libaio"}),
    bench("test_a", group=None, params=None),
]


@pytest.mark.parametrize(
    "group_by", ["group", "name", "func", "fullname", "fullfunc", "param", "group,func", "param,fullname", "func,param"]
)
def test_their_groupings_group_as_they_do(group_by):
    mine = ours.pytest_benchmark_group_stats(None, iter(copy.deepcopy(ROWS)), group_by)
    assert mine == theirs.pytest_benchmark_group_stats(None, copy.deepcopy(ROWS), group_by)
    assert mine


def test_a_parameter_groups_as_theirs_where_all_have_it_and_does_not_crash_elsewhere():
    mine = ours.pytest_benchmark_group_stats(None, copy.deepcopy(ROWS[:2]), "param:datapath")
    assert mine == theirs.pytest_benchmark_group_stats(None, copy.deepcopy(ROWS[:2]), "param:datapath")
    groups = ours.pytest_benchmark_group_stats(None, ROWS, "param:datapath")
    assert [name for name, _ in groups] == ["datapath=-", "datapath=libaio", "datapath=psync"]


def test_gpuio_groups_by_medium_and_workload():
    rows = [
        bench("test_r[2]", record=axes("nvme_ssd", "micro/randread")),
        bench("test_r[1]", record=axes("nvme_ssd", "micro/randread")),
        bench("test_r[3]", record=axes("hdd", "micro/randread")),
        bench("test_p[1]", params={"medium": "ram", "workload": "micro/seqread", "qd": 1}),
        bench("test_p[2]", params={"medium": "ram"}),
        bench("test_g", group="their group", record="not ours"),
        bench("test_n"),
    ]
    groups = ours.pytest_benchmark_group_stats(None, rows, "gpuio")
    assert [(name, [row["name"] for row in members]) for name, members in groups] == [
        (None, ["test_n"]),
        ("hdd/micro/randread", ["test_r[3]"]),
        ("nvme_ssd/micro/randread", ["test_r[1]", "test_r[2]"]),
        ("ram", ["test_p[2]"]),
        ("ram/micro/seqread", ["test_p[1]"]),
        ("their group", ["test_g"]),
    ]
    (first, *_) = ours.pytest_benchmark_group_stats(None, rows[:1], "gpuio,func")
    assert first[0] == "nvme_ssd/micro/randread test_r"


def test_no_rows_give_no_groups_not_none():
    assert ours.pytest_benchmark_group_stats(None, [], "group") == []


@pytest.mark.parametrize("group_by", ["", "gpu", "group,", "params"])
def test_an_unknown_grouping_is_named(group_by):
    with pytest.raises(ConfigError, match=r"Use a comma list of gpuio, group, .* param:NAME"):
        ours.pytest_benchmark_group_stats(None, ROWS, group_by)


class FakeConfig:
    """Stands for pytest's Config where only one option is asked for."""

    def __init__(self, unit):
        self.unit = unit

    def getoption(self, name, default):
        return self.unit if name == "benchmark_time_unit" else default


@given(
    st.sampled_from([None, "auto", "ns", "us", "ms", "s"]),
    st.sampled_from(["seconds", "operations"]),
    st.sampled_from(["min", "max", "mean", "stddev", "name", "fullname"]),
    st.floats(1e-10, 1e3),
    st.booleans(),
)
def test_units_are_scaled_as_theirs(asked, unit, sort, seconds, keyed):
    rows = [bench("test_a", min=seconds, max=seconds, mean=seconds, stddev=seconds, ops=1 / seconds)]
    best = {"min": seconds, "max": seconds, "mean": seconds, "stddev": seconds} if keyed else {}
    worst = {"ops": 1 / seconds} if keyed else {}
    arguments = {"unit": unit, "benchmarks": rows, "best": best, "worst": worst, "sort": sort}
    config = FakeConfig(asked) if asked else None
    mine = ours.pytest_benchmark_scale_unit(config=config, **arguments)
    assert mine == theirs.pytest_benchmark_scale_unit(config=config, **arguments)
    assert mine is not None


def test_an_unknown_unit_is_named():
    with pytest.raises(ConfigError, match="'bytes' is neither"):
        ours.pytest_benchmark_scale_unit(None, "bytes", [], {}, {}, "min")


def test_importing_the_hooks_loads_nothing_heavy():
    code = "import sys, pytest_gpuio.report.compare_hooks; print(*sys.modules)"
    loaded = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60).stdout
    heavy = {"numpy", "pytest", "pytest_benchmark", "rich", "jsonschema", "pytest_gpuio.engine"}
    assert not heavy & set(loaded.split())
