"""A record's digest shows in every table what the record itself does."""

import copy
import json
from pathlib import Path

from pytest_gpuio.report import tables
from pytest_gpuio.report.deciding import decisions
from pytest_gpuio.report.digest import digest
from pytest_gpuio.report.scaling import scaling_table

GOLDEN = json.loads((Path(__file__).parents[2] / "golden" / "cell_record.json").read_text())


def records():
    found = []
    for number, workload in enumerate(["inference/kv_fetch", "pretrain/checkpoint_save", "micro/randread"] * 6):
        cell = copy.deepcopy(GOLDEN)
        gpus = 1 + number // 3 % 2
        cell["axes"] |= {"workload": workload, "qd": 1 + number // 6, "gpus": gpus}
        cell["phase"] = workload.partition("/")[0]
        cell["gb_per_s"] += number / 7
        cell["latency"]["lat"]["p99_ns"] += 1000 * number
        cell["cpu"]["cores_reserved"] += number % 3
        cell["gates"] = [
            {"gate": "stable", "class": "unsettled", "state": "failed" if number % 4 else "passed", "detail": "moved"},
            {
                "gate": "cores_available",
                "class": "warning",
                "state": "failed" if number % 5 else "passed",
                "detail": "x",
            },
        ]
        shares = [{"gb_per_s": 1.0 + number, "distance": "same_node"}] * gpus
        cell["gpu"] = {"cores": 8, "shares": shares}
        found.append(cell)
    return found


def test_all_tables_are_those_of_the_whole_records():
    whole = records()
    small = list(map(digest, whole))
    for show in (tables.results_table, decisions, scaling_table, lambda cells: tables.best_worst(cells, 2)):
        assert show(small) == show(whole)
        assert show(small)
    assert [tables.cell_line(cell) for cell in small] == [tables.cell_line(cell) for cell in whole]


def test_a_model_s_part_is_kept_and_the_rest_is_a_fraction():
    cell = records()[0] | {"replay": {"note": "n"}}
    assert digest(cell)["replay"] is cell["replay"]
    assert len(json.dumps(digest(GOLDEN))) < len(json.dumps(GOLDEN)) / 4
