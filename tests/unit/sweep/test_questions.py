"""What is asked of a plan's cells."""

from pytest_gpuio.sweep.expand import expand
from pytest_gpuio.sweep.questions import questions

PLAN = """
[axes]
datapath = ["psync", "libaio", "io_uring"]
workload = {workloads}
bs = ["4k", "64k"]
qd = "1..16*4"
jobs = [1, 2, 4]
"""


def asked(placed, text, **more):
    cells = list(expand(placed(text, **more)))
    return cells, questions(cells)


def test_kinds_and_numbers(placed):
    cells, found = asked(placed, PLAN.format(workloads='["micro/randread", "micro/seqread"]'))
    assert len(cells) == 2 * 2 * 3 * (1 + 2 * 3)
    kinds = [one.kind for one in found]
    # Per workload: one best path; one lane along bs, and one along qd at each size; a curve per queue path, size and
    # number of jobs, and one along jobs per size of the path without a queue.
    assert (kinds.count("best"), kinds.count("crossover"), kinds.count("knee")) == (2, 2 * 3, 2 * (2 * 2 * 3 + 2))
    assert kinds == sorted(kinds, key=["best", "crossover", "knee"].index)


def test_a_best_path_is_looked_for_among_all_cells_of_a_situation(placed):
    cells, found = asked(placed, PLAN.format(workloads='"micro/randread"'))
    (best,) = [one for one in found if one.kind == "best"]
    assert best.cells == set(range(len(cells)))
    assert best.title == "best path of micro/randread on virtual"
    assert set(best.places[0].paths) == {"psync", "libaio", "io_uring"}


def test_lanes_have_only_places_where_paths_compete(placed):
    cells, found = asked(placed, PLAN.format(workloads='"micro/randread"'))
    lanes = [one for one in found if one.kind == "crossover" and one.axis == "qd"]
    assert [one.where for one in lanes] == [", 4k", ", 64k"]
    for lane in lanes:
        assert [place.x for place in lane.places] == [1, 4, 16]
        assert set(lane.places[0].paths) == {"psync", "libaio", "io_uring"}
        assert set(lane.places[1].paths) == {"libaio", "io_uring"}
        for place in lane.places:
            assert {cells[cell].cell.qd for cells_ in place.paths.values() for cell in cells_} == {place.x}
    alone = asked(
        placed, PLAN.format(workloads='"micro/randread"').replace('["psync", "libaio", "io_uring"]', '"libaio"')
    )
    assert {one.kind for one in alone[1]} == {"best", "knee"}


def test_knees_are_along_depth_or_along_jobs_where_there_is_no_queue(placed):
    cells, found = asked(placed, PLAN.format(workloads='"micro/randread"'))
    for one in found:
        if one.kind == "knee":
            path = {cells[cell].cell.datapath for _, cell in one.points}
            assert one.axis == ("jobs" if path == {"psync"} else "qd")
            assert [x for x, _ in one.points] == ([1, 2, 4] if path == {"psync"} else [1, 4, 16])


def test_what_moves_no_data_is_asked_nothing(placed):
    _, found = asked(placed, PLAN.format(workloads='"micro/randread"').replace('"psync", "libaio"', '"null"'))
    assert "null" not in {path for one in found for place in one.places for path in place.paths}


def test_open_loops_have_no_knee_and_other_situations_are_asked_apart(placed):
    text = PLAN.format(workloads='"micro/randread"') + 'arrivals = ["closed", "poisson:1000"]\ntarget = ["a", "b"]\n'
    _, found = asked(placed, text, targets={"a": "virtual", "b": "hdd"})
    titles = [one.title for one in found if one.kind == "best"]
    assert len(titles) == len(set(titles)) == 4
    assert not any(one.kind == "knee" and "poisson" in one.situation for one in found)
