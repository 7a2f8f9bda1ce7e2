"""From runs to findings."""

import random
from dataclasses import replace

import pytest

from pytest_gpuio.analysis.gate import alternate, judge
from pytest_gpuio.analysis.policy import Policy, Rule
from pytest_gpuio.core.errors import ConfigError


@pytest.fixture
def series(record, run):
    """Function: runs of the golden case with 1 % noise around a factor."""
    draw = random.Random(1)

    def make(count, factor=1.0, **changes):
        return [run(record(factor * (1 + draw.gauss(0, 0.01)), **changes)) for _ in range(count)]

    return make


def by_metric(report):
    return {finding.metric: finding for finding in report.findings}


def test_unchanged_passes(series):
    report = judge(series(12), series(6), Policy())
    assert report.mode == "lookback"
    assert {finding.verdict for finding in report.findings} == {"SAME"}
    assert set(by_metric(report)) == {"bytes_per_s", "p99", "cpu_s_per_gb"}
    assert report.status() == replace(report, strict=True).status() == 0


def test_slower_asks_for_a_rerun_then_fails(series):
    old, new = series(12), series(6, 1.1)
    first = judge(old, new, Policy())
    assert first.status() == 3
    assert first.reruns() == (next(iter(old[0].cells)),)
    assert replace(first, strict=True).status() == 1
    second = judge(old, new, Policy(), confirm=series(10, 1.1))
    assert {finding.verdict for finding in second.findings} == {"SLOWER"}
    assert second.status() == 1
    assert second.counts() == {"SLOWER": 3}
    assert by_metric(second)["bytes_per_s"].decision.change == pytest.approx(-0.09, abs=0.02)


def test_faster_passes(series):
    report = judge(series(12), series(6, 0.9), Policy(), confirm=series(10, 0.9))
    assert report.counts() == {"FASTER": 3}
    assert report.status() == 0


def test_pairs_are_recognised_by_their_times(record, run):
    draw = random.Random(2)
    old, new = [], []
    for number in range(6):  # ABBA
        for side in ("AB", "BA")[number % 2]:
            (old if side == "A" else new).append(run(record((1.0 if side == "A" else 1.1) + draw.gauss(0, 0.005))))
    assert alternate(old, new)
    assert not alternate(old[:3] + new[:3], old[3:] + new[3:])
    report = judge(old, new, Policy())
    assert report.mode == "pairs"
    assert report.status() == 3
    with pytest.raises(ConfigError, match="6 baseline and 5 new runs are no pairs"):
        judge(old, new[:5], Policy(), mode="pairs")
    with pytest.raises(ConfigError, match="leave --confirm-baseline out"):
        judge(old, new[:5], Policy(), confirm_baseline=old)


def test_new_and_missing(series, record, run):
    old, new = series(12), series(6)
    extra = record(case="another|case")
    found = judge([*old, run(extra)], new, Policy())
    assert [(f.case, f.verdict) for f in found.findings if f.verdict != "SAME"] == [("another|case", "MISSING")]
    assert found.status() == 1
    found = judge(old, [*new, run(extra)], Policy())
    assert [(f.case, f.verdict) for f in found.findings if f.verdict != "SAME"] == [("another|case", "NEW")]
    assert found.status() == 0


def test_missing_says_why(series, record, run):
    case = record()["case"]
    for more, why in (
        ({"skips": {case: "needs io_uring"}}, "skipped: needs io_uring"),
        ({"failures": {case: "boom"}}, "failed: boom"),
        ({"interrupted": True}, "was interrupted"),
    ):
        (finding,) = judge(series(8), [run(record(case="b"), **more)], Policy()).findings[1:]
        assert finding.verdict == "MISSING"
        assert why in finding.reason


