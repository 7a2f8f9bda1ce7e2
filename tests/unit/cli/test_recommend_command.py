"""``gpuio recommend`` on files."""

import json

import pytest

from pytest_gpuio.cli.command import main


@pytest.fixture
def results(record, tmp_path):
    def write(name, machine="a"):
        cell = record()
        cell["gates"] = []
        content = {"schema": 1, "kind": "gpuio-results", "created": "2026-01-01T00:00:00Z", "cells": [cell],
                   "machine": {"id": machine, "cpu": {"model": "EPYC", "cores": 64}}}  # fmt: skip
        (tmp_path / name).write_text(json.dumps(content))
        return str(tmp_path / name)

    return write


def test_everything_it_writes(results, tmp_path, capsys):
    sheet, folder = tmp_path / "sheet.md", tmp_path / "settings"
    command = ["recommend", results("a.json"), "--markdown", str(sheet), "--config-dir", str(folder)]
    assert main(command) == 0
    assert "io_uring is the only path with a result" in capsys.readouterr().out
    assert "EPYC" in sheet.read_text()
    assert {path.suffix for path in folder.iterdir()} == {".fio"}
    assert main(command) == 2
    assert "exists already" in capsys.readouterr().err
    assert main(["recommend", results("a.json"), "--json", "-"]) == 0
    assert json.loads(capsys.readouterr().out)["recommendations"][0]["best"]["datapath"] == "io_uring"


@pytest.mark.parametrize(
    ("more", "told"),
    [
        (["--max-cores", "0"], "--max-cores 0: must be above 0"),
        (["--gpus", "-1"], "--gpus -1"),
        (["--slo-p99", "2 parsecs"], "2 parsecs"),
        (["none.json"], "none.json does not exist"),
    ],
)
def test_mistakes_are_named(results, capsys, more, told):
    assert main(["recommend", results("a.json"), *more]) == 2
    assert told in capsys.readouterr().err


def test_two_machines_are_refused(results, capsys):
    assert main(["recommend", results("a.json"), results("b.json", "b")]) == 2
    assert "come from 2 machines" in capsys.readouterr().err


def test_nothing_keeps_the_limits(results):
    assert main(["recommend", results("a.json"), "--slo-p99", "1us"]) == 1
