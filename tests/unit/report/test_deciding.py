"""The figure that decides for a model stands ahead of what every cell has; the record that carries it is valid."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from pytest_gpuio.report.tables import cell_line, deciding, results_table
from pytest_gpuio.results import validate

GOLDEN = Path(__file__).parents[2] / "golden" / "cell_record.json"


def record(metric: str, value: float, unit: str, **changed: Any) -> Any:
    replay = {
        "model": "inference/mine", "parameters": {"scale": "0.5", "seed": "1"}, "note": "", "records": 10, "groups": 5,
        "groups_in_model": 5, "chains": 5, "concurrency": 0, "files": 1, "file_bytes": 4096, "wanted_bytes": 1000,
        "moved_bytes": 4096, "amplification": 4.096, "largest_request": 1000, "timed": False,
        "completion": {
            "groups": 5, "mean_ns": 1.0, "p50_ns": 1, "p95_ns": 2, "p99_ns": 1_200_000, "max_ns": 1_200_000,
            "over_ms": {"50": 0.031, "100": 0.0, "200": 0.0, "1000": 0.0},
        },
        "stall": None, "ranks": {"count": 1, "processes": 1, "max_rank_s": 0.5, "min_rank_gb_per_s": 0.25},
        "cpu_s_per_gb": 0.25,
        "deciding": {"metric": metric, "value": value, "unit": unit, "better": "lower"},
    }  # fmt: skip
    return json.loads(GOLDEN.read_text()) | {"replay": replay | changed}


@pytest.mark.parametrize(
    ("made", "words"),
    [
        (record("completion_p99", 0.0012, "s"), "p99 group 1.2ms, 3.1% over 50 ms, 0.25 CPU s/GB"),
        (record("utilization", 0.913, "share"), "utilisation 91.3%, 2.62 GB/s/core, 0.25 CPU s/GB"),
        (record("resident", 12.5, "s"), "resident in 12.5s, 0.25 CPU s/GB"),
        (record("throughput", 2.5e9, "B/s", cpu_s_per_gb=None), "2.5 GB/s"),
        (
            record(
                "durable",
                0.5,
                "s",
                note="not an MLPerf submission",
                ranks={"count": 8, "processes": 8, "max_rank_s": 0.5, "min_rank_gb_per_s": 0.25},
                stall={
                    "utilization": None,
                    "compute_s": 1.0,
                    "stall_s": 0.5,
                    "longest_stall_s": 0.5,
                    "steps_per_s": 1.0,
                },
            ),
            "durable in 500ms, min rank 0.25 GB/s, stalled 0.5 s, 0.25 CPU s/GB (not an MLPerf submission)",
        ),
    ],
)
def test_each_kind_of_figure_is_told_in_words(made: Any, words: str) -> None:
    assert deciding(made) == words
    assert cell_line(made).startswith(words)
    assert validate.validate_cell(made) == []


def test_what_decides_stands_above_the_table_and_streams_have_none() -> None:
    stream = json.loads(GOLDEN.read_text())
    assert deciding(stream) == ""
    text = results_table([stream, record("utilization", 0.5, "share", note="not an MLPerf submission")])
    assert "not an MLPerf submission: inference/mine\n" in text
    assert text.index("utilisation 50.0%") < text.index("GB/s/core")
    assert "utilisation" not in results_table([stream])


def test_a_replay_block_with_holes_is_not_valid() -> None:
    made = record("utilization", 0.5, "share")
    del made["replay"]["ranks"]
    assert any("ranks" in problem for problem in validate.validate_cell(made))
