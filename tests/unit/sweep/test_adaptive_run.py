"""Adaptive sweeps with a journal: sessions are fakes on a fake clock, except in the last tests, which run gpuio."""

import contextlib
import json
import math
import random
import signal
import subprocess
import sys
import time

import pytest

from pytest_gpuio.cli import main
from pytest_gpuio.cli import sweep_run as sweep_run_command
from pytest_gpuio.core.errors import ConfigError, TargetError
from pytest_gpuio.measure.session import VoidCell
from pytest_gpuio.media import Medium
from pytest_gpuio.results import journal
from pytest_gpuio.sweep import run as runner_module
from pytest_gpuio.sweep.adaptive_run import AdaptiveRunner
from pytest_gpuio.sweep.answers import answer_data, answer_lines
from pytest_gpuio.sweep.expand import expand
from pytest_gpuio.sweep.export import choose, read_series, records
from pytest_gpuio.sweep.journal import SweepJournal
from pytest_gpuio.sweep.run import Runner
from pytest_gpuio.sweep.status import read_status
from pytest_gpuio.sweep.stop import Stop
from pytest_gpuio.sweep.terms import Terms

PLAN = """
[options]
size = "64M"
[windows]
length = "250ms"
count = 5
warm_up = "200ms"
[axes]
datapath = ["null", "psync", "libaio", "io_uring"]
workload = ["micro/randread", "micro/randwrite"]
bs = ["4k", "64k"]
qd = [1, 4, 16]
jobs = 1
"""
SPEED = {"psync": 1.0, "libaio": 1.3, "io_uring": 1.36, "null": 50.0}


class FakeMachine:
    """A session and a clock: windows take their time on the clock, and how fast a cell is follows from its axes."""

    def __init__(self, record, errors=None, stop_after=None):
        self.now, self.log, self.errors, self.bad_ends = 0.0, [], errors or {}, []
        self._record, self._draw, self._stop_after = record, random.Random(1), stop_after
        self.asked = False

    def clock(self):
        return self.now

    def missing(self, _cell, path):
        return self.errors.get(("missing", path.name))

    def measure(self, subject, _progress):
        cell, count = subject.cell, subject.windows or 5
        self.now += (0.23 + 0.25 * count) * math.exp(self._draw.gauss(0.1, 0.1))
        if (error := self.errors.get((cell.datapath, cell.workload))) is not None:
            raise error
        self.log.append((cell.suite, cell.workload, cell.datapath, cell.bs, cell.qd, count))
        if self._stop_after is not None and len(self.log) >= self._stop_after:
            self.asked = True
        speed = SPEED[cell.datapath] * cell.bs * 1e4 * (1 - math.exp(-cell.qd / 3))
        seconds = [64000 * cell.bs / speed * math.exp(self._draw.gauss(0, 0.03)) for _ in range(count)]
        return self._record(
            case=cell.case, axes=dict(cell.axes()), suite=cell.suite, windows__count=count, windows__seconds=seconds,
            windows__ios_per_window=64000, bytes=64000 * cell.bs * count, ios=64000 * count,
            effective__datapath=cell.datapath, gates=[],
        )  # fmt: skip

    def close(self): ...

    def __enter__(self):
        return self

    def __exit__(self, *_): ...


class Told:
    """Progress that remembers."""

    def __init__(self):
        self.said, self.tallies = [], []

    def begin(self, name, tally): ...

    def measuring(self, step, tally): ...

    def finished(self, _step, _fate, _text, _record, tally):
        self.tallies.append((tally.measured, tally.left))

    def say(self, text):
        self.said.append(text)

    def end(self, reason, tally):
        self.reason, self.tally = reason, tally


@pytest.fixture
def sweep_run(placed, record, tmp_path, monkeypatch):
    """Function: runs a plan adaptively on a fake machine, with a journal that stays from call to call."""
    monkeypatch.setattr(runner_module, "HostLock", lambda _timeout: contextlib.nullcontext())
    monkeypatch.setattr("pytest_gpuio.sweep.run.VoidCell", VoidCell)

    def go(budget=600.0, text=PLAN, full=False, **machine):
        sweep = placed(text)
        told, made = Told(), FakeMachine(record, **machine)
        media = {name: Medium("virtual", ()) for name in sweep.targets}
        cells = list(expand(sweep))
        with SweepJournal(go.path) as out, Stop(told.say) as stop:
            stopping = made if made._stop_after else stop
            if full:
                runner = Runner(sweep, media, out, told, stopping, cells)
            else:
                runner = AdaptiveRunner(
                    sweep, media, out, told, stopping, cells, Terms(budget_s=budget), clock=made.clock
                )
            runner._new_session = lambda _effort, _environment: made
            told.reason = runner.run()
        told.runner, told.machine = runner, made
        return told

    go.path = tmp_path / "j.jsonl"
    return go


