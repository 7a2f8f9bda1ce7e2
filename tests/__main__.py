"""``python tests [PYTEST OPTIONS]``: the test suite in two parts, what measures nothing on all processors at once.

What measures comes after it, one test after another with the machine to itself: a figure taken beside other tests would
be theirs, too. Options are pytest's own and go to both parts, one of which may find nothing to do (a file's name, -k).
"""

import collections
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from xml.etree import ElementTree

_NOTHING_TO_DO = 5


def main(options: list[str]) -> int:
    """Runs both parts; returns 0, or the worse of their exit statuses."""
    processors = min(len(os.sched_getaffinity(0)), 8)
    # Beside pytest-xdist pytest-benchmark warns unless it is told to stand aside.
    side_by_side = ["-n", str(processors), "--dist=worksteal", "--benchmark-disable"] if processors > 1 else []
    statuses, reports = [], []
    with tempfile.TemporaryDirectory(prefix="gpuio-tests-") as folder:
        for part, more in (("quiet", side_by_side), ("measuring", [])):
            reports.append(Path(folder, f"{part}.xml"))
            words = [f"--part={part}", f"--junitxml={reports[-1]}", *more, *options]
            print(f"==== tests: the {part} part", flush=True)
            told = subprocess.run([sys.executable, "-P", "-m", "pytest", *words], check=False)
            statuses.append(told.returncode)
            if told.returncode not in (0, 1, _NOTHING_TO_DO):
                return told.returncode
        print(summary([report for report in reports if report.exists()]), flush=True)
    if set(statuses) == {_NOTHING_TO_DO}:
        return _NOTHING_TO_DO
    return max(status % _NOTHING_TO_DO for status in statuses)


def summary(reports: list[Path]) -> str:
    """What ran, what did not and why, of JUnit reports."""
    counts: collections.Counter[str] = collections.Counter()
    reasons: collections.Counter[str] = collections.Counter()
    failed: list[str] = []
    seconds = 0.0
    for suite in (suite for report in reports for suite in ElementTree.parse(report).iter("testsuite")):
        counts.update({name: int(suite.get(name, 0)) for name in ("tests", "failures", "errors", "skipped")})
        seconds += float(suite.get("time", 0))
        for case in suite.iter("testcase"):
            if case.find("failure") is not None or case.find("error") is not None:
                failed.append(f"failed: {case.get('classname')}::{case.get('name')}")
        reasons.update(" ".join(skip.get("message", "").split()) for skip in suite.iter("skipped"))
    passed = counts["tests"] - counts["failures"] - counts["errors"] - counts["skipped"]
    words = f"{passed} passed, {counts['failures']} failed, {counts['errors']} errors, {counts['skipped']} skipped"
    lines = [f"==== tests: {words} in {seconds:.0f} s, both parts"]
    lines += [f"skipped [{count}]: {reason}" for reason, count in sorted(reasons.items())]
    return "\n".join([*lines, *failed])


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
