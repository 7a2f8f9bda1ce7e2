"""Tables and Markdown, letter by letter: what people and their wikis see changes on purpose only.

After such a change: ``GPUIO_WRITE_GOLDEN=1 pytest tests/unit/report/test_golden.py``, and read the difference.
"""

import os
import random
from pathlib import Path

import pytest

from pytest_gpuio.analysis.crossover import Point, find
from pytest_gpuio.analysis.gate import judge
from pytest_gpuio.analysis.metrics import METRICS
from pytest_gpuio.analysis.policy import Policy
from pytest_gpuio.analysis.recommend import recommend
from pytest_gpuio.cli.command import main
from pytest_gpuio.cli.crossover import crossover_text
from pytest_gpuio.cli.history import history_text
from pytest_gpuio.cli.imports import import_text
from pytest_gpuio.cli.report import report_markdown
from pytest_gpuio.report.gate import gate_junit, gate_markdown, gate_text
from pytest_gpuio.report.recommend import recommend_markdown, recommend_text
from pytest_gpuio.report.tables import results_table, voids_table
from pytest_gpuio.results.fio_import import import_fio

GOLDEN = Path(__file__).parents[2] / "golden"
FIO = Path(__file__).parents[2] / "data/fio"
NAMES = ("same", "slow", "fast", "shaky", "moved", "gone", "fresh", "void")
MACHINE = {"id": "5f0e6c2a9b1d4e77", "kernel": "6.12.9", "cpu": {"model": "AMD EPYC 9654", "cores": 192}}


def same(name, text):
    """The text is that of the golden file; none of its lines ends in a blank."""
    path = GOLDEN / name
    if os.environ.get("GPUIO_WRITE_GOLDEN"):
        path.write_text(text, encoding="utf-8")
    assert text == path.read_text(encoding="utf-8")
    assert not any(line != line.rstrip() for line in text.splitlines())


@pytest.fixture
def cell(record):
    """Function: a settled cell of a path at a speed, in a workload of its own choice."""

    def make(path, speed=1.0, cores=0.5, **axes):
        made = record(1 / speed, effective__datapath=path)
        made["axes"] |= {"datapath": path, **axes}
        made["phase"] = made["axes"]["workload"].partition("/")[0]
        made["case"] = "golden|" + "|".join(f"{axis}={value}" for axis, value in made["axes"].items())
        made["bytes_per_s"] = 1.31e9 * speed
        made["gb_per_s"], made["iops"] = made["bytes_per_s"] / 1e9, made["bytes_per_s"] / made["axes"]["bs"]
        rate = made["gb_per_s"] / cores
        made["cpu"] |= {
            "cores_used": cores, "cores_reserved": cores, "gb_per_s_per_core": rate, "gb_per_s_per_core_reserved": rate
        }  # fmt: skip
        made["gates"] = [gate for gate in made["gates"] if gate["class"] == "impossible"]
        return made

    return make


@pytest.fixture
def measured(run, cell):
    """Three runs of two workloads on two media by four paths; one path is skipped, one result void."""
    draw = random.Random(11)

    def one():
        cells = []
        for workload, medium in (("pretrain/dataset_read", "nvme_ssd"), ("inference/kv_fetch", "sata_ssd")):
            for path, speed, cores in (("psync", 1.0, 0.4), ("libaio", 1.6, 0.5), ("io_uring", 1.9, 0.45),
                                       ("io_uring_sqpoll", 2.0, 1.3)):  # fmt: skip
                noisy = speed * (1 + draw.gauss(0, 0.002))
                cells.append(cell(path, noisy, cores, workload=workload, medium=medium, target=medium[:4]))
        cells[0]["target"]["devices"] = [{"name": "nvme0n1", "link_bytes_per_s": 7_877_000_000}]
        void = {
            "case": "golden|v",
            "axes": cells[0]["axes"],
            "gate": "littles_law",
            "reason": "31 by latency, 17 counted",
        }
        skip = "golden|datapath=gds|target=nvme"
        return run(*cells, machine=MACHINE, voids={"golden|v": void}, skips={skip: "needs a GPU"})

    return [one() for _ in range(3)]


@pytest.fixture
def gated(record, run):
    """A report with every verdict, the pipe of a case's name among them."""
    draw = random.Random(1)
    noise = lambda: 1 + draw.gauss(0, 0.002)  # noqa: E731

    def case(name, factor=1.0, **more):
        made = record(factor, case=f"suite|{name}", **more)
        made["axes"]["qd"] = 2 ** NAMES.index(name)
        return made

    def cells(slow, fast):
        found = {"same": 1.0, "slow": slow, "fast": fast, "shaky": 1 + draw.gauss(0, 0.08)}
        return [case(name, factor * noise()) for name, factor in found.items()]

    def runs(count, *factors):
        return [run(*cells(*factors), machine=MACHINE) for _ in range(count)]

    old = runs(12, 1.0, 1.0)
    other = case("moved")
    old.append(run(case("gone"), other, machine=MACHINE))
    moved = case("moved", target__file_system="xfs")
    void = {"gate": "device_bytes", "reason": "3 % of the bytes came from the device", "axes": case("void")["axes"]}
    new = runs(6, 1.1, 0.8)
    new.append(run(case("fresh"), moved, machine=MACHINE, voids={"suite|void": void}))
    return judge(old, new, Policy(), confirm=runs(8, 1.1, 0.8))


def test_gate(gated):
    same("gate.txt", gate_text(gated, everything=True))
    same("gate.md", gate_markdown(gated))
    same("gate.xml", gate_junit(gated))


def test_recommend(measured):
    found = recommend(measured)
    same("recommend.txt", recommend_text(found, 140, saturation={"libaio": 3.25, "gds": 40.0}))
    same("recommend.md", recommend_markdown(found, MACHINE))


def test_report_and_terminal_tables(measured):
    same("report.md", report_markdown(measured))
    same("results.txt", results_table(list(measured[-1].cells.values())))
    same("voids.txt", voids_table(list(measured[-1].voids.values())))


def test_history(run, record):
    draw = random.Random(2)
    runs = [
        run(record((1.0 if number < 9 else 1.25) * (1 + draw.gauss(0, 0.005))), machine=MACHINE) for number in range(16)
    ]
    same("history.txt", history_text(runs, METRICS["bytes_per_s"]))


def test_crossover():
    draw = random.Random(5)
    points = [Point(4096 << step, tuple(0.4 - 0.1 * step + draw.gauss(0, 0.01) for _ in range(6))) for step in range(9)]
    situation = {"workload": "micro/randread", "medium": "nvme_ssd", "qd": 32, "jobs": 1}
    same("crossover.txt", crossover_text(find("io_uring", "gds", "bs", "bytes_per_s", points, situation)))


def test_import():
    content = import_fio(FIO / "mixed_two_jobs.json")
    content["failures"].append({"nodeid": "old.txt::bad", "case": None, "reason": "fio's job ended with error 5"})
    same("import.txt", import_text(content, "old-fio.json"))


def test_simulated_gate(capsys):
    assert main(["gate", "--simulate", "1"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == 24
    assert lines[0].startswith("pairs    bytes_per_s  noise 2%  change +0%  first look ")
