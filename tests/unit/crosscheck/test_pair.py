"""Order of interleaved runs, and ratios over them."""

import pytest

from pytest_gpuio.core.errors import GpuioError
from pytest_gpuio.crosscheck.pair import Pair, Pairs, run_pairs, turns
from pytest_gpuio.crosscheck.side import Observed, Side


def side(iops, cores=None, process=None, host=None):
    seen = None if process is None else Observed(1.0, process, host)
    return Side(
        "x", ios=round(iops * 2), bytes=round(iops * 2) * 4096, seconds=2.0, latency={}, cores_told=cores, observed=seen
    )


def test_every_pair_holds_each_turn_once_and_neighbours_stay_neighbours():
    for number in range(6):
        order = turns(number)
        assert sorted(order) == ["again", "ours", "theirs"]
        assert order[1] == "theirs"  # between the two it is compared with
    assert turns(0) == tuple(reversed(turns(1))) != turns(1)


def test_a_drift_of_the_machine_hits_both_alike():
    """Each run is slower than the one before: over two pairs the mean ratio of places in time is 1."""
    when, clock = {"ours": [], "theirs": []}, iter(range(100))
    for number in range(4):
        for turn in turns(number):
            moment = next(clock)
            if turn in when:
                when[turn].append(moment)
    assert sum(when["ours"]) == sum(when["theirs"])


def test_runs_are_called_in_that_order():
    calls = []
    pairs = run_pairs(
        lambda: calls.append("ours") or side(200), lambda: calls.append("theirs") or side(100), 3,
        lambda number, turn: calls.append((number, turn)),
    )  # fmt: skip
    runs = [call for call in calls if isinstance(call, str)]
    assert runs == ["ours", "theirs", "theirs", "theirs", "theirs", "ours", "ours", "theirs", "theirs"]
    assert [call for call in calls if isinstance(call, tuple)][:4] == [
        (0, "ours"),
        (0, "theirs"),
        (0, "again"),
        (1, "again"),
    ]
    assert pairs.ratios("iops") == [2.0, 2.0, 2.0]
    assert pairs.self_ratios("iops") == [1.0, 1.0, 1.0]
    assert not pairs.interrupted


def test_ctrl_c_keeps_what_is_complete():
    left = [side(200), side(200)]

    def ours():
        if not left:
            raise KeyboardInterrupt
        return left.pop()

    pairs = run_pairs(ours, lambda: side(100), 7)
    assert pairs.interrupted
    assert len(pairs.done) == 2


def test_an_error_is_not_swallowed():
    def broken():
        raise GpuioError("no")

    with pytest.raises(GpuioError):
        run_pairs(broken, lambda: side(1), 1)


def test_figures_of_a_side():
    one = Side(
        "fio", ios=1000, bytes=4_096_000, seconds=2.0, latency={"mean": 5.0, "p99": 9.0}, cores_told=0.5,
        observed=Observed(1.5, 1.0, 1.75),
    )  # fmt: skip
    assert one.figure("iops") == 500
    assert one.figure("bytes_per_s") == 2_048_000
    assert one.figure("lat_p99") == 9.0
    assert one.figure("lat_p50") is None
    assert one.figure("cores_told") == 0.5
    assert one.figure("cpu_told") == pytest.approx(0.5 / 500)
    assert one.figure("cpu_process") == pytest.approx(1.0 / 500)
    assert one.figure("cpu_host") == pytest.approx(1.75 / 500)
    assert side(100).figure("cpu_process") is None
    assert side(100).figure("cpu_told") is None


def test_pairs_without_the_figure_are_left_out():
    pairs = Pairs([Pair(side(2, process=1.0, host=1.0), side(1), side(1)), Pair(*[side(1, process=1.0, host=1.0)] * 3)])
    assert pairs.ratios("cpu_process") == [1.0]
    assert pairs.side("theirs", "cpu_process").count == 1
    assert pairs.spread("cpu_told") is None


def test_requests_per_cpu_second_do_not_see_who_took_the_cpu_away():
    """Half the CPU, half the requests: the tool is as good as it was."""
    pairs = Pairs(
        [
            Pair(side(100, cores=0.5), side(100, cores=1.0), side(100)),
            Pair(side(400, cores=1.0), side(100, 0.5), side(1)),
        ]
    )
    assert pairs.per_cpu_second().low == pairs.per_cpu_second().high == pytest.approx(2.0)
    assert Pairs([Pair(side(1), side(1), side(1))]).per_cpu_second() is None
