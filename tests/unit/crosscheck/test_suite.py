"""The suite: choosing lines, lines that cannot be had, Ctrl-C, and the table; made-up experiments are named so."""

from pathlib import Path

import pytest

from pytest_gpuio.core.errors import CapabilityMissing, ChildDied, ConfigError
from pytest_gpuio.crosscheck import cost, suite
from pytest_gpuio.crosscheck.claims import Claim, Experiment
from pytest_gpuio.crosscheck.lab import Settings
from pytest_gpuio.crosscheck.verdict import Spread, Target
from pytest_gpuio.report.crosscheck import suite_text
from pytest_gpuio.results import strict_json

FAST = Claim("fake-fast", "a made-up figure", "ms", Target("<=", 10.0))
RATIO = Claim("fake-ratio", "a made-up ratio", "x fio", Target(">=", 1.5))
SHOWN = Claim("fake-shown", "a figure without a target", "%", None)


def reached(lab):
    return [FAST.of_figures(Spread.of([3.0, 4.0, 5.0]), "three cells"), SHOWN.of_figures(Spread.of([1.0]))]


def settings(tmp_path, **changes):
    return Settings(folder=tmp_path, **changes)


def names(found):
    return [row.claim.name for row in found.rows]


def test_lines_say_figure_target_and_verdict(tmp_path, said):
    found = suite.run(settings(tmp_path), said, [Experiment((FAST, SHOWN), reached)])
    assert [(row.figure, row.low, row.high, row.verdict) for row in found.rows] == [
        (4.0, 3.0, 5.0, "reached"),
        (1.0, 1.0, 1.0, "reported only"),
    ]
    text = suite_text({**found.to_json()})
    head, rule, first, second = text.splitlines()[:4]
    assert head.split() == ["line", "figure", "spread", "target", "verdict"]
    assert set(rule) <= {"-", " "}
    assert first.split() == ["a", "made-up", "figure", "4", "ms", "3", "..", "5", "<=", "10", "reached"]
    assert second.endswith("reported only")
    assert "a made-up figure: three cells" in text
    assert strict_json.loads(strict_json.dumps(found.to_json()), source="x")["rows"][0]["target"] == "<= 10"


def test_only_names_lines(tmp_path, said):
    ran = []

    def other(lab):
        ran.append("other")
        return [RATIO.of_ratio(None, None)]

    experiments = [Experiment((FAST, SHOWN), reached), Experiment((RATIO,), other)]
    assert names(suite.run(settings(tmp_path, only="fake-s*"), said, experiments)) == ["fake-shown"]
    assert ran == []
    with pytest.raises(ConfigError, match="'nothing' names no line"):
        suite.run(settings(tmp_path, only="nothing"), said, experiments)


def test_what_this_machine_cannot_have_is_a_line_with_the_reason(tmp_path, said):
    def missing(lab):
        raise CapabilityMissing("needs root, to make a zram device.")

    def broken(lab):
        raise ChildDied("the child was killed.")

    found = suite.run(
        settings(tmp_path),
        said,
        [
            Experiment((RATIO,), missing),
            Experiment((SHOWN,), broken),
            Experiment((FAST,), lambda lab: reached(lab)[:1]),
        ],
    )
    assert [(row.verdict, row.reason) for row in found.rows] == [
        ("not measurable here", "needs root, to make a zram device."),
        ("not decided", "the child was killed."),
        ("reached", "three cells"),
    ]


def test_ctrl_c_shows_what_is_done(tmp_path, said):
    def interrupted(lab):
        raise KeyboardInterrupt

    def cut_short(lab):
        lab.interrupted = True
        return [RATIO.of_ratio(Spread(2.0, 2.0, 2.0, 3), (0.9, 1.1))]

    for last in (interrupted, cut_short):
        found = suite.run(
            settings(tmp_path), said, [Experiment((FAST,), lambda lab: reached(lab)[:1]), Experiment((RATIO,), last),
                                       Experiment((SHOWN,), reached)],
        )  # fmt: skip
        assert found.interrupted
        assert names(found) == (["fake-fast"] if last is interrupted else ["fake-fast", "fake-ratio"])
        assert "Interrupted" in suite_text(found.to_json())
    assert found.rows[-1].verdict == "not decided"  # three pairs only


def test_a_claim_that_compares_with_nothing_has_no_ratio():
    with pytest.raises(ValueError, match="compares with nothing"):
        SHOWN.of_ratio(Spread.of([1.0]), (1.0, 1.0))