def cells_of(log):
    return [entry[:5] for entry in log if entry[0] == "sweep"]


def test_it_ends_when_all_is_decided_and_each_cell_was_seen(sweep_run):
    told = sweep_run()
    assert told.reason == "complete"
    assert told.runner.adaptive.ended == "decided"
    assert told.machine.now < 600
    seen = cells_of(told.machine.log)
    assert len(set(seen)) == 40 == told.tally.measured
    assert len(set(seen[:40])) == 40, "all once before any twice"
    text = "".join(answer_lines(told.runner.decisions(), told.runner.cells, {}, Terms()))
    assert "micro/randread on virtual: io_uring virtual 64k qd16" in text
    assert "micro/randread on virtual, io_uring: " in text
    assert "still open" not in text


def test_reads_come_before_writes_in_each_round(sweep_run):
    told = sweep_run()
    first = [workload for _, workload, *_ in cells_of(told.machine.log)[:40]]
    assert first == sorted(first), "randread before randwrite"


def test_the_journal_has_a_record_per_measurement_and_the_newest_is_the_longest(sweep_run):
    told = sweep_run()
    lines = [line for line in journal.scan(sweep_run.path) if line.kind == "cell"]
    assert len(lines) == len(told.machine.log) > 40
    assert len({line.key for line in lines}) == 40, "one key per cell: its records add up"
    windows = {}
    for line in lines:
        body = line.body()
        assert body["windows"]["count"] >= windows.get(body["case"], 0)
        windows[body["case"]] = body["windows"]["count"]
    series = choose(read_series(sweep_run.path), None)
    exported = {body["case"]: body["windows"]["count"] for _, body in records(sweep_run.path, series)}
    assert exported == windows
    (status,) = read_status(sweep_run.path).series
    assert (status.measured, status.left, status.ended) == (40, 0, "complete")


def test_a_budget_is_kept_and_what_is_open_is_told(sweep_run):
    told = sweep_run(budget=45.0)
    assert 0.97 * 45 <= told.machine.now <= 45.5
    assert told.runner.adaptive.ended == "budget"
    text = "".join(answer_lines(told.runner.decisions(), told.runner.cells, {}, Terms()))
    assert "still open" in text
    data = answer_data(told.runner.decisions(), told.runner.cells, {}, Terms())
    assert data["open"] > 0
    assert data["decided"] + data["open"] == len(data["questions"])
    assert all(one["waits_for"] for one in data["questions"] if not one["decided"])
    json.dumps(data, allow_nan=False)


def test_a_budget_too_small_for_a_first_look_says_so_and_goes_on_later(sweep_run):
    told = sweep_run(budget=10.0)
    assert told.reason == "stopped"
    assert any("too small for a first look at each of 40 cells" in text for text in told.said)
    assert 0 < told.tally.left < 40
    again = sweep_run(budget=600.0)
    assert again.reason == "complete"
    assert again.tally.measured == 40
    early = cells_of(told.machine.log)
    assert not set(early) & set(cells_of(again.machine.log)[: 40 - len(early)])


def test_stopped_it_goes_on_with_what_the_journal_holds(sweep_run):
    told = sweep_run(stop_after=43)
    assert told.reason == "stopped"
    again = sweep_run()
    assert again.reason == "complete"
    assert again.runner.adaptive.ended == "decided"
    assert len(again.machine.log) < len(told.machine.log), "nothing of it is measured for a first look again"
    third = sweep_run()
    assert third.machine.log == [], "all is decided"
    assert third.reason == "complete"


def test_records_of_the_full_grid_count_and_the_full_grid_stays_available(sweep_run):
    full = sweep_run(full=True)
    assert len(full.machine.log) == 40
    adaptive = sweep_run()
    assert len(adaptive.machine.log) < 40, "no first look: five windows of each are there"
    assert sweep_run(full=True).machine.log == []
    assert adaptive.runner.series == full.runner.series


def test_the_full_grid_does_not_take_a_first_look_for_a_measurement(sweep_run):
    sweep_run(budget=40.0)
    assert len(sweep_run(full=True).machine.log) == 40


def test_what_is_missing_here_is_left_out_and_told(sweep_run):
    told = sweep_run(errors={("missing", "io_uring"): "needs liburing: not found"})
    assert told.reason == "complete"
    assert (told.tally.skipped, told.tally.measured, told.tally.left) == (12, 28, 0)
    runner = told.runner
    text = "".join(answer_lines(runner.decisions(), runner.cells, runner.adaptive.out, Terms()))
    assert "micro/randread on virtual: libaio virtual 64k qd16" in text
    assert "not measured, 12 cells, such as io_uring virtual" in text
    assert "needs liburing: not found" in text


