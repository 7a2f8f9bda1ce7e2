"""Decisions in words."""

import pytest

from pytest_gpuio.core.cell import Cell
from pytest_gpuio.sweep.answers import answer_data, answer_lines, changes
from pytest_gpuio.sweep.decisions import Decision, Standing
from pytest_gpuio.sweep.expand import PlannedCell
from pytest_gpuio.sweep.questions import Place, Question
from pytest_gpuio.sweep.terms import Terms

CELLS = [
    PlannedCell(Cell("sweep", path, "nvme_ssd", "default", "micro/randread", bs, 8, 1))
    for path in ("psync", "libaio", "io_uring")
    for bs in (4096, 65536)
]


def standing(x, path, *equal, ahead=False):
    return Standing(x, 0, path, 2, 0.04, ahead, equal)


def lane(*standings, axis="bs"):
    return changes(standings, Question("crossover", "s", "", axis))


@pytest.mark.parametrize(
    ("standings", "text"),
    [
        ([standing(4096, "a", ahead=True), standing(8192, "a", ahead=True)], "a from 4k to 8k"),
        ([standing(4096, "a", ahead=True), standing(8192, "b", ahead=True)], "a up to 4k, b from 8k on"),
        # What cannot be told apart is no change.
        (
            [standing(4096, "a", ahead=True), standing(8192, "b", "a"), standing(16384, "a", ahead=True)],
            "a from 4k to 16k",
        ),
        # A tie in the middle belongs to either side; there is one change, not two.
        (
            [standing(4096, "a", ahead=True), standing(8192, "c", "a", "b"), standing(16384, "b", ahead=True)],
            "a up to 8k, b from 16k on",
        ),
        (
            [standing(4096, "a", ahead=True), standing(8192, "b", ahead=True), standing(16384, "a", ahead=True)],
            "a up to 4k, b at 8k, a from 16k on",
        ),
        ([Standing(4096, None, None, None, None, False, ())], "nothing could be measured"),
    ],
)  # fmt: skip
def test_changes_are_as_few_as_what_is_known_allows(standings, text):
    assert lane(*standings) == text


def test_depths_are_named_as_depths():
    assert lane(standing(1, "a", ahead=True), standing(64, "b", ahead=True), axis="qd") == "a up to qd1, b from qd64 on"


def question(kind="best", **more):
    return Question(
        kind, "micro/randread on nvme_ssd", "", None, (Place(0, {"psync": (0, 1), "libaio": (2, 3)}),), **more
    )


def text(*decisions, out=None):
    return "".join(answer_lines(decisions, CELLS, out or {}, Terms()))


def test_a_winner_a_tie_and_a_lonely_path():
    won = Decision(question(), True, 0.01, (Standing(0, 3, "libaio", 1, 0.125, True, ()),))
    assert "micro/randread on nvme_ssd: libaio nvme_ssd 64k qd8, 12.5% above psync nvme_ssd 64k qd8\n" in text(won)
    tied = Decision(question(), True, 0.01, (Standing(0, 3, "libaio", 1, 0.01, False, ("psync",)),))
    assert "libaio nvme_ssd 64k qd8, not told apart from psync\n" in text(tied)
    alone = Decision(question(), True, 0.0, (Standing(0, 3, "libaio", None, None, True, ()),))
    assert "libaio nvme_ssd 64k qd8, the only path with a result\n" in text(alone)
    assert "best path: 1 of 1 decided (confidence 0.95, within 3.0%)" in text(won)


def test_what_is_open_names_the_chance_and_the_cells():
    tied = (Standing(0, 3, "libaio", 1, 0.01, False, ("psync",)),)
    told = text(Decision(question(), False, 0.31, tied, None, {1: 2.0, 3: 2.0, 0: 1.1, 2: 9.0}))
    assert "best path: 0 of 1 decided" in told
    assert "still open: 1\n" in told
    assert "wrong with a chance of up to 31%; longer: psync nvme_ssd 64k qd8, libaio nvme_ssd 64k qd8" in told
    assert "and 1 more" in told
    unseen = Decision(question(), False, 1.0, tied, unseen=frozenset({1, 2, 3}))
    assert "3 of its cells are not measured yet" in text(unseen)


def test_disturbed_results_and_what_was_not_measured_are_told():
    one = Decision(question(), True, 0.0, (Standing(0, 3, "libaio", 1, 0.5, True, ()),), unsettled=(3,))
    told = text(one, out={4: "needs liburing: not found", 5: "needs liburing: not found"})
    assert "(unsettled: the machine was disturbed" in told
    assert "not measured, 2 cells, such as io_uring nvme_ssd 4k qd8: needs liburing: not found\n" in told


def test_knees_are_gathered_by_path():
    def knee(size, cell, **more):
        points = ((1, cell), (8, cell + 1), (64, cell + 2))
        asked = Question("knee", "micro/randread on nvme_ssd", f", libaio {size} jobs1", "qd", points=points)
        return Decision(asked, True, 0.0, (), cell + 1, **more)

    told = text(knee("4k", 0), knee("64k", 3, unsettled=(4,)))
    assert "  micro/randread on nvme_ssd, libaio: 4k jobs1 qd8, 64k jobs1 qd8*\n" in told
    assert "* unsettled" in told
    data = answer_data([knee("4k", 0)], CELLS, {}, Terms())
    assert data["questions"][0]["knee"] == {"x": 8, "case": CELLS[1].cell.case}
