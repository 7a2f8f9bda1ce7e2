"""``gpuio history``: series, change points of a known shape, export, and pruning that removes nothing of others."""

import csv
import json
import random

import pytest

from pytest_gpuio.cli.command import main


@pytest.fixture
def store(record, tmp_path):
    """Function: a storage folder whose throughput follows levels."""
    draw = random.Random(8)

    def make(levels, name=".benchmarks", other=False):
        folder = tmp_path / name / "Linux"
        folder.mkdir(parents=True)
        for number, level in enumerate(levels):
            cell = record(1 / (level * (1 + draw.gauss(0, 0.01))))
            benchmarks = [{"extra_info": {"gpuio": cell}}, *([{"extra_info": {}}] if other else [])]
            content = {
                "datetime": f"2026-01-{number // 24 + 1:02}T{number % 24:02}:00:00",
                "machine_info": {"gpuio": {"machine": {"id": "m", "cpu": {"model": "EPYC"}}}},
                "benchmarks": benchmarks,
            }
            (folder / f"{number:04}.json").write_text(json.dumps(content))
        return str(tmp_path / name)

    return make


# Flat, a sag, a recovery: the shape of fio's issue 687.
SHAPE = [1.0] * 16 + [0.8] * 14 + [1.0] * 16


def test_a_sag_and_its_recovery(store, capsys):
    folder = store(SHAPE)
    assert main(["history", folder]) == 0
    text = capsys.readouterr().out
    assert "machine m (EPYC): 46 runs, 2026-01-01 to 2026-01-02" in text
    assert "1 case, the longest series has 46 runs; 1 changed their bytes_per_s" in text
    assert main(["history", folder, "--json", "-"]) == 0
    (one,) = json.loads(capsys.readouterr().out)["series"]
    assert [step["index"] for step in one["changes"]] == [pytest.approx(16, abs=1), pytest.approx(30, abs=1)]
    assert [step["ratio"] for step in one["changes"]] == [pytest.approx(0.8, abs=0.02), pytest.approx(1.25, abs=0.03)]
    assert len(one["points"]) == 46


def test_flat_series_have_no_change_points(store, capsys):
    assert main(["history", store([1.0] * 40), "--metric", "p99"]) == 0
    assert "0 changed their p99" in capsys.readouterr().out


def test_export(store, tmp_path, capsys):
    folder, out = store([1.0] * 3), tmp_path / "all.csv"
    assert main(["history", folder, "--csv", str(out), "--case", "*kv_fetch*"]) == 0
    rows = list(csv.DictReader(out.read_text().splitlines()))
    assert len(rows) == 3
    assert float(rows[0]["cpu_s_per_gb"]) == pytest.approx(0.5 / 1.31072, rel=0.1)
    assert main(["history", folder, "--csv", str(out), "--case", "none"]) == 0
    assert len(out.read_text().splitlines()) == 1


def test_parquet(store, tmp_path, capsys, monkeypatch):
    folder, out = store([1.0] * 3), tmp_path / "all.parquet"
    try:
        import pyarrow.parquet
    except ImportError:
        assert main(["history", folder, "--parquet", str(out)]) == 2
        assert "pip install pyarrow" in capsys.readouterr().err
        return
    assert main(["history", folder, "--parquet", str(out)]) == 0
    assert pyarrow.parquet.read_table(out).num_rows == 3


def test_pruning_asks_first_and_spares_what_is_not_ours(store, tmp_path, capsys):
    folder = store([1.0] * 5)
    files = sorted((tmp_path / ".benchmarks/Linux").iterdir())
    assert main(["history", folder, "--keep", "2"]) == 0
    assert "would remove" in capsys.readouterr().out
    assert all(path.exists() for path in files)
    assert main(["history", folder, "--keep", "2", "--yes"]) == 0
    assert [path.exists() for path in files] == [False, False, False, True, True]
    mixed = store([1.0] * 3, "mixed", other=True)
    assert main(["history", mixed, "--keep", "1", "--yes"]) == 0
    assert "kept, it holds other benchmarks" in capsys.readouterr().out
    assert len(list((tmp_path / "mixed/Linux").iterdir())) == 3


@pytest.mark.parametrize(
    ("more", "told"),
    [
        (["none"], "none does not exist"),
        (["--yes"], "say how many to keep"),
        (["--keep", "0"], "at least one run must stay"),
    ],
)
def test_mistakes_are_named(capsys, more, told):
    assert main(["history", *more]) == 2
    assert told in capsys.readouterr().err


def test_results_files_of_ours_are_pruned_too_and_json_stays_json(record, tmp_path, capsys):
    for day in (1, 2, 3):
        content = {"schema": 1, "kind": "gpuio-results", "created": f"2026-01-0{day}T00:00:00Z", "cells": [record()],
                   "machine": {"id": "m"}}  # fmt: skip
        (tmp_path / f"r{day}.json").write_text(json.dumps(content))
    assert main(["history", str(tmp_path), "--keep", "1", "--yes", "--json", "-"]) == 0
    out, err = capsys.readouterr()
    told = json.loads(out)
    assert (told["metric"], told["unit"], [run["cells"] for run in told["runs"]]) == ("bytes_per_s", "B/s", [1, 1, 1])
    assert err.count("removed ") == 2
    assert [path.name for path in tmp_path.iterdir()] == ["r3.json"]
