import itertools
import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pytest_gpuio import datapaths, phases
from pytest_gpuio.core.errors import ConfigError
from pytest_gpuio.sweep import expand, order, plan
from pytest_gpuio.sweep.estimate import estimate

PATHS = ("null", "psync", "libaio", "io_uring", "mmap")
WORKLOADS = ("micro/randread", "micro/seqread", "micro/randwrite")
counts = st.lists(st.sampled_from([1, 2, 3, 4, 8, 32]), min_size=1, max_size=3, unique=True)
sizes = st.lists(st.sampled_from([4096, 65536, 1 << 20]), min_size=1, max_size=3, unique=True)


def chosen(values):
    return st.lists(st.sampled_from(values), min_size=1, max_size=len(values), unique=True)


@settings(deadline=None)
@given(
    paths=chosen(PATHS), workloads=chosen(WORKLOADS), bs=sizes, qd=counts, jobs=counts, targets=chosen(("a", "b")),
    limit=st.sampled_from([None, 4, 64]), bytes_limit=st.sampled_from([None, 1 << 20]),
    excluded=st.sampled_from([None, ("psync", 2)]), constrained=st.sampled_from([None, ("micro/randwrite", 1)]),
)  # fmt: skip
def test_expansion_is_the_filtered_product(
    placed, paths, workloads, bs, qd, jobs, targets, limit, bytes_limit, excluded, constrained
):
    lines = ["[axes]", f"datapath = {json.dumps(paths)}", f"workload = {json.dumps(workloads)}", f"bs = {bs}"]
    lines += [f"qd = {qd}", f"jobs = {jobs}", f"target = {json.dumps(targets)}", "[limits]"]
    lines += [f"in_flight = {limit}"] if limit else []
    lines += [f"in_flight_bytes = {bytes_limit}"] if bytes_limit else []
    lines += ["[[exclude]]", f'datapath = "{excluded[0]}"', f'jobs = ">={excluded[1]}"'] if excluded else []
    if constrained:
        lines += ["[[constraint]]", f'when = {{workload = "{constrained[0]}"}}', f"then = {{jobs = {constrained[1]}}}"]
    sweep = placed("\n".join(lines), {targets[0]: "virtual"})
    found = [
        (p.cell.target, p.cell.workload, p.cell.datapath, p.cell.bs, p.cell.qd, p.cell.jobs)
        for p in expand.expand(sweep)
    ]
    order_of = list(phases.WORKLOADS)
    expected = [
        (t, w, p, b, q, j)
        for t, w, p, b, q, j in itertools.product(targets, sorted(workloads, key=order_of.index), paths, bs, qd, jobs)
        if not (p in ("psync", "mmap") and q > 1)
        and not (limit and q * j > limit)
        and not (bytes_limit and q * j * b > bytes_limit)
        and not (excluded and p == excluded[0] and j >= excluded[1])
        and not (constrained and w == constrained[0] and j != constrained[1])
    ]
    assert found == expected
    cases = [p.cell.case for p in expand.expand(sweep)]
    assert len(set(cases)) == len(cases)


def test_without_axes_a_plan_is_the_plugins_own_choice(placed):
    cells = [p.cell for p in expand.expand(placed(""))]
    assert {cell.datapath for cell in cells} == {p.name for p in datapaths.DATAPATHS.values() if not p.by_name}
    streams = {w.name for w in phases.WORKLOADS.values() if isinstance(w, phases.Workload)}
    assert {cell.workload for cell in cells} == streams
    assert {cell.bs for cell in cells if cell.workload == "micro/seqread"} == {1 << 20}
    assert {cell.qd for cell in cells if cell.datapath == "psync"} == {1}


def test_options_take_the_place_of_axes(placed):
    text = '[axes]\nbs = ["4k"]\nqd = [1, 2]\ndatapath = ["psync", "libaio"]\nworkload = ["micro/randread"]'
    cells = [p.cell for p in expand.expand(placed(text, bs="8k,16k", datapath="libaio", cache="hot"))]
    assert {(c.bs, c.qd, c.datapath, c.cache) for c in cells} == {
        (b, q, "libaio", "hot") for b in (8192, 16384) for q in (1, 2)
    }


