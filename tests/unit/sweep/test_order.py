import itertools
from collections import Counter

from hypothesis import given
from hypothesis import strategies as st

from pytest_gpuio.core.cell import Cell
from pytest_gpuio.sweep import plan
from pytest_gpuio.sweep.expand import PlannedCell, writes
from pytest_gpuio.sweep.order import arrange, steps


def cells_of(paths=("psync", "libaio", "io_uring"), sizes=40, workloads=("micro/randread", "micro/randwrite")):
    return [
        PlannedCell(Cell("sweep", path, "virtual", "default", workload, 4096 * (1 + size), 1, 1))
        for path in paths
        for workload in workloads
        for size in range(sizes)
    ]


@given(seed=st.integers(0, 99), block=st.integers(1, 50), sizes=st.integers(0, 12))
def test_every_cell_once_and_reads_before_writes(seed, block, sizes):
    cells = cells_of(sizes=sizes)
    found = arrange(cells, seed=seed, block=block)
    assert Counter(p.cell.case for p in found) == Counter(p.cell.case for p in cells)
    assert [writes(p.cell) for p in found] == sorted(writes(p.cell) for p in cells)
    assert found == arrange(cells, seed=seed, block=block)


def test_another_seed_is_another_order():
    cells = cells_of()
    assert arrange(cells, seed=1, block=30) != arrange(cells, seed=2, block=30)


def test_each_path_is_spread_from_beginning_to_end():
    found = arrange(cells_of(workloads=("micro/randread",)), seed=3, block=10)
    for third in (found[:40], found[40:80], found[80:]):
        counts = Counter(p.cell.datapath for p in third)
        assert all(9 <= counts[path] <= 18 for path in ("psync", "libaio", "io_uring")), counts


def test_drift_does_not_align_with_an_axis():
    # A machine that gets slower by the same amount with each cell: no path or size may look worse for it.
    found = arrange(cells_of(sizes=100, workloads=("micro/randread",)), seed=1, block=50)
    places = {path: [i for i, p in enumerate(found) if p.cell.datapath == path] for path in ("psync", "libaio")}
    means = [sum(values) / len(values) for values in places.values()]
    assert abs(means[0] - means[1]) < 0.02 * len(found)
    small = [i for i, p in enumerate(found) if p.cell.bs <= 50 * 4096]
    assert abs(sum(small) / len(small) - len(found) / 2) < 0.08 * len(found)


def test_cells_of_an_environment_stand_together_within_a_block():
    cells = [PlannedCell(p.cell, environment=env) for p in cells_of(sizes=20) for env in ("default", "few")]
    found = arrange(cells, seed=1, block=24)
    changes = sum(a.environment != b.environment for a, b in itertools.pairwise(found))
    assert changes <= 2 * -(-len(found) // 24)


def test_baselines_and_preconditions_stand_where_they_should():
    made = plan.parse('[baseline]\ndatapath = "libaio"\nqd = 4\nevery = 10\n[precondition]\ntime = "1s"\n', "p.toml")
    ordered = arrange(cells_of(sizes=5), seed=1, block=200)
    found = list(steps(ordered, made))
    kinds = "".join(step.kind[0] for step in found)
    assert kinds == "b" + "c" * 10 + "b" + "c" * 5 + "p" + "c" * 5 + "b" + "c" * 10 + "b"
    first = found[0].planned.cell
    assert (first.suite, first.datapath, first.qd) == ("sweep.baseline", "libaio", 4)
    assert not any(writes(step.planned.cell) for step in found[: kinds.index("p")])
    assert [step.planned for step in found if step.kind == "cell"] == ordered
