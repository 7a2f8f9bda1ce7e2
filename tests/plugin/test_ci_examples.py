"""The shell steps of the documented CI examples, run for real with the null path; only the service has a stand-in."""

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

yaml = pytest.importorskip("yaml", reason="needs PyYAML to read the examples")
pytest.importorskip("vl_convert", reason="needs vl-convert: the examples make the page")

PAGE = (Path(__file__).parents[2] / "docs/ci.md").read_text(encoding="utf-8")
(SCRIPT,) = re.findall(r"^```sh\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)
GITHUB, GITLAB = [yaml.safe_load(text) for text in re.findall(r"^```yaml\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)]
(JENKINS,) = re.findall(r"^```groovy\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)
SUITE = """
import pytest


@pytest.mark.workload("micro/randread")
@pytest.mark.gpuio_gate(metric="bytes_per_s")
def test_null(gpuio):
    gpuio.run()
"""


SUITES = "bench --gpuio-datapath=null --gpuio-bs=4k --gpuio-qd=32 --gpuio-max-time=0.1 --gpuio-size=32M"
#: Short windows, and without what takes longer to load than a run takes.
ADDOPTS = "--gpuio-window=30ms -p no:codspeed -p no:hypothesispytest -p no:xdist -p no:cacheprovider"


@pytest.fixture(scope="module")
def baseline(tmp_path_factory):
    """The text of a run of the suite that the jobs run."""
    folder = tmp_path_factory.mktemp("baseline")
    (folder / "bench").mkdir()
    (folder / "bench/test_null.py").write_text(SUITE)
    command = [sys.executable, "-P", "-m", "pytest", *SUITES.split(), "--benchmark-json=run.json"]
    environment = {**os.environ, "PYTEST_ADDOPTS": ADDOPTS}
    subprocess.run(command, cwd=folder, env=environment, check=True, capture_output=True, timeout=200)
    return (folder / "run.json").read_text()


@pytest.fixture
def job(tmp_path):
    """Function: runs steps in a checkout on the runner; exit statuses, and what was said."""
    (tmp_path / "ci").mkdir()
    (tmp_path / "ci/gate.sh").write_text(SCRIPT)
    (tmp_path / "bench").mkdir()
    (tmp_path / "bench/test_null.py").write_text(SUITE)
    bin_folder = tmp_path / ".venv/bin"
    bin_folder.mkdir(parents=True)
    for name, module in (("pytest", "pytest"), ("gpuio", "pytest_gpuio.cli")):
        (bin_folder / name).write_text(f'#!/bin/sh\nexec {sys.executable} -P -m {module} "$@"\n')
    service = tmp_path / "service"
    service.mkdir()
    for name in ("gh", "curl"):
        # What would go to the service: its arguments, and the file they name.
        (service / name).write_text(
            f'#!/bin/sh\necho "{name} $*" >> "{service}/told"\ncat gate-out/gate.md >/dev/null\n'
        )
    for program in (*bin_folder.iterdir(), service / "gh", service / "curl"):
        program.chmod(0o755)
    environment = {
        "PATH": f"{service}:{os.environ['PATH']}", "STORE": str(tmp_path / "store"), "BASELINE": "1", "NEW": "1",
        "SUITES": SUITES, "PYTEST_ADDOPTS": ADDOPTS,
        "GITHUB_STEP_SUMMARY": str(service / "summary"), "PR": "7", "CI_API_V4_URL": "https://gitlab.example/api/v4",
        "CI_PROJECT_ID": "3", "CI_MERGE_REQUEST_IID": "5", "GPUIO_TOKEN": "secret",
    }  # fmt: skip

    def run(steps, **more):
        statuses, said = [], ""
        for step in steps:
            if "pip install" in step:
                continue  # this interpreter stands for what it installs
            # As services do: the shell stops at the first error.
            done = subprocess.run(
                ["sh", "-e", "-c", step], cwd=tmp_path, env={**os.environ, **environment, **more}, timeout=300,
                capture_output=True, text=True, check=False,
            )  # fmt: skip
            statuses.append(done.returncode)
            said += done.stdout + done.stderr
        assert "Traceback" not in said, said
        return statuses, said

    return run


def github_steps():
    (job,) = GITHUB["jobs"].values()
    return [step["run"] for step in job["steps"] if "run" in step]


def jenkins_steps():
    return [text for _, text in re.findall(r"sh (['\"])(.*)\1", JENKINS)]


STEPS = {
    "github": github_steps(),
    "gitlab": [*GITLAB["storage"]["script"], *GITLAB["storage"]["after_script"]],
    "jenkins": jenkins_steps(),
}


def test_the_examples_hold_what_is_run_here():
    assert [len(steps) for steps in STEPS.values()] == [4, 3, 2]
    assert all(sum("sh ci/gate.sh" in step for step in steps) == 1 for steps in STEPS.values())
    assert all("pip install 'pytest-gpuio[report]'" in steps[0] for steps in STEPS.values())


def test_the_first_run_is_stored_and_the_second_is_judged(job, tmp_path):
    statuses, said = job(STEPS["github"])
    assert set(statuses) == {0}, said
    assert "first run: stored as the baseline" in said
    assert [path.name for path in (tmp_path / "store").iterdir()] == ["first1.json"]
    statuses, said = job(STEPS["github"])
    assert set(statuses) == {0}, said
    out = tmp_path / "gate-out"
    assert {path.name for path in out.iterdir()} == {
        "new1.json", "gate.json", "gate.xml", "gate.md", "reruns.txt", "page.html",
    }  # fmt: skip
    # One run on each side decides nothing, and fails nobody.
    assert (out / "gate.md").read_text().startswith("### gpuio gate: passed\n\n1 baseline and 1 new run;")
    assert len(list((tmp_path / "store").iterdir())) == 2
    assert "### gpuio gate: passed" in (tmp_path / "service/summary").read_text()
    told = (tmp_path / "service/told").read_text().splitlines()
    assert told == ["gh pr comment 7 --body-file gate-out/gate.md"] * 2


def test_hardware_that_changed_fails_with_a_status_of_its_own(job, tmp_path, baseline):
    content = json.loads(baseline)
    content["gpuio"]["machine"]["id"] = "0" * 16
    (tmp_path / "store").mkdir()
    (tmp_path / "store/old.json").write_text(json.dumps(content))
    statuses, said = job(STEPS["gitlab"])
    assert statuses == [4, 0], said
    assert "machine differs: 0000000000000000 before" in (tmp_path / "gate-out/gate.md").read_text()
    told = (tmp_path / "service/told").read_text()
    assert "body@gate-out/gate.md https://gitlab.example/api/v4/projects/3/merge_requests/5/notes" in told


def test_what_looks_slower_is_measured_again_and_fails_the_job(job, tmp_path, baseline):
    store = tmp_path / "store"
    store.mkdir()
    # What was there before took a tenth of the time: this run is really slower.
    for number in range(12):
        changed = json.loads(baseline)
        (bench,) = changed["benchmarks"]
        windows = bench["extra_info"]["gpuio"]["windows"]
        windows["seconds"] = [0.1 * seconds * (1 + number / 1000) for seconds in windows["seconds"]]
        (store / f"old{number:02}.json").write_text(json.dumps(changed))
    statuses, said = job(STEPS["jenkins"], NEW="3", AGAIN="3", GATE="--min-effect 5%")
    assert statuses == [1], said
    out = tmp_path / "gate-out"
    assert {f"again{number}.json" for number in (1, 2, 3)} < {path.name for path in out.iterdir()}
    assert json.loads((out / "gate.json").read_text())["counts"] == {"SLOWER": 1}
    assert (out / "gate.md").read_text().count("### gpuio gate") == 1
    assert '<failure type="SLOWER"' in (out / "gate.xml").read_text()
    assert len(list(store.iterdir())) == 12  # a failed run is no baseline
