"""The runner's own decisions. Sessions are fakes here: they tell what a real one would, and measure nothing."""

import contextlib
import signal

import pytest

from pytest_gpuio.core.errors import CapabilityMissing, ChildDied, ConfigError, TargetError
from pytest_gpuio.measure.session import VoidCell
from pytest_gpuio.media import Medium
from pytest_gpuio.results import journal
from pytest_gpuio.sweep import run as runner_module
from pytest_gpuio.sweep.journal import SweepJournal
from pytest_gpuio.sweep.run import Runner
from pytest_gpuio.sweep.stop import Stop

AXES = '[axes]\ndatapath = "psync"\nworkload = "micro/randread"\nbs = "4k..16k+4k"\n'


class FakeSession:
    """Answers from a table: by block size, one answer after the other; the last one stays."""

    def __init__(self, answers, record, missing=None, log=None):
        self._answers, self._record, self._missing = answers, record, missing or {}
        self.log = log if log is not None else []
        self.bad_ends = ["measuring child 'posix' crashed at its end."]

    def missing(self, cell, _path):
        found = self._missing.get(cell.bs)
        if isinstance(found, Exception):
            raise found
        return found

    def measure(self, subject, _progress):
        cell = subject.cell
        self.log.append((cell.suite, cell.workload, cell.bs))
        answers = self._answers.get(cell.bs, [])
        answer = answers.pop(0) if len(answers) > 1 else answers[0] if answers else None
        if answer is not None:
            raise answer
        return self._record(case=cell.case, axes=dict(cell.axes()))

    def close(self):
        pass

    def __enter__(self):
        return self

    def __exit__(self, *_):
        pass


class Told:
    """Progress that remembers."""

    def __init__(self):
        self.said, self.fates, self.ends = [], [], []

    def begin(self, name, tally): ...

    def measuring(self, step, tally): ...

    def finished(self, step, fate, _text, _record, _tally):
        self.fates.append((step.kind, fate, step.planned.cell.bs))

    def say(self, text):
        self.said.append(text)

    def end(self, reason, tally):
        self.ends.append((reason, tally.measured, tally.voids, tally.failures, tally.skipped))


@pytest.fixture
def sweep_run(placed, record, tmp_path, monkeypatch):
    """Function: runs a plan with a fake session on a journal that stays from call to call."""
    monkeypatch.setattr(runner_module, "HostLock", lambda _timeout: contextlib.nullcontext())

    def go(text=AXES, answers=None, missing=None, targets=None, stop=None, log=None):
        sweep = placed(text, targets)
        told = Told()
        media = {name: Medium("virtual", ()) for name in sweep.targets}
        with SweepJournal(tmp_path / "j.jsonl") as out, stop or Stop(told.say) as stopping:
            runner = Runner(sweep, media, out, told, stopping)
            made = []

            def session(effort, environment):
                made.append((environment.name, effort.max_time))
                return FakeSession(answers or {}, record, missing, log)

            runner._new_session = session
            told.reason = runner.run()
            told.made = made
        return told

    go.path = tmp_path / "j.jsonl"
    return go


def kinds(path):
    return [line.kind for line in journal.scan(path)]


def void():
    return VoidCell("littles_law", "impossible", ["littles_law failed: impossible"])


def test_a_void_cell_is_tried_again_at_the_end(sweep_run):
    told = sweep_run(answers={8192: [void(), None]})
    assert told.reason == "complete"
    assert sorted(told.fates[:4]) == sorted(
        [("cell", "cell", 4096), ("cell", "void", 8192), ("cell", "cell", 12288), ("cell", "cell", 16384)]
    )
    assert told.fates[4:] == [("cell", "cell", 8192)]
    assert told.ends == [("complete", 4, 0, 0, 0)]
    assert "measuring child 'posix' crashed at its end." in told.said


def test_retries_end_and_count_over_runs(sweep_run):
    told = sweep_run(answers={8192: [void()], 4096: [ChildDied("it died")]})
    assert told.ends == [("complete", 2, 1, 1, 0)]
    assert kinds(sweep_run.path).count("void") == kinds(sweep_run.path).count("failure") == 2
    # Nothing of it is tried again by a later run ...
    again = sweep_run(answers={})
    assert again.fates == []
    assert again.ends == [("complete", 2, 1, 1, 0)]
    # ... unless the plan allows more.
    more = sweep_run(AXES + "[retry]\nvoid = 3\n")
    assert more.fates == [("cell", "cell", 8192)]
    assert more.ends == [("complete", 3, 0, 1, 0)]


def test_no_retries_when_the_plan_has_none(sweep_run):
    told = sweep_run(AXES + "[retry]\nvoid = 0\nfailure = 0\n", answers={8192: [void()]})
    assert len(told.fates) == 4
    assert told.ends == [("complete", 3, 1, 0, 0)]