def test_voids_are_tried_again_as_often_as_the_plan_allows(sweep_run):
    void = VoidCell("littles_law", "impossible", [])
    told = sweep_run(errors={("libaio", "micro/randwrite"): void})
    kinds = [line.kind for line in journal.scan(sweep_run.path)]
    assert kinds.count("void") == 2 * 6
    assert (told.tally.voids, told.tally.left, told.reason) == (6, 0, "complete")
    again = sweep_run()
    assert not any(entry[1:3] == ("micro/randwrite", "libaio") for entry in again.machine.log)


def test_a_target_that_is_gone_does_not_keep_it_running(sweep_run):
    told = sweep_run(errors={(path, work): TargetError("gone") for path in SPEED for work in (
        "micro/randread", "micro/randwrite")})  # fmt: skip
    assert told.tally.measured == 0
    assert any("is left alone for the rest of this run: gone" in text for text in told.said)


def test_baselines_and_preconditions_stand_between_as_in_plain_runs(sweep_run):
    text = PLAN + '[baseline]\nevery = 20\n[precondition]\ntime = "3s"\n'
    told = sweep_run(text=text)
    kinds = [line.kind for line in journal.scan(sweep_run.path)]
    assert kinds.count("precondition") == 1
    measured = kinds.count("cell")
    assert kinds.count("baseline") == math.ceil(measured / 20)
    suites = [entry[0] for entry in told.machine.log]
    first_write = next(n for n, e in enumerate(told.machine.log) if e[:2] == ("sweep", "micro/randwrite"))
    assert "sweep.precondition" in suites[:first_write]


REAL = """
[options]
size = "8M"
[windows]
length = "20ms"
count = 5
warm_up = "10ms"
[axes]
datapath = ["null", "psync", "libaio"]
workload = "micro/randread"
bs = ["4k", "64k"]
qd = [1, 4]
jobs = 1
"""


def arguments(tmp_path, *more):
    plan = tmp_path / "small.toml"
    plan.write_text(REAL)
    return ["run", plan, "--journal", tmp_path / "a.jsonl", "--gpuio-target", tmp_path / "t", *more]


def test_a_real_run_within_its_budget(tmp_path):
    def command(budget, out):
        more = ("--gpuio-lock-timeout=99s", "--adaptive", "--budget", budget, "--confidence=90%", "--margin=60%")
        return subprocess.run(
            [sys.executable, "-P", "-m", "pytest_gpuio.cli", "sweep", *arguments(tmp_path, *more, "--json", out)],
            capture_output=True, text=True, timeout=200,
        )  # fmt: skip

    def cells():
        return [line for line in journal.scan(tmp_path / "a.jsonl") if line.kind == "cell"]

    # What the clock says is the machine's matter here, which may be busy; fake clocks hold the budget elsewhere.
    done = command("20s", tmp_path / "o.json")
    assert done.returncode in (0, 4), done.stderr
    told = json.loads((tmp_path / "o.json").read_text())
    assert told["measured"] == len({line.key for line in cells()}) == told["cells"] - told["left"]
    assert len(cells()) == told["new"]
    assert (told["adaptive"]["confidence"], told["adaptive"]["margin"]) == (0.9, 0.6)
    assert told["adaptive"]["decided"] + told["adaptive"]["open"] == len(told["adaptive"]["questions"]) == 2
    assert "best path: " in done.stdout
    again = command("2m", tmp_path / "o2.json")
    assert again.returncode == 0, again.stderr
    assert f"{told['measured']} of them done before" in again.stderr
    more = json.loads((tmp_path / "o2.json").read_text())
    assert (more["series"], more["measured"]) == (told["series"], 10)
    assert len(cells()) == told["new"] + more["new"]


@pytest.mark.parametrize(
    ("more", "text"),
    [
        (("--budget", "soon"), "budget 'soon' is not a duration"),
        (("--budget", "10ms"), "budget '10ms' is too short"),
        (("--confidence", "20%"), "confidence '20%' must be from 50% to 99.99%"),
        (("--confidence", "x"), "confidence 'x' is not a percentage"),
        (("--margin", "200%"), "margin '200%' must be above 0% and below 100%"),
        (("--adaptive", "--shard", "1/2"), "--shard measures parts that nobody can compare before all are there"),
        (("--full", "--budget", "1h"), "--full measures every cell, and --budget is about leaving some out"),
        (("--full", "--adaptive"), "--full measures every cell, and --adaptive is about leaving some out"),
    ],
)
def test_bad_options_are_refused_before_anything_is_measured(tmp_path, capsys, more, text):
    assert main(["sweep", *map(str, arguments(tmp_path, *more))]) == 2
    assert text in capsys.readouterr().err
    assert not (tmp_path / "a.jsonl").exists()
    assert not (tmp_path / "t").exists()


