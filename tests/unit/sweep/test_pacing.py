"""Who decides when windows begin and end: rank 0, from what all ranks say."""

from __future__ import annotations

import threading
from types import SimpleNamespace

import pytest

from pytest_gpuio.core.errors import EngineError, RankLost
from pytest_gpuio.measure.pace import Verdict
from pytest_gpuio.sweep.pacing import Abandoned, Conductor, Follower
from pytest_gpuio.sweep.wire import Message

PLAN = SimpleNamespace(precision=0.01, max_time=3.0, windows=None, timeout_s=5.0)


def window(start_s, seconds, ios=1000, **more):
    values = {"start_ns": round(start_s * 1e9), "end_ns": round((start_s + seconds) * 1e9), "ios": ios}
    return values | {"broken": False, "short": False} | more


class Two:
    """Both sides of one cell, each answering in its own thread."""

    def __init__(self, ends, plan=PLAN):
        self.one, self.other = ends
        self.follower = Follower(self.other, 1, plan)
        self.conductor = Conductor(self.one, 1, plan, self.hear)

    def hear(self, rank, message):
        raise EngineError(f"rank {rank}: {message.body}")

    def ask(self, here, there):
        """Verdict of rank 0, and of rank 1."""
        found = []
        thread = threading.Thread(target=lambda: found.append(self.follower(there)))
        thread.start()
        verdict = self.conductor(here)
        thread.join()
        return verdict, found[0]


def test_all_are_there_then_all_start_at_one_time(pair):
    both = Two(pair())
    assert both.ask({}, {}) == (Verdict(), Verdict())
    here, there = both.ask({}, {})
    assert here.at_ns > 0
    # Each in its own clock, here the same one: no further apart than the clocks are known.
    assert there.at_ns - here.at_ns == both.conductor.clocks[1][0]
    assert abs(there.at_ns - here.at_ns) <= both.conductor.clocks[1][1]


def test_the_slowest_rank_s_end_counts_for_the_time_that_is_over(pair):
    both = Two(pair())
    both.ask({}, {})
    both.ask({}, {})
    for number in range(2):
        here, there = both.ask(window(number, 0.5), window(number, 1.0))
        assert here.end is there.end is None
        assert here.at_ns
    here, there = both.ask(window(2, 0.5, ios=900), window(2, 1.0))
    assert here.end == there.end == "max_time"
    assert set(both.conductor.clocks_at_end) == {0, 1}


def test_windows_that_are_short_anywhere_begin_anew_everywhere_and_not_for_ever(pair):
    both = Two(pair())
    for _ in range(3):
        both.ask({}, {})
        both.ask({}, {})
        assert both.ask(window(0, 0.1), window(0, 0.01, short=True)) == (Verdict(again=True), Verdict(again=True))
    both.ask({}, {})
    both.ask({}, {})
    here, _ = both.ask(window(0, 0.1), window(0, 0.01, short=True))
    assert not here.again


def test_a_broken_window_ends_the_cell(pair):
    both = Two(pair())
    both.ask({}, {})
    both.ask({}, {})
    here, there = both.ask(window(0, 0.1), window(0, 0.1, broken=True))
    assert here.end == there.end == "max_windows"


def test_a_fixed_number_of_windows(pair):
    both = Two(pair(), SimpleNamespace(**vars(PLAN) | {"windows": 2}))
    both.ask({}, {})
    both.ask({}, {})
    assert both.ask(window(0, 9.0), window(0, 9.0))[0].end is None
    assert both.ask(window(9, 9.0), window(9, 9.0))[0].end == "max_windows"


def test_a_rank_that_failed_is_told_instead_of_waited_for(pair):
    both = Two(pair())
    both.other.send(0, Message(1, "at work"))
    both.other.send(0, Message(1, "failed", "its disk is full"))
    both.conductor._on_word = lambda rank, message: None if message.kind == "at work" else Two.hear(both, rank, message)
    with pytest.raises(EngineError, match="rank 1: its disk is full"):
        both.conductor({})


def test_a_cell_given_up_frees_who_waits_for_it(pair):
    both = Two(pair())
    both.one.send(1, Message(0, "verdict", Verdict()))  # of a cell gone by
    both.one.send(1, Message(1, "abandon"))
    with pytest.raises(Abandoned):
        both.follower({})


def test_a_rank_lost_inside_a_window_is_missed_within_the_window_s_deadline(pair):
    both = Two(pair(), SimpleNamespace(**vars(PLAN) | {"timeout_s": -1.9}))  # two seconds of slack are left
    with pytest.raises(RankLost, match="rank 1 said nothing"):
        both.conductor(window(0, 0.1))
