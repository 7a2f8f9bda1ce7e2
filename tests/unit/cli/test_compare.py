import csv
import json
import os
import re
import subprocess
import sys

import pytest

from pytest_gpuio.cli import main

SUITE = """
import pytest

@pytest.mark.parametrize("datapath", ["psync", "libaio"])
def test_read(benchmark, datapath):
    stamps = iter([stamp for _ in range(3) for stamp in (0.0, {seconds})])
    benchmark._timer = lambda: next(stamps)
    benchmark.extra_info["gpuio"] = {{"axes": {{"medium": "ram", "workload": "micro/randread"}}}}
    benchmark.pedantic(lambda: None, rounds=3)
"""


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    """Two real pytest-benchmark files of one suite: 2 ms and 3 ms; and the folder they lie in."""
    folder = tmp_path_factory.mktemp("runs")
    for name, seconds in (("old", 0.002), ("new", 0.003)):
        (folder / "test_suite.py").write_text(SUITE.format(seconds=seconds))
        subprocess.run(
            [
                *(sys.executable, "-P", "-m", "pytest", "-q", "-p", "no:cacheprovider", "-p", "no:gpuio"),
                *(f"--benchmark-json={name}.json", f"--benchmark-save={name}", "test_suite.py"),
            ],
            cwd=folder,
            env={name: value for name, value in os.environ.items() if not name.startswith("PYTEST_")},
            check=True,
            capture_output=True,
            timeout=120,
        )
    return folder


@pytest.fixture
def compare(capfd, monkeypatch, tmp_path):
    """Runs the command in a folder that has nothing to do with the runs, and checks that nothing is left there."""
    monkeypatch.chdir(tmp_path)

    def run(*arguments, leaves=()):
        status = main(["compare", *map(str, arguments)])
        assert sorted(path.name for path in tmp_path.iterdir()) == sorted(leaves)
        out, err = capfd.readouterr()
        return status, out, err

    return run


def test_between_takes_the_first_file_as_reference(runs, compare):
    status, out, err = compare("--between=mean,ops", runs / "old.json", runs / "new.json")
    assert (status, err) == (0, "")
    assert re.search(r"Name \(time in ms\) +1_old Mean +2_new Mean +ΔMean", out)
    rows = [line.split() for line in out.splitlines() if line.startswith("test_read")]
    assert [row[0] for row in rows] == ["test_read[libaio]", "test_read[psync]"]
    for row in rows:
        assert row[1:4] == ["2.0000", "3.0000", "+50.0%"]
        assert row[4:] == ["500.0000", "333.3333", "-33.3%"]


def test_the_other_order_turns_the_signs(runs, compare):
    _, out, _ = compare("--between=mean", runs / "new.json", runs / "old.json")
    assert "-33.3%" in out
    assert re.search(r" new Mean +old Mean", out)  # sorted already: no numbers needed


def test_options_may_stand_anywhere(runs, compare):
    status, out, _ = compare(runs / "new.json", "--columns", "mean", runs / "old.json", "--time-unit=us", "-k", "psync")
    assert status == 0
    assert [line.split()[:2] for line in out.splitlines() if line.startswith("test_")] == [
        ["test_read[psync]", "(old)"],
        ["test_read[psync]", "(new)"],
    ]
    assert "2,000.0000" in out


def test_grouping_by_medium_and_workload(runs, compare):
    _, out, _ = compare("--group-by=gpuio", runs / "old.json")
    assert " benchmark 'ram/micro/randread': 2 tests " in out
    _, out, _ = compare("--group-by=gpuio,param:absent", runs / "old.json")
    assert " benchmark 'ram/micro/randread absent=-': 2 tests " in out


def test_files_of_one_name_in_two_folders(runs, compare, tmp_path_factory):
    folder = tmp_path_factory.mktemp("named")
    paths = []
    for name in ("before", "after"):
        (folder / name).mkdir()
        (folder / name / "out.json").write_bytes((runs / ("old.json" if name == "before" else "new.json")).read_bytes())
        paths.append(folder / name / "out.json")
    _, out, _ = compare("--between=mean", *paths)
    assert re.search(r"1_before_out Mean +2_after_out Mean", out)
    assert "+50.0%" in out


def test_saved_runs_by_number(runs, compare, monkeypatch):
    storage = f"--storage=file://{runs}/.benchmarks"
    status, out, _ = compare("--between=mean", storage, "0001", "0002")
    assert status == 0
    assert "+50.0%" in out
    assert compare("--between=mean", storage)[1] == out
    assert compare("--between=mean", "-s", runs / ".benchmarks", "*/0001_old", "*/0002_new")[1] == out
    monkeypatch.chdir(runs)
    assert main(["compare", "--between=mean", "0001", "0002"]) == 0


def test_a_csv_lands_where_the_user_is(runs, compare, tmp_path):
    status, _, _ = compare("--csv=out.csv", "--columns=mean", runs / "old.json", leaves=["out.csv"])
    assert status == 0
    rows = list(csv.DictReader((tmp_path / "out.csv").read_text().splitlines()))
    assert [float(row["mean"]) for row in rows] == [0.002, 0.002]


def test_a_csv_never_replaces_a_run(runs, compare):
    before = (runs / "old.json").read_bytes()
    status, _, err = compare("--csv", runs / "old.json", runs / "new.json")
    assert status == 2
    assert "would overwrite a run" in err
    assert (runs / "old.json").read_bytes() == before


def test_refusals_are_one_line(runs, compare, tmp_path_factory):
    other = tmp_path_factory.mktemp("other")
    (other / "ours.json").write_text(json.dumps({"schema": 1, "kind": "gpuio-results"}))
    (other / "list.json").write_text("[]")
    (other / "torn.json").write_text("{")
    for arguments, words in (
        ([other / "nowhere.json"], "nowhere.json does not exist."),
        (["a/b/c"], "a/b/c does not exist."),
        (["0001"], "0001 is to be found in the storage"),
        ([], "every run is to be found in the storage"),
        ([other / "ours.json"], "is gpuio's own results file"),
        ([other / "list.json"], "is not pytest-benchmark JSON"),
        ([other / "torn.json"], "cannot be compared"),
        ([runs / "old.json", runs / "old.json"], "a run is named twice"),
        ([runs / "old.json", runs / ".." / runs.name / "old.json"], "a run is named twice"),
        (["--group-by=nonsense", runs / "old.json"], "cannot group by 'nonsense'"),
    ):
        status, out, err = compare(*arguments)
        assert (status, out, err.count("\n")) == (2, "", 1), arguments
        assert err.startswith("gpuio: ")
        assert words in err


def test_wrong_values_are_pytest_benchmarks_to_refuse(runs, compare):
    status, _, err = compare("--columns=nonsense", runs / "old.json")
    assert status == 2
    assert "nonsense" in err
    assert "Traceback" not in err


def test_a_closed_pipe_is_quiet(runs, tmp_path):
    reader, writer = os.pipe()
    os.close(reader)
    done = subprocess.run(
        [sys.executable, "-m", "pytest_gpuio.cli", "compare", str(runs / "old.json")],
        stdout=writer,
        stderr=subprocess.PIPE,
        timeout=60,
        cwd=tmp_path,
    )
    os.close(writer)
    assert (done.returncode, done.stderr) == (141, b"")
