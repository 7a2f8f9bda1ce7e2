"""The gate's table, Markdown, JUnit XML and JSON."""

import json
import random
import xml.etree.ElementTree as ET

import pytest

from pytest_gpuio.analysis.gate import judge
from pytest_gpuio.analysis.policy import Policy
from pytest_gpuio.report.gate import gate_data, gate_junit, gate_markdown, gate_text
from pytest_gpuio.results.strict_json import dumps


@pytest.fixture
def report(record, run):
    draw = random.Random(1)

    def runs(count, factor):
        return [
            run(record(1 + draw.gauss(0, 0.002)), record(factor * (1 + draw.gauss(0, 0.002)), case="slow|case"))
            for _ in range(count)
        ]

    old = runs(12, 1.0)
    return judge([*old, run(record(case="gone"))], [*runs(6, 1.1), run(record(case="fresh"))], Policy())


def test_text(report):
    text = gate_text(report)
    assert "gate FAILED: 1 MISSING, 3 AMBIGUOUS, 1 NEW, 3 SAME" in text
    assert "AMBIGUOUS (SLOWER?)" in text
    assert "-9.1%" in text or "-9.0%" in text or "-9.2%" in text
    assert "to be measured once more (1), then gate again with --confirm FILE...:\n    slow|case" in text
    assert "SAME" not in text.partition("gate FAILED")[0]
    assert "SAME" in gate_text(report, everything=True).partition("gate FAILED")[0]
    assert "\x1b[" not in text
    assert "\x1b[" in gate_text(report, colour=True)
    assert max(map(len, text.splitlines())) <= 120


def test_markdown(report):
    text = gate_markdown(report)
    assert text.startswith("### gpuio gate: FAILED\n")
    rows = [line for line in text.splitlines() if line.startswith("| :")]
    assert len(rows) == 8
    assert all(row.replace("\\|", "").count("|") == 9 for row in rows)
    assert "<summary>4 unchanged or new</summary>" in text


def test_junit(report):
    suite = ET.fromstring(gate_junit(report))
    assert (suite.get("tests"), suite.get("failures"), suite.get("skipped")) == ("8", "1", "3")
    # What junit-10.xsd of Jenkins' xunit plug-in, which pytest checks its own files with, requires and allows.
    assert set(suite.attrib) == {"name", "tests", "failures", "errors", "skipped"}
    for case in suite:
        assert (case.tag, set(case.attrib)) == ("testcase", {"classname", "name"})
        (child,) = case
        assert child.tag in ("failure", "skipped", "system-out")
        assert set(child.attrib) <= {"type", "message"}
    (failure,) = suite.findall("testcase/failure")
    assert failure.get("type") == "MISSING"


def test_a_strict_gate_fails_for_what_is_undecided_in_every_output(report):
    from dataclasses import replace

    passing = replace(report, findings=tuple(f for f in report.findings if f.verdict in ("AMBIGUOUS", "SAME")))
    assert "gate not decided" in gate_text(passing)
    strict = replace(passing, strict=True)
    assert "gate FAILED: 3 AMBIGUOUS, 3 SAME" in gate_text(strict)
    assert gate_markdown(strict).startswith("### gpuio gate: FAILED\n")
    suite = ET.fromstring(gate_junit(strict))
    assert (suite.get("failures"), suite.get("skipped"), len(suite.findall("testcase/failure"))) == ("3", "0", 3)
    assert gate_data(strict)["status"] == 1


def test_data_is_strict_json(report):
    data = json.loads(dumps(gate_data(report)))
    assert (data["status"], data["counts"]["SAME"], data["reruns"]) == (1, 3, ["slow|case"])
    decided = [found["decision"] for found in data["findings"] if found["decision"]]
    assert decided[0]["sessions"] == [12, 6]