def test_every_line_of_the_issue_is_claimed_once():
    claims = suite.claims()
    assert len({claim.name for claim in claims}) == len(claims)
    targets = {claim.name: str(claim.target) for claim in claims}
    expected = {
        "null-qd32": ">= 4", "null-qd1": ">= 2", "psync-zram": ">= 1.08", "psync-tmpfs": ">= 1.08",
        "libaio-zram-b1": ">= 1.3", "libaio-zram-b32": ">= 1.05", "io_uring-cached-b1": ">= 1.2",
        "io_uring-cached-b32": ">= 1.2", "libaio-loop-cpu": "<= 0.85", "io_uring-loop-cpu": "<= 0.95",
        "psync-zram-cpu": "<= 0.93", "bare-cached-b1": ">= 0.97", "bare-cached-b32": ">= 0.97",
        "bare-nop-merged": ">= 0.93", "bare-nop-split": ">= 0.9", "disk-1m": ">= 1.5", "cpu-sqpoll": "<= 2",
        "cpu-libaio": "<= 3", "cpu-io_uring": "<= 3", "cpu-disk": "<= 6", "cell-null": "<= 10", "cell-32x1m": "<= 25",
        "cell-start": "<= 250", "collect-time": "<= 5", "collect-memory": "<= 300", "session-memory": "<= 400",
        "session-end": "<= 15", "open-waiting": "<= 0.1", "open-waiting-lag": "<= 100", "open-spinning": "<= 0.1",
        "open-spinning-lag": "<= 30", "sweep-rate": ">= 3", "sweep-share": ">= 0.95", "sweep-memory": "<= 300",
        "trace-expand": "<= 1", "trace-start": ">= 99",
        "sweep-resume": "<= 5", "sweep-export": "<= 15", "sweep-export-memory": "<= 100",
    }  # fmt: skip
    assert {name: targets.get(name) for name in expected} == expected


def test_what_was_missed_among_strangers_is_not_decided():
    missed = FAST.of_figures(Spread.of([99.0]), "one cell")
    assert missed.verdict == "missed"
    excused = missed.excused("strangers used 50% of the CPUs")
    assert (excused.verdict, excused.reason) == ("not decided", "strangers used 50% of the CPUs; one cell")
    assert missed.excused(None) == missed
    good = FAST.of_figures(Spread.of([1.0]))
    assert good.excused("strangers used 50% of the CPUs") == good  # it was reached in spite of them
    ratio = RATIO.of_ratio(Spread(1.2, 1.2, 1.2, 7), (0.99, 1.01))
    assert ratio.excused("strangers used 50% of the CPUs").verdict == "missed"  # its own runs were quiet


def test_long_lines_are_left_out_unless_asked_for(tmp_path, said):
    found = suite.run(settings(tmp_path, only="session-*"), said)
    assert {row.verdict for row in found.rows} == {"not measurable here"}
    assert all("--full" in row.reason for row in found.rows)


def test_no_fio_is_a_reason_not_an_error(tmp_path, said, monkeypatch):
    monkeypatch.setenv("PATH", str(tmp_path))
    found = suite.run(settings(tmp_path, only="null-qd1"), said)
    assert [(row.verdict, "fio is not on PATH" in row.reason) for row in found.rows] == [("not measurable here", True)]
    assert "one CPU, without fio; files in" in found.conditions


def test_a_real_line_against_fio(tmp_path, said, real_fio):
    found = suite.run(settings(tmp_path, only="null-qd1", pairs=1, seconds=0.4), said)
    (row,) = found.rows
    assert row.figure > 0
    assert row.verdict == "not decided"
    assert row.reason.startswith("1 pairs, needs 7")
    assert row.details["figures"]["iops"]["ours"]["median"] > 1000


def test_a_real_line_about_a_child(tmp_path, said, monkeypatch):
    monkeypatch.setattr(cost, "_STARTS", 2)
    found = suite.run(settings(tmp_path, only="cell-start"), said)
    (row,) = found.rows
    assert 0 < row.figure < 60_000
    assert len(row.details["milliseconds"]) == 2


def test_the_disk_of_a_folder_in_memory_is_not_measured(said):
    if not Path("/dev/shm").is_dir():
        pytest.skip("needs /dev/shm")
    found = suite.run(Settings(folder=Path("/dev/shm"), only="cell-psync"), said)
    assert [row.verdict for row in found.rows] == ["not measurable here"]
    assert "lies on no block device (ram)" in found.rows[0].reason
    assert not Path("/dev/shm/gpuio-read.dat").exists()