def test_only_named_cases(placed):
    text = '[axes]\ndatapath = ["psync", "libaio"]\nworkload = ["micro/randread"]\nqd = [1, 2]'
    every = [p.cell.case for p in expand.expand(placed(text))]
    assert [p.cell.case for p in expand.expand(placed(text, case=[every[1]]))] == [every[1]]


def test_environments_are_cells_of_their_own(placed):
    text = (
        '[axes]\ndatapath = "psync"\nworkload = "micro/randread"\nenvironment = ["default", "few"]\n'
        '[environments.few]\nvariables = {A = "1"}'
    )
    cells = list(expand.expand(placed(text)))
    assert [(p.environment, p.cell.suite) for p in cells] == [("default", "sweep"), ("few", "sweep.few")]


def test_gpu_cells_only_for_paths_that_reach_it(placed):
    text = '[axes]\ndatapath = ["null", "gds", "io_uring"]\nworkload = "micro/randread"\nqd = 1\ngpus = [1, 2]\n'
    cells = [p.cell for p in expand.expand(placed(text + 'destination = ["host", "gpu"]'))]
    assert {(c.datapath, c.destination, c.gpus) for c in cells if c.datapath == "io_uring"} == {
        ("io_uring", "host", 0), ("io_uring", "gpu", 1), ("io_uring", "gpu", 2),
    }  # fmt: skip
    assert {c.destination for c in cells if c.datapath == "gds"} == {"gpu"}


def test_targets_must_be_the_plans_and_lie_where_it_says(placed):
    text = '[targets]\nfast = "nvme_ssd"\n[axes]\ntarget = ["fast", "slow"]'
    with pytest.raises(ConfigError, match="has no target 'default': its targets are fast, slow"):
        placed(text)
    with pytest.raises(ConfigError, match="target fast of plan p must lie on nvme_ssd, but /tmp/fast lies on hdd"):
        placed(text, {"fast": "hdd"})
    assert placed(text, {"slow": "hdd"}).media == {"fast": "nvme_ssd", "slow": "hdd"}


def test_short_windows_are_believed_when_asked_for(placed):
    effort = placed('[windows]\nlength = "20ms"\ncount = 5\nwarm_up = "10ms"\n').effort
    assert (effort.window_s, effort.windows, effort.warm_up_s) == (0.02, 5, 0.01)
    assert 0.01 < effort.least_window_s < 0.02
    assert placed('[windows]\nlength = "1s"\n').effort.least_window_s == 0.1
    effort = placed('[windows]\nlength = "1s"\ncount = 5\n', window="30ms").effort
    assert (effort.window_s, effort.windows, effort.least_window_s) == (0.03, 5, pytest.approx(0.02))


def test_the_study_is_the_grid_it_says():
    made = plan.load("study")
    from pathlib import Path

    from pytest_gpuio.measure.settings import read

    sweep = expand.place(made, read(lambda name: made.options.get(name), Path("/tmp")), {}, {})
    cells = list(expand.expand(sweep))
    assert len(cells) >= 25_000
    assert len({p.cell.case for p in cells}) == len(cells)
    assert len({p.cell.medium for p in cells}) == 4
    assert len({p.cell.datapath for p in cells}) == 8
    ordered = order.arrange(cells, seed=made.seed, block=made.block)
    assert sorted(p.cell.case for p in ordered) == sorted(p.cell.case for p in cells)
    forecast = estimate(sweep, cells)
    assert forecast.cells == len(cells)
    assert forecast.seconds > len(cells) * 8 * 0.25
    assert all(forecast.written[target] > 0 for target in ("sata", "nvme", "optane", "pmem"))


def test_an_estimate_grows_with_what_is_asked(placed):
    text = '[axes]\ndatapath = "psync"\nworkload = ["{}"]\nbs = "4k"\n[windows]\nlength = "100ms"\ncount = {}'
    reads, more, writes = (
        estimate(sweep, expand.expand(sweep))
        for sweep in (
            placed(text.format("micro/randread", 10)),
            placed(text.format("micro/randread", 20)),
            placed(text.format("micro/randwrite", 10)),
        )
    )
    assert more.seconds - reads.seconds == pytest.approx(1.0)
    assert reads.written == {"default": 0.0}
    # 1.05 s of 4 KiB requests, one after the other, at 150 us on a disk nothing is known of.
    assert writes.written["default"] == pytest.approx(1.05 * 4096 / 150e-6)
