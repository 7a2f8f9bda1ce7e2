"""The search for a crossover, with a stand-in for pytest whose paths cross at a known place."""

import json
import sys
from pathlib import Path

import pytest

from pytest_gpuio.analysis.metrics import metric
from pytest_gpuio.cli.command import main
from pytest_gpuio.core.errors import ConfigError, GpuioError
from pytest_gpuio.sweep.crossover import Search, search

GOLDEN = Path(__file__).parents[2] / "golden/cell_record.json"
STAND_IN = """\
#!{python}
import copy, json, os, random, sys
options = dict(a.split("=", 1) for a in sys.argv if a.startswith("--gpuio-"))
bs = {{"k": 1024, "m": 1 << 20}}[options["--gpuio-bs"][-1]] * int(options["--gpuio-bs"][:-1])
draw = random.Random(options["--gpuio-results"])
cells = []
for path in options["--gpuio-datapath"].split(","):
    cell = json.load(open({golden!r}))
    # psync wins above 100 KiB, by more the farther away
    speed = (bs / 102400) ** 0.2 if path == "psync" else 1.0
    if os.environ.get("EQUAL"):
        speed = 1.0
    cell["case"] = path
    cell["axes"] |= {{"datapath": path, "bs": bs}}
    cell["effective"]["datapath"] = path
    cell["bytes"] = cell["ios"] * bs
    cell["windows"]["seconds"] = [0.25 / speed * (1 + draw.gauss(0, 0.01))] * 4
    cells.append(cell)
if os.environ.get("KINDS"):
    cells += [dict(c, case=c["case"] + "2", axes=c["axes"] | {{"jobs": 9}}) for c in cells]
if os.environ.get("ONE"):
    cells = cells[:1]
if os.environ.get("DEEP"):
    cells = [c for c in cells if c["axes"]["datapath"] != "psync"]
block = {{"kind": "gpuio-results", "created": "2026-01-01T00:00:00Z", "machine": {{}}, "cells": cells,
  "skips": [{{"case": "x", "reason": "needs luck"}}]}}
if os.environ.get("DEEP"):
    block["skips"] = []
json.dump(block, open(options["--gpuio-results"], "w"))
"""


@pytest.fixture
def task(tmp_path):
    stand_in = tmp_path / "python"
    stand_in.write_text(STAND_IN.format(python=sys.executable, golden=str(GOLDEN)))
    stand_in.chmod(0o755)

    def make(**changes):
        values = {"a": "psync", "b": "libaio", "axis": "bs", "low": 4096, "high": 1 << 20, "resolution": 1.3}
        values |= {"metric": metric("bytes_per_s"), "arguments": ("suite",), "python": str(stand_in), **changes}
        return Search(**values)

    return make


def test_the_interval_holds_the_truth_and_is_narrow(task, tmp_path):
    lines = []
    found = search(task(), tmp_path, lines.append)
    (one,) = found.crossings
    assert one.below == "b"
    assert one.low <= 102400 <= one.high
    assert all(point.x % 4096 == 0 for point in found.points)
    assert one.high / one.low <= 2
    assert lines[0].startswith("4k: libaio (psync -")


def test_equal_paths_cannot_be_told_apart(task, tmp_path, monkeypatch):
    monkeypatch.setenv("EQUAL", "1")
    found = search(task(), tmp_path, lambda _: None)
    assert len(found.points) == 3
    assert len(found.crossings) == 0


def test_cells_that_are_no_pair(task, tmp_path, monkeypatch):
    monkeypatch.setenv("ONE", "1")
    with pytest.raises(GpuioError, match="at 4k there is no pair of psync and libaio with bytes_per_s: needs luck"):
        search(task(), tmp_path, lambda _: None)
    monkeypatch.delenv("ONE")
    monkeypatch.setenv("DEEP", "1")
    with pytest.raises(GpuioError, match=r"psync has one request in flight: let --gpuio-qd hold 1 as well"):
        search(task(), tmp_path, lambda _: None)
    monkeypatch.delenv("DEEP")
    monkeypatch.setenv("KINDS", "1")
    with pytest.raises(ConfigError, match="pytest ran 2 kinds of cells"):
        search(task(), tmp_path, lambda _: None)


@pytest.mark.parametrize(
    ("changes", "told"),
    [
        ({"b": "psync"}, "cannot cross itself"),
        ({"low": 1 << 20}, "the first must be smaller"),
        ({"resolution": 1.0}, "a factor above 1"),
    ],
)
def test_impossible_tasks(task, changes, told):
    with pytest.raises(ConfigError, match=told):
        task(**changes)


@pytest.mark.parametrize(
    ("more", "told"),
    [
        ([], "name the stretch"),
        (["--from", "4k", "--to", "8k"], "name what pytest shall run"),
        (["--from", "x", "--to", "8k", "--", "suite"], "is not a size"),
        (["--axis", "qd", "--from", "1", "--to", "8k", "--", "suite"], "qd '8k' is not a whole number"),
        (["--results", "none.json"], "none.json does not exist"),
        (["--results", "none.json", "--", "suite"], "leave the arguments behind -- out"),
    ],
)
def test_the_commands_mistakes(capsys, more, told):
    assert main(["crossover", "psync", "libaio", *more]) == 2
    assert told in capsys.readouterr().err


def test_the_command_on_results(record, tmp_path, capsys):
    files = []
    for number in range(6):
        cells = []
        for path, factor in (("psync", 1.0), ("libaio", 0.8)):
            cell = record(factor * (1 + number / 1000), case=path, effective__datapath=path)
            cell["axes"]["datapath"] = path
            cells.append(cell)
        content = {"kind": "gpuio-results", "created": "2026-01-01T00:00:00Z", "machine": {}, "cells": cells}
        files.append(tmp_path / f"{number}.json")
        files[-1].write_text(json.dumps(content))
    command = ["crossover", "psync", "libaio", "--results", *map(str, files)]
    assert main(command) == 0
    assert "libaio is better everywhere from 64k to 64k" in capsys.readouterr().out
    assert main([*command, "--json", "-"]) == 0
    assert json.loads(capsys.readouterr().out)["found"][0]["points"][0]["better"] == "b"
