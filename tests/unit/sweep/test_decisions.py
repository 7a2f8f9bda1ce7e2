"""Decisions from levels, held against draws from the same distributions, and against curves made by hand."""

import math
import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_gpuio.sweep.decisions import decide
from pytest_gpuio.sweep.levels import Level, Sample, chance_above, levels, sample_of
from pytest_gpuio.sweep.questions import Place, Question


def level(value, error=0.01, freedom=40.0, settled=True):
    return Level(math.log(value), error**2, freedom, 1, settled)


def best(*cells_by_path):
    paths = {f"path{n}": cells for n, cells in enumerate(cells_by_path)}
    return Question("best", "micro/randread on nvme_ssd", "", None, (Place(0, paths),))


def ask(question, known, out=(), confidence=0.95, margin=0.03):
    return decide(question, known, out, confidence=confidence, margin=margin)


def test_a_clear_winner_is_named_with_its_lead():
    found = ask(best((0, 1), (2,)), {0: level(2.0), 1: level(3.0), 2: level(2.4)})
    assert found.decided
    (standing,) = found.standings
    assert (standing.path, standing.leader, standing.runner_up, standing.ahead) == ("path0", 1, 2, True)
    assert standing.lead == pytest.approx(0.25)
    assert standing.equal == ()


def test_paths_within_the_margin_are_decided_without_a_winner():
    found = ask(best((0,), (1,)), {0: level(1.0, 0.005), 1: level(1.002, 0.005)})
    assert found.decided
    assert (found.standings[0].ahead, found.standings[0].equal) == (False, ("path0",))


def test_what_may_still_be_better_keeps_the_question_open_and_is_named():
    known = {0: level(1.0, 0.05), 1: level(1.02, 0.05), 2: level(0.5, 0.05)}
    found = ask(best((0,), (1,), (2,)), known)
    assert not found.decided
    assert set(found.needs) == {0, 1}
    assert found.wrong > 0.05
    assert all(factor > 1 for factor in found.needs.values())


def test_a_cell_that_was_not_measured_keeps_it_open_and_one_that_cannot_be_does_not():
    known = {0: level(2.0), 1: level(1.0)}
    question = best((0,), (1,), (2,))
    assert ask(question, known).unseen == {2}
    assert not ask(question, known).decided
    assert ask(question, known, out=(2,)).decided
    nothing = ask(question, {}, out=(0, 1, 2))
    assert nothing.decided
    assert nothing.standings[0].path is None


def test_only_what_helps_is_measured_longer():
    found = ask(best((0,), (1,)), {0: level(1.0, 0.1), 1: level(1.0, 0.01)})
    assert set(found.needs) == {0}


def test_each_place_of_a_lane_has_its_share_of_the_error():
    one = Place(4096, {"a": (0,), "b": (1,)})
    pair = {0: level(1.0, 0.02), 1: level(0.985, 0.02)}
    single = Question("best", "s", "", None, (one,))
    lane = Question("crossover", "s", "", "bs", tuple(Place(4096 << n, one.paths) for n in range(10)))
    wrong = ask(single, pair).wrong
    just = 1.0 - 1.05 * wrong
    assert ask(single, pair, confidence=just).decided
    assert not ask(lane, pair, confidence=just).decided


@pytest.mark.parametrize(
    ("curve", "knee"),
    [((10, 50, 99, 100), 2), ((10, 50, 80, 100), 3), ((100, 100, 100, 100), 0), ((95, 99, 100, 60), 0)],
)
def test_the_knee_is_the_least_depth_that_gives_nine_tenths(curve, knee):
    points = tuple((4**n, n) for n in range(4))
    found = ask(Question("knee", "s", ", p", "qd", points=points), {n: level(v, 0.004) for n, v in enumerate(curve)})
    assert (found.decided, found.knee) == (True, knee)


def test_a_knee_near_its_edge_stays_open_until_more_is_known():
    points = tuple((4**n, n) for n in range(3))
    curve = (50, 89, 100)
    vague = ask(Question("knee", "s", ", p", "qd", points=points), {n: level(v, 0.03) for n, v in enumerate(curve)})
    assert not vague.decided
    assert {1, 2} <= set(vague.needs)
    sure = ask(Question("knee", "s", ", p", "qd", points=points), {n: level(v, 0.005) for n, v in enumerate(curve)})
    assert sure.decided, "89 % is within the margin of the edge: either answer is right"


def test_a_curve_of_which_too_little_can_be_measured_is_closed_without_a_knee():
    points = tuple((4**n, n) for n in range(3))
    found = ask(Question("knee", "s", ", p", "qd", points=points), {0: level(1.0), 1: level(2.0)}, out=(2,))
    assert (found.decided, found.knee) == (True, None)


