import json
import os
import re

import pytest

from pytest_gpuio.cli import main
from pytest_gpuio.results import journal

PLAN = """
name = "p"
[options]
size = "64M"
[windows]
length = "1ms"
count = 1
warm_up = "1ms"
[axes]
datapath = "null"
workload = "micro/randread"
bs = ["4k", "8k"]
qd = [1, 2]
"""


@pytest.fixture
def plan(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "p.toml").write_text(PLAN)
    return "p.toml"


def test_the_study_has_its_25000_cells(capsys):
    assert main(["sweep", "plan", "study", "--json"]) == 0
    content = json.loads(capsys.readouterr().out)
    assert content["cells"] >= 25_000
    assert content["cells"] == sum(one["cells"] for one in content["targets"].values())
    assert content["cells"] == sum(content["datapaths"].values())


@pytest.mark.parametrize("name", ["study", "hour", "smoke"])
def test_forecasts_of_bundled_plans(name, capsys, tmp_path):
    more = [] if name == "study" else ["--gpuio-target", str(tmp_path)]
    assert main(["sweep", "plan", name, *more]) == 0
    out = capsys.readouterr().out
    assert re.search(rf"plan {name}: .*\n[\d,]+ cells, about ", out)
    assert ("no path given: skipped" in out) == (name == "study")
    assert list(tmp_path.iterdir()) == [], "nothing is written"


def test_json_before_the_plan_is_no_file(plan, capsys, tmp_path):
    assert main(["sweep", "plan", "--json", plan, "--cells"]) == 0
    content = json.loads(capsys.readouterr().out)
    assert (content["cells"], len(content["cases"])) == (4, 4)
    assert main(["sweep", "plan", plan, "--json", "out.json", "--gpuio-bs=4k"]) == 0
    assert json.loads((tmp_path / "out.json").read_text())["cells"] == 2


def test_run_status_export(plan, capsys, tmp_path):
    run = ["sweep", "run", plan, "--journal", "j.jsonl", "--gpuio-target", str(tmp_path / "t"), "--json", "-"]
    assert main([*run, "--gpuio-lock-timeout=100s"]) == 0
    out, err = capsys.readouterr()
    told = json.loads(out)
    assert (told["reason"], told["cells"], told["measured"], told["new"]) == ("complete", 4, 4, 4)
    assert told["journal_bytes"] == os.stat("j.jsonl").st_size  # noqa: PTH116
    assert "4 cells, 0 of them done before, 4 to go" in err
    assert main([*run, "--gpuio-lock-timeout=100s"]) == 0
    assert json.loads(capsys.readouterr().out)["new"] == 0

    assert main(["sweep", "status", "--journal", "j.jsonl"]) == 0
    out = capsys.readouterr().out
    assert re.search(r"series [0-9a-f]{16}, plan p, complete: 4 of 4 measured, .* in 2 runs", out)
    assert main(["sweep", "status", "--journal", "j.jsonl", "--json", "-"]) == 0
    content = json.loads(capsys.readouterr().out)
    assert (content["running"], content["series"][0]["measured"]) == (False, 4)

    assert main(["sweep", "export", "--journal", "j.jsonl", "--benchmark-json", "o.json"]) == 0
    assert "o.json: 4 cells of series" in capsys.readouterr().out
    rows = json.loads((tmp_path / "o.json").read_text())["benchmarks"]
    assert {row["fullname"] for row in rows} == {
        line.own_body()["case"] for line in journal.scan("j.jsonl") if line.kind == "cell"
    }
    assert main(["validate", "o.json", "j.jsonl"]) == 0
    assert main(["sweep", "export", "--journal", "j.jsonl", "--benchmark-json", "o.json"]) == 2
    assert "Nothing is ever replaced" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("arguments", "what"),
    [
        (["plan"], "name a plan: study, hour, smoke"),
        (["plan", "no.toml"], "plan no.toml cannot be read: No such file"),
        (["plan", "p.toml", "--gpuio-bs=x"], "--gpuio-bs: block size 'x' is not a size"),
        (["plan", "p.toml", "--gpuio-profile=fast"], "--gpuio-profile: 'fast' is none of quick"),
        (["run", "p.toml"], "name the journal"),
        (["run", "p.toml", "--journal", "no/j.jsonl"], "journal no/j.jsonl cannot be opened: No such file"),
        (["run", "p.toml", "--journal", "p.toml"], "p.toml exists and is no journal"),
        (["status"], "name the journal"),
        (["status", "--journal", "no.jsonl"], "journal no.jsonl cannot be read"),
        (["export", "--journal", "j.jsonl"], "name what to write"),
        (["export", "--benchmark-json", "o.json"], "name the journal"),
    ],
)
def test_what_is_wrong_is_told_before_anything_is_measured(plan, capsys, arguments, what):
    assert main(["sweep", *arguments]) == 2
    assert what in capsys.readouterr().err


def test_help_names_the_actions(capsys):
    assert main(["sweep", "--help"]) == 0
    out = capsys.readouterr().out
    assert all(f"gpuio sweep {action}" in out for action in ("plan", "run", "status", "export"))
    assert main(["sweep", "run", "--help"]) == 0
    assert "--gpuio-target" in capsys.readouterr().out
    assert main(["sweep", "walk"]) == 2


def test_the_help_says_how_many_cells_the_study_has(capsys):
    main(["sweep", "--help"])
    told = re.search(r"study \(([\d,]+) cells", capsys.readouterr().out)[1]
    main(["sweep", "plan", "study", "--json"])
    assert int(told.replace(",", "")) == json.loads(capsys.readouterr().out)["cells"]