@pytest.mark.parametrize("error", [CapabilityMissing("not here"), ConfigError("block below alignment")])
def test_what_cannot_be_measured_here_is_skipped_and_looked_at_again_by_the_next_run(sweep_run, error):
    told = sweep_run(answers={4096: [error]}, missing={8192: "needs cuda: no driver"})
    assert told.ends == [("complete", 2, 0, 0, 2)]
    again = sweep_run(missing={8192: "needs cuda: no driver"})
    assert again.fates.count(("cell", "cell", 4096)) == 1
    assert kinds(sweep_run.path).count("skip") == 2, "an old reason is not told twice"


def test_a_probe_that_breaks_fails_its_cell_and_no_other(sweep_run):
    told = sweep_run(missing={8192: ChildDied("the probe died")})
    assert told.ends == [("complete", 3, 0, 1, 0)]


def test_a_target_that_is_gone_is_left_alone_and_its_cells_stay_to_be_done(sweep_run):
    text = AXES.replace("4k..16k+4k", "4k..40k+4k") + "[retry]\nfailure = 5\n"
    told = sweep_run(text, answers={4096 * n: [TargetError("gone")] for n in range(1, 11)})
    assert told.reason == "complete"
    assert len(told.fates) == 3
    assert "target default is left alone for the rest of this run: gone" in told.said
    assert sweep_run(text).ends[0][:2] == ("complete", 10)


def test_targets_without_a_path_are_skipped(sweep_run):
    text = AXES + 'target = ["fast", "slow"]'
    told = sweep_run(text, targets={"fast": "virtual"})
    assert told.ends == [("complete", 4, 0, 0, 4)]


def test_a_plan_without_cells_is_refused(sweep_run):
    with pytest.raises(ConfigError, match="has no cell here"):
        sweep_run(AXES + "[limits]\nin_flight_bytes = 512\n")


def test_stopping_is_between_cells(sweep_run):
    class AfterTwo:
        count = 0

        @property
        def asked(self):
            self.count += 1
            return self.count > 2

        def __enter__(self):
            return self

        def __exit__(self, *_): ...

    told = sweep_run(stop=AfterTwo())
    assert (told.reason, len(told.fates)) == ("stopped", 2)
    assert kinds(sweep_run.path)[-1] == "end"
    assert sweep_run().ends == [("complete", 4, 0, 0, 0)]


def test_baselines_and_preconditions_are_recorded_beside_the_cells(sweep_run):
    text = AXES.replace('"micro/randread"', '["micro/randread", "micro/randwrite"]')
    log = []
    told = sweep_run(text + '[baseline]\nevery = 4\n[precondition]\ntime = "9s"\n', log=log)
    assert kinds(sweep_run.path) == [
        "start", "baseline", "cell", "cell", "cell", "cell", "baseline", "precondition", "cell", "cell", "cell", "cell",
        "baseline", "end",
    ]  # fmt: skip
    assert ("sweep.precondition", "micro/seqwrite", 1 << 20) in log
    assert told.made == [("default", 1.0), ("default", 9.0)]


def test_environments_have_sessions_of_their_own_and_their_command_is_run_before(sweep_run, tmp_path):
    text = (
        AXES
        + f"""environment = ["default", "few"]
[environments.few]
variables = {{A = "b"}}
before = "echo $A >> {tmp_path}/ran"
"""
    )
    told = sweep_run(text)
    assert sorted(told.made) == [("default", 1.0), ("few", 1.0)]
    assert (tmp_path / "ran").read_text() == "b\n", "its cells stand together in a block"
    assert told.ends[0][1] == 8
    with pytest.raises(ConfigError, match=r"environment few: 'exit 3' ended with status 3"):
        sweep_run(text.replace(f"echo $A >> {tmp_path}/ran", "exit 3").replace("16k", "20k"))


def test_a_hot_target_rests_until_it_is_cool(sweep_run, monkeypatch):
    readings = iter([50.0, 71.0, 65.0, 60.0, 59.0] + [40.0] * 20)
    monkeypatch.setattr(runner_module, "temperatures", lambda _names: ({"nvme0n1": next(readings)}, ()))
    monkeypatch.setattr(runner_module.time, "sleep", lambda _seconds: None)
    told = sweep_run(AXES + "[cool_down]\nabove = 70\nbelow = 60\n")
    rest = [line.body() for line in journal.scan(sweep_run.path) if line.kind == "rest"]
    assert [(one["target"], one["before"], one["after"]) for one in rest] == [("default", 71.0, 60.0)]
    assert any("is at 71 degrees C and rests until it is at 60" in text for text in told.said)


def test_the_first_signal_asks_and_the_second_breaks_off():
    said = []
    before = signal.getsignal(signal.SIGUSR1)
    with Stop(said.append) as stop:
        assert not stop.asked
        signal.raise_signal(signal.SIGUSR1)
        assert stop.asked
        with pytest.raises(KeyboardInterrupt):
            signal.raise_signal(signal.SIGTERM)
    assert signal.getsignal(signal.SIGUSR1) == before
    assert said == ["SIGUSR1: stopping when the running cell is done; once more stops now and loses that cell"]