def test_what_was_only_measured_on_a_disturbed_machine_is_named():
    found = ask(best((0,), (1,)), {0: level(2.0, settled=False), 1: level(1.0)})
    assert found.decided
    assert found.unsettled == (0,)


@given(st.lists(st.floats(0.5, 2.0), min_size=2, max_size=6), st.floats(0.005, 0.1), st.integers(0, 1000))
def test_the_chance_of_being_wrong_is_no_less_than_draws_say(values, error, seed):
    known = {n: level(v, error, 60.0) for n, v in enumerate(values)}
    found = ask(best(*((n,) for n in range(len(values)))), known)
    draw, wrong = random.Random(seed), 0
    leader = found.standings[0].leader
    for _ in range(300):
        drawn = [draw.gauss(math.log(v), error) for v in values]
        wrong += max(drawn) > drawn[leader] + math.log1p(0.03)
    # Three standard errors of the draws, and t against normal.
    assert wrong / 300 <= found.wrong + 3 * math.sqrt(max(found.wrong, 0.003) / 300)


def test_chances_are_those_of_students_t():
    # scipy.stats.t.sf(2, 10) = 0.036694; variances and freedoms equal, so that Welch gives 2 x 5.
    one, other = Level(0.0, 0.5, 5.0, 1, True), Level(2.0, 0.5, 5.0, 1, True)
    assert chance_above(one, other, 0.0) == pytest.approx(0.036694, abs=1e-6)
    assert chance_above(other, one, 0.0) == pytest.approx(1 - 0.036694, abs=1e-6)


def samples(draw, level, spread, windows, times, between=0.0):
    found = []
    for _ in range(times):
        centre = level + draw.gauss(0, between)
        logs = [centre + draw.gauss(0, spread) for _ in range(windows)]
        mean = sum(logs) / windows
        found.append(Sample(mean, sum((x - mean) ** 2 for x in logs) / (windows - 1), windows))
    return found


@pytest.mark.parametrize("between", [0.0, 0.03])
def test_levels_know_how_well_they_know(between):
    """The share of cells whose true level lies within two standard errors, over machines: 95 % of normal ones do."""
    draw, hits, count = random.Random(1), 0, 0
    for _ in range(10):
        true = [draw.uniform(0, 5) for _ in range(60)]
        spreads = [draw.uniform(0.02, 0.05) for _ in true]
        made = {n: samples(draw, t, spreads[n], 3, 1 + n % 3, between) for n, t in enumerate(true)}
        known = levels(made, dict.fromkeys(made, "one kind"))
        hits += sum(abs(known[n].value - t) <= 2 * math.sqrt(known[n].variance) for n, t in enumerate(true))
        count += len(true)
    assert 0.9 <= hits / count <= 0.995


def test_more_windows_and_more_measurements_know_more():
    draw = random.Random(2)
    made = {n: samples(draw, 1.0, 0.03, 2 if n else 32, 1) for n in range(20)}
    known = levels(made, dict.fromkeys(made, "k"))
    assert known[0].variance < min(known[n].variance for n in range(1, 20))


def test_disturbed_measurements_count_only_where_there_is_nothing_better():
    bad, good = Sample(5.0, 0.001, 4.0, settled=False), Sample(1.0, 0.001, 4.0)
    known = levels({0: [bad, good], 1: [bad]}, {0: "k", 1: "k"})
    assert (known[0].value, known[0].settled) == (1.0, True)
    assert (known[1].value, known[1].settled) == (5.0, False)


def test_one_value_is_taken_with_the_spread_of_its_kind():
    quiet = {n: [Sample(1.0, 0.0001, 5.0)] for n in range(10)}
    known = levels({**quiet, 99: [Sample(1.0, None, 1.0)]}, dict.fromkeys((*quiet, 99), "k"))
    assert known[99].variance > known[0].variance


def test_a_record_gives_the_figure_that_decides_its_phase(record):
    cell = record()
    found = sample_of(cell)
    rates = [cell["bytes"] / cell["ios"] * cell["windows"]["ios_per_window"] / s for s in cell["windows"]["seconds"]]
    assert found.level == pytest.approx(sum(map(math.log, rates)) / len(rates))
    assert found.settled
    assert found.independent <= 4


def test_a_short_measurement_counts_as_settled_and_a_disturbed_one_does_not(record):
    cell = record()
    gate = {"gate": "stable", "class": "unsettled", "state": "failed", "detail": "fewer than two windows"}
    assert sample_of({**cell, "gates": [gate]}).settled
    assert not sample_of({**cell, "gates": [gate, {**gate, "gate": "no_steal"}]}).settled


def test_a_record_without_the_figure_is_no_sample(record):
    assert sample_of(record(windows__seconds=[0.0, 0.0])) is None
