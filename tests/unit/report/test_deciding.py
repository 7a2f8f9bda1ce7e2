"""The figure that decides for a model stands ahead of what every cell has; the record that carries it is valid."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from pytest_gpuio.report.deciding import deciding, decisions
from pytest_gpuio.report.tables import best_worst, cell_line, results_table
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
        (record("completion_p99", 0.0012, "s"), "p99 of 5 groups 1.2ms, 3.1% over 50 ms, 0.25 CPU s/GB"),
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


def of(made: Any, workload: str, **axes: Any) -> Any:
    made["axes"] |= {"workload": workload} | axes
    made["phase"] = workload.partition("/")[0]
    return made


def stream(workload: str, **axes: Any) -> Any:
    return of(json.loads(GOLDEN.read_text()), workload, **axes)


def test_each_phase_tells_what_decides_in_it() -> None:
    saved = of(record("durable", 0.5, "s", note="not an MLPerf submission"), "pretrain/checkpoint_ranks")
    fetch, slower = stream("inference/kv_fetch"), stream("inference/kv_fetch", datapath="psync")
    slower["latency"]["lat"]["p99_ns"] = 5_000_000
    read = stream("pretrain/dataset_read")
    read["cpu"] |= {"cores_used": 0.5, "gb_per_s_per_core": 2.0}
    read |= {"seconds": 4.0, "bytes": 4_000_000_000}
    loaded = stream("finetune/model_load")
    loaded["windows"]["seconds"] = [0.25, 0.75, 0.5]
    cells = [slower, fetch, saved, read, loaded, stream("micro/randread")]
    assert [line.split(", ")[0] for line in decisions(cells).splitlines()] == [
        "pretrain:",
        "  checkpoint_ranks io_uring  durable in 500ms",
        "  dataset_read io_uring      2.00 GB/s/core",
        "finetune:",
        "  model_load io_uring  resident in 500ms",
        "inference:",
        "  kv_fetch io_uring  p99 2.01ms",
        "not an MLPerf submission: inference/mine",
    ]
    assert "0.5 CPU s/GB" in decisions([read])
    assert decisions(cells).count("(best of 2)") == 1
    assert decisions([stream("micro/randread")]) == decisions([]) == ""


def test_a_save_in_the_background_tells_stall_and_durability() -> None:
    made = record(
        "stall", 0.25, "s", background={"snapshot_s": 0.05, "stall_s": 0.25, "durable_s": 1.5},
        stall={"utilization": 0.5, "compute_s": 1.0, "stall_s": 0.5, "longest_stall_s": 0.5, "steps_per_s": 1.0},
    )  # fmt: skip
    assert deciding(made) == "steps lose 250ms a save, durable in 1.5s, 0.25 CPU s/GB"
    assert validate.validate_cell(made) == []


def test_a_p99_of_many_groups_stands_for_itself() -> None:
    made = record("completion_p99", 0.0012, "s")
    for groups, words in ((1, "the one group 1.2ms"), (99, "p99 of 99 groups 1.2ms"), (100, "p99 group 1.2ms")):
        made["replay"]["completion"]["groups"] = groups
        assert deciding(made).startswith(f"{words}, ")


def test_the_share_of_the_time_to_first_token_is_told() -> None:
    made = record("completion_p99", 0.0012, "s")
    made["replay"]["completion"] |= {"ttft_share": 0.42, "ttft_share_p50": 0.5, "requests": 5}
    assert "over 50 ms, 42% of TTFT" in deciding(made)
    assert validate.validate_cell(made) == []


def test_models_that_differ_in_parameters_alone_never_look_alike() -> None:
    names = [
        f"inference/kv_prefix_fetch[model=llama-3.1-70b,granularity={kind},tensor_parallel=8,requests=1000,scale=0.01]"
        for kind in ("fragment", "chunk", "page512")
    ]
    cells = [
        of(record("completion_p99", 0.001, "s"), name, datapath=path)
        for name in names
        for path in ("io_uring", "psync")
    ]
    for text in (decisions(cells, 100), results_table(cells, 100), best_worst(cells, 1, 100)):
        lines = text.splitlines()
        assert len(set(lines)) >= 6, text
        assert max(map(len, lines)) <= 100
        flat = "".join(line.strip() for line in lines)
        for name in names:
            assert name.partition("/")[2] in flat
    short = [of(record("completion_p99", 0.001, "s"), "inference/kv_offload", qd=depth) for depth in (8, 32)]
    assert [line.split("  p99")[0].strip() for line in decisions(short).splitlines()[1:]] == [
        "kv_offload io_uring qd8",
        "kv_offload io_uring qd32",
    ]


def test_a_replay_block_with_holes_is_not_valid() -> None:
    made = record("utilization", 0.5, "share")
    del made["replay"]["ranks"]
    assert any("ranks" in problem for problem in validate.validate_cell(made))
