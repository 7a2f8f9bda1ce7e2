"""Recommendations from runs whose best path is known."""

import random

import pytest

from pytest_gpuio.analysis.recommend import Limits, Option, pareto, recommend, saturation
from pytest_gpuio.report.recommend import recommend_data, recommend_markdown, recommend_text
from pytest_gpuio.results.strict_json import dumps


@pytest.fixture
def cell(record):
    """Function: a cell of a path, ``speed`` times the golden one's throughput, at a CPU price."""

    def make(path, speed=1.0, cores=0.5, p99=2e6, **axes):
        case = f"s|datapath={path}|" + "|".join(f"{k}={v}" for k, v in axes.items())
        made = record(1 / speed, case=case, effective__datapath=path)
        made["axes"] |= {"datapath": path, **axes}
        made["bytes_per_s"] = 1.31e9 * speed
        made["latency"]["lat"]["p99_ns"] = int(p99)
        rate = made["bytes_per_s"] / 1e9 / cores
        made["cpu"] |= {"cores_used": cores, "cores_reserved": cores, "gb_per_s_per_core": rate,
                        "gb_per_s_per_core_reserved": rate}  # fmt: skip
        made["gates"] = [gate for gate in made["gates"] if gate["class"] != "unsettled"]
        return made

    return make


@pytest.fixture
def many(run, cell):
    """Function: three runs of cells given as (path, speed, ...), with half a percent of noise."""
    draw = random.Random(4)

    def make(*cells, count=3):
        return [
            run(*(cell(path, speed * (1 + draw.gauss(0, 0.002)), **more) for path, speed, more in cells))
            for _ in range(count)
        ]

    return make


def test_the_fastest_path_with_its_margin_and_gains(many):
    (one,) = recommend(many(("psync", 1.0, {}), ("libaio", 1.5, {}), ("io_uring", 2.0, {})))
    assert (one.best.datapath, one.runner_up.datapath, one.confidence) == ("io_uring", "libaio", "decided")
    assert one.margin == pytest.approx(1 / 3, abs=0.02)
    assert one.baseline.datapath == "psync"
    assert one.relative == pytest.approx(1.0, abs=0.02)  # twice as fast
    assert one.absolute == pytest.approx(0.5, abs=0.01)  # half of what the target gives


def test_too_close_and_one_run(many):
    (one,) = recommend(many(("psync", 1.0, {}), ("libaio", 1.01, {})))
    assert (one.best.datapath, one.confidence) == ("libaio", "too close")
    (one,) = recommend(many(("psync", 1.0, {}), ("libaio", 2.0, {}), count=1))
    assert one.confidence == "one run"


def test_limits_take_options_out_by_name(many):
    runs = many(("libaio", 1.0, {"cores": 1}), ("io_uring_full", 2.0, {"cores": 6}), ("mmap", 1.5, {"p99": 9e6}))
    (one,) = recommend(runs, Limits(max_cores=4, p99_ns=5e6))
    assert one.best.datapath == "libaio"
    assert sorted(one.out.values()) == ["p99 is 9 ms, above 5 ms", "takes 6.00 cores of 4"]
    (none,) = recommend(runs, Limits(max_cores=0.1))
    assert (none.best, none.reason) == (None, "nothing measured keeps the limits")


def test_cores_are_counted_for_all_gpus(many):
    runs = many(("libaio", 1.0, {"cores": 1, "gpus": 1}), ("psync", 2.0, {"cores": 2, "gpus": 1}))
    (one,) = recommend(runs, Limits(max_cores=8, gpus=8))
    assert one.best.datapath == "libaio"
    assert saturation(runs, 16) == {"libaio": 16.0, "psync": 8.0}


def test_unsettled_void_and_null_cells_are_never_used(run, cell):
    shaky = cell("io_uring", 5.0)
    shaky["gates"].append({"gate": "stable", "class": "unsettled", "state": "failed", "detail": ""})
    voids = {"s|datapath=gds|target=default": {"gate": "path_proved", "reason": "compat"}}
    skips = {"s|datapath=io_uring_cmd|target=default": "needs an NVMe device"}
    (one,) = recommend([run(cell("psync"), cell("null", 99.0), shaky, voids=voids, skips=skips)])
    assert one.best.datapath == "psync"
    assert one.unsettled == (shaky["case"],)
    assert one.not_measured == {"io_uring_cmd": "needs an NVMe device", "gds": "void: path_proved"}


def test_situations_do_not_compete(many):
    found = recommend(
        many(("psync", 1.0, {}), ("libaio", 2.0, {"medium": "nvme_ssd"}), ("mmap", 3.0, {"workload": "pretrain/x"}))
    )
    assert [(one.phase, one.best.datapath) for one in found] == [
        ("pretrain", "mmap"), ("inference", "libaio"), ("inference", "psync"),
    ]  # fmt: skip


def test_a_models_own_deciding_figure(run, cell):
    slow, quick = cell("psync", 3.0), cell("libaio", 1.0)
    slow["replay"] = {"deciding": {"metric": "durable_s", "unit": "s", "better": "lower", "value": 9.0}}
    quick["replay"] = {"deciding": {"metric": "durable_s", "unit": "s", "better": "lower", "value": 3.0}}
    (one,) = recommend([run(slow, quick)])
    assert (one.metric, one.best.datapath, one.best.value) == ("durable_s", "libaio", pytest.approx(3.0))


def test_an_open_loop_is_decided_by_p99(run, cell):
    fast, prompt = cell("psync", 3.0), cell("libaio", 1.0)
    fast["open_loop"], prompt["open_loop"] = {"response": {"p99_ns": 9}}, {"response": {"p99_ns": 3}}
    (one,) = recommend([run(fast, prompt)])
    assert (one.metric, one.best.datapath) == ("p99", "libaio")


def test_pareto_by_brute_force():
    draw = random.Random(1)
    options = [Option("x", str(i), {}, 1, 1, 0, 1, draw.random(), None, 1, 1, draw.random(), 0, ()) for i in range(60)]
    kept = pareto(options)
    for one in options:
        beaten = any(
            o.bytes_per_s >= one.bytes_per_s and o.cpu_s_per_gb <= one.cpu_s_per_gb and o is not one for o in options
        )
        assert (one in kept) == (not beaten)


def test_text_markdown_and_data(many):
    found = recommend(many(("psync", 1.0, {}), ("libaio", 2.0, {"cores": 2})))
    text = recommend_text(found, saturation={"libaio": 3.25})
    assert "libaio 64k qd32" in text
    assert "GPUs that fill this machine's CPUs: libaio 3.2" in text
    assert "throughput against CPU, none better in both: libaio 64k qd32" in text
    sheet = recommend_markdown(found, {"cpu": {"model": "EPYC"}, "kernel": "6.1"})
    assert sheet.startswith("# Storage data paths on this machine")
    assert sheet.count("\n|") == 3
    assert '"kind":"gpuio-recommendation"' in dumps(recommend_data(found, {}))
    assert recommend_text([]) == "no result to recommend from\n"