def test_options_come_before_the_plan_and_full_before_both(placed):
    def terms(text, *more):
        asked = sweep_run_command.parser().parse_args(["p.toml", *more])
        return sweep_run_command.terms_of(asked, placed(text))

    own = PLAN + '[adaptive]\nbudget = "30m"\nmargin = "5%"\n'
    assert terms(PLAN) is None
    assert terms(PLAN, "--adaptive") == Terms()
    assert terms(PLAN, "--budget", "1h") == Terms(budget_s=3600.0)
    assert terms(own) == Terms(margin=0.05, budget_s=1800.0)
    assert terms(own, "--confidence=0.99") == Terms(0.99, 0.05, 2, 1800.0)
    assert terms(own, "--full") is None
    assert terms(own, "--shard=1/2") is None


def test_a_plan_says_on_which_terms(placed):
    text = PLAN + '[adaptive]\nbudget = "30m"\nconfidence = "90"\nmargin = "5%"\nfirst = 3\n'
    assert placed(text).plan.adaptive == Terms(0.9, 0.05, 3, 1800.0)
    assert placed(PLAN + "[adaptive]\n").plan.adaptive == Terms()
    assert placed(PLAN).plan.adaptive is None


@pytest.mark.parametrize(
    ("line", "text"),
    [
        ("first = 1", "p.toml:15: first 1 must be a number of windows, 2 to 1000"),
        ("first = true", "p.toml:15: first True must be a number of windows"),
        ("budget = 3600", "p.toml:15: budget 3600 must be a text like '1h'"),
        ('budget = "0s"', "p.toml:15: budget '0s' must be above zero"),
        ('confidence = "100%"', "p.toml:15: confidence '100%' must be above 0% and below 100%"),
        ('margin = "-1%"', "p.toml:15: margin '-1%' is not a percentage"),
        ("speed = 3", "p.toml:15"),
    ],
)
def test_wrong_terms_are_errors_with_their_line(placed, line, text):
    with pytest.raises(ConfigError) as error:
        placed(f"{PLAN}[adaptive]\n{line}\n")
    assert text in str(error.value)


def test_what_would_pass_the_budget_by_far_is_broken_off_and_told(sweep_run, monkeypatch):
    """A real clock and a real alarm: the session of the fake machine stalls as a hung device does."""
    stalled = []

    def stall(self, subject, progress, measure=FakeMachine.measure):
        if len(self.log) == 5:
            stalled.append(time.monotonic())
            time.sleep(60)
        return measure(self, subject, progress)

    monkeypatch.setattr(FakeMachine, "measure", stall)
    monkeypatch.setattr(FakeMachine, "clock", lambda _self: time.monotonic())
    began = time.monotonic()
    told = sweep_run(budget=4.0)
    assert stalled
    assert time.monotonic() - began < 30, "not the sixty seconds of the stall"
    assert told.reason == "stopped"
    assert any(text.startswith("broken off at the end of the budget, and lost: sweep|") for text in told.said)
    assert [line.kind for line in journal.scan(sweep_run.path)].count("cell") == 5
    assert signal.getsignal(signal.SIGALRM) == signal.SIG_DFL


def test_a_cell_that_takes_far_longer_than_foretold_is_left_out_and_the_rest_goes_on(sweep_run, monkeypatch):
    """A real alarm, which rings early here; the fake machine's session stalls in one cell as a starved poller does."""
    monkeypatch.setattr("pytest_gpuio.sweep.adaptive_run._PATIENCE", (0.0, 0.3, 0.0))

    def stall(self, subject, progress, measure=FakeMachine.measure):
        if subject.cell.datapath == "libaio" and (subject.cell.bs, subject.cell.qd) == (4096, 4):
            time.sleep(60)
        return measure(self, subject, progress)

    monkeypatch.setattr(FakeMachine, "measure", stall)
    told = sweep_run()
    assert told.reason == "complete"
    assert (told.tally.measured, told.tally.left) == (38, 0)
    assert sum("far longer than was foretold: sweep|datapath=libaio" in text for text in told.said) == 2
    assert len([why for why in told.runner.adaptive.out.values() if "far longer than was foretold" in why]) == 2