def test_void_fails_even_beside_good_runs(series, record, run):
    case = record()["case"]
    report = judge(series(12), [*series(6), run(voids={case: {"gate": "littles_law", "reason": "7 % off"}})], Policy())
    (finding,) = report.findings
    assert (finding.verdict, report.status()) == ("VOID", 1)
    assert "littles_law: 7 % off" in finding.reason


@pytest.mark.parametrize(
    ("change", "name", "told"),
    [
        ({"effective__datapath": "psync"}, "path", "path differs: io_uring before, psync now"),
        ({"effective__knobs": []}, "knobs", "knobs differs: fixed_buffers before, none now"),
        ({"effective__direct": False}, "direct", "direct differs: O_DIRECT before, buffered now"),
        ({"target__file_system": "xfs"}, "file_system", "file system differs: ext4 before, xfs now"),
        ({"target__devices": [{"name": "x", "model": "P5800X", "firmware": "L1"}]}, "device", "P5800X L1 now"),
    ],
)
def test_incomparable_names_the_difference(series, change, name, told):
    old, new = series(12), series(6, **change)
    report = judge(old, new, Policy())
    (finding,) = report.findings
    assert finding.verdict == "INCOMPARABLE"
    assert told in finding.reason
    assert report.status() == 4
    allowed = judge(old, new, Policy(allow=frozenset({name})))
    assert {finding.verdict for finding in allowed.findings} == {"SAME"}


def test_another_machine_or_kernel(series, record, run):
    for machine in ({"id": "b" * 16, "kernel": "6.1"}, {"id": "a" * 16, "kernel": "6.12"}):
        (finding,) = judge(series(12), [run(record(), machine=machine) for _ in range(3)], Policy()).findings
        assert finding.verdict == "INCOMPARABLE"


def test_a_baseline_of_two_kernels_uses_the_runs_of_this_one(series, record, run):
    older = [run(record(3.0), machine={"id": "a" * 16, "kernel": "5.4"}) for _ in range(8)]
    report = judge([*older, *series(12)], series(6), Policy())
    assert report.counts() == {"SAME": 3}
    assert report.findings[0].decision.sessions == (12, 6)


@pytest.mark.parametrize("value", [None, float("nan"), 0.0, -1.0, "fast"])
def test_a_metric_without_a_number_is_never_a_pass(series, value):
    old, new = series(12), series(6, latency__lat__p99_ns=value)
    report = judge(old, new, Policy())
    assert by_metric(report)["p99"].verdict == "MISSING"
    assert report.status() == 1
    both = judge(new[:1] + series(11, latency__lat__p99_ns=value), series(3, latency__lat__p99_ns=value), Policy())
    assert by_metric(both)["p99"].verdict == "AMBIGUOUS"
    assert by_metric(judge(series(12, latency__lat__p99_ns=value), series(6), Policy()))["p99"].verdict == "NEW"


def test_policy_ignores_and_narrows(series):
    old, new = series(12), series(6, 2.0)
    ignored = judge(old, new, Policy((Rule({"datapath": "io_*"}, ignore=True),)))
    assert not ignored.findings
    assert ignored.ignored == tuple(old[0].cells)
    assert ignored.status() == 0
    narrowed = judge(old, new, Policy((Rule({}, metrics=("p99",), min_effect={"p99": 0.99}),)))
    assert set(by_metric(narrowed)) == {"p99"}
    assert by_metric(narrowed)["p99"].decision.least_effect == 0.99
    unmissed = judge(old, [*series(3, case="b")], Policy((Rule({}, missing=False),)))
    assert "MISSING" not in unmissed.counts()


def test_the_mark_of_a_test_travels_in_its_record(series):
    old = series(12)
    new = series(6, 1.05, gate_policy={"metric": "p99", "min_effect": 0.2})
    report = judge(old, new, Policy())
    assert set(by_metric(report)) == {"p99"}
    assert by_metric(report)["p99"].decision.least_effect == 0.2


def test_nothing_to_compare():
    with pytest.raises(ConfigError, match="at least one baseline run"):
        judge([], [], Policy())
