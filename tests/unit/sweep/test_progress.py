import io

import pytest

from pytest_gpuio.core.cell import Cell
from pytest_gpuio.report.duration import long_duration
from pytest_gpuio.sweep import progress
from pytest_gpuio.sweep.expand import PlannedCell
from pytest_gpuio.sweep.order import Step
from pytest_gpuio.sweep.progress import Bests, LiveProgress, Pace, PlainProgress
from pytest_gpuio.sweep.run import Tally

STEP = Step("cell", PlannedCell(Cell("sweep", "psync", "virtual", "default", "micro/randread", 4096, 1, 1)))


@pytest.fixture
def clock(monkeypatch):
    class Clock:
        now = 0.0

        def monotonic(self):
            return self.now

    clock = Clock()
    monkeypatch.setattr(progress, "time", clock)
    return clock


def test_plain_lines_come_every_ten_seconds_and_for_what_went_wrong(record, clock):
    out = io.StringIO()
    shown = PlainProgress(out)
    tally = Tally(cells=100, measured=10, left=90)
    shown.begin("mine", tally)
    for _ in range(25):
        clock.now += 1.0
        tally.left -= 1
        tally.measured += 1
        shown.measuring(STEP, tally)
        shown.finished(STEP, "cell", "", record(), tally)
    shown.finished(STEP, "void", "littles_law: no", None, tally)
    for _ in range(3):
        shown.finished(STEP, "skip", "needs cuda: no", None, tally)
    shown.end("stopped", tally)
    lines = out.getvalue().splitlines()
    assert lines[0] == "[     0 s] sweep mine: 100 cells, 10 of them done before, 90 to go"
    assert [line.partition("]")[0] for line in lines if "80 to go" in line or "70 to go" in line] == [
        "[    10 s",
        "[    20 s",
    ]
    assert "20 of 100 measured" in lines[1]
    assert "80 s left" in lines[1]
    assert sum("littles_law: no" in line for line in lines) == 1
    assert sum("needs cuda: no" in line for line in lines) == 1, "each reason once"
    assert "stopped: the same command goes on" in "".join(lines)
    assert "best of" in lines[-1]


def test_the_best_path_of_each_workload_and_medium(record):
    bests = Bests()
    for path, speed in (("psync", 1e9), ("libaio", 3e9), ("null", 9e9), ("io_uring", 2e9)):
        one = record(bytes_per_s=speed)
        one["axes"] = {**one["axes"], "datapath": path}
        bests.add(one)
    assert len(bests.lines()) == 1
    assert "libaio" in bests.lines()[0]


def test_pace_forecasts_from_recent_cells(clock):
    pace = Pace()
    assert pace.left(10) is None
    for _ in range(300):
        clock.now += 5.0
        pace.finished()
    for _ in range(100):
        clock.now += 0.5
        pace.finished()
    assert pace.left(10) == pytest.approx(5.0)


def test_a_terminal_gets_a_display_and_lines_that_stay(record, monkeypatch, capsys):
    shown = LiveProgress()
    tally = Tally(cells=3, left=3)
    shown.begin("mine", tally)
    shown.measuring(STEP, tally)
    tally.left, tally.measured = 2, 1
    shown.finished(STEP, "cell", "", record(), tally)
    shown.measuring(STEP, tally)
    shown.say("something [worth] a line")
    shown.end("complete", tally)
    err = capsys.readouterr().err
    assert "something [worth] a line" in err
    assert "complete; 1 of 3 measured" in err
    import threading

    assert threading.active_count() == 1, "no thread that could wake inside a window"


@pytest.mark.parametrize(
    ("seconds", "text"), [(45.2, "45 s"), (119, "119 s"), (720, "12 min"), (148695, "41 h 18 min"), (3600, "1 h 0 min")]
)
def test_long_times(seconds, text):
    assert long_duration(seconds) == text
