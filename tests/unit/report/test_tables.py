import copy
import json
import re
from pathlib import Path

import pytest

from pytest_gpuio.report import tables

GOLDEN = json.loads((Path(__file__).parents[2] / "golden" / "cell_record.json").read_text())


def record(*, gb=1.31072, iops=20_000.0, axes=None, gates=(), **lat):
    cell = copy.deepcopy(GOLDEN)
    cell.update(gb_per_s=gb, iops=iops, gates=list(gates))
    cell["axes"].update(axes or {})
    cell["latency"]["lat"].update(lat)
    return cell


def gate(name, gate_class, state="failed"):
    return {"gate": name, "class": gate_class, "state": state, "detail": ""}


UNSETTLED = [
    gate("stable", "unsettled"),
    gate("no_steal", "unsettled", "passed"),
    gate("littles_law", "impossible", "passed"),
]


def test_the_line_of_a_cell():
    cell = record(gb=1.8642, iops=455_120.0, p99_ns=210_000)
    cell["cpu"]["cores_used"] = 0.71
    assert tables.cell_line(cell) == "1.86 GB/s 455k IOPS p99 210us 0.71 cores"
    cell["gates"] = UNSETTLED
    assert tables.cell_line(cell) == "1.86 GB/s 455k IOPS p99 210us 0.71 cores (unsettled: stable)"
    cell["latency"]["lat"]["p99_ns"] = None
    assert "p99 - " in tables.cell_line(cell)


def test_reserved_cores_are_shown_where_they_are_more_than_five_percent_above():
    cell = record()
    for reserved, shown in ((0.71, "0.71"), (0.745, "0.71"), (0.75, "0.71/0.75"), (1.71, "0.71/1.71")):
        cell["cpu"].update(cores_used=0.71, cores_reserved=reserved)
        assert f" {shown} cores" in tables.cell_line(cell)
        assert f" {shown} " in tables.results_table([cell], 110)


def test_usual_values_are_left_out_of_a_case():
    axes = GOLDEN["axes"]
    assert tables.short_case(axes) == "inference/kv_fetch io_uring virtual 64k qd32"
    unusual = {
        "target": "fast",
        "destination": "gpu",
        "bs": 1536 << 10,
        "jobs": 4,
        "batch": "32x16",
        "cache": "cold",
        "durability": "dsync",
    }
    assert tables.short_case({**axes, **unusual}) == (
        "inference/kv_fetch io_uring virtual fast gpu 1536k qd32 jobs4 batch32x16 cold dsync"
    )


def test_the_table():
    cells = [
        record(gates=UNSETTLED),
        record(gb=12.3, iops=455_123.0, axes={"datapath": "libaio", "qd": 1}, p50_ns=875, p99_ns=3_210, p999_ns=None),
    ]
    cells[1]["cpu"].update(cores_used=0.0, cores_reserved=0.0, gb_per_s_per_core=None)
    assert tables.results_table(cells, 99) == (
        "case                                          GB/s  IOPS    p50     p99  p99.9  cores  GB/s/core\n"
        "---------------------------------------------------------------------------------------------------\n"
        "inference/kv_fetch io_uring virtual 64k qd32  1.31   20k  1.5ms  2.01ms    5ms   0.50       2.62  U\n"
        "inference/kv_fetch libaio virtual 64k qd1     12.3  455k  875ns  3.21us      -   0.00          -\n"
        "U = unsettled: true but not steady, never used by a recommendation (stable)\n"
    )


def test_warnings_are_flagged_and_named():
    cells = [record(gates=[gate("numa_far", "warning"), *UNSETTLED]), record(gates=[gate("virtual", "warning")])]
    lines = tables.results_table(cells).splitlines()
    assert lines[2].endswith("  UW")
    assert lines[3].endswith("  W")
    assert lines[4:] == [
        "U = unsettled: true but not steady, never used by a recommendation (stable)",
        "W = warning (numa_far, virtual)",
    ]


def test_nothing_measured_prints_nothing():
    assert tables.results_table([]) == tables.best_worst([]) == tables.voids_table([]) == ""


LONG = {
    "workload": "micro/randwrite_fdatasync",
    "datapath": "io_uring_sqpoll",
    "medium": "nvme_optane",
    "target": "a_target_with_a_long_name",
    "jobs": 16,
    "batch": "32x32",
    "cache": "cold",
    "durability": "fdatasync32",
}


@pytest.mark.parametrize("width", [100, 120, 200])
def test_lines_fit_the_terminal(width):
    cells = [record(gates=UNSETTLED), record(axes=LONG, gates=[gate("a", "warning")], max_ns=2**42)]
    voids = [
        {
            "case": "c",
            "axes": {**GOLDEN["axes"], **LONG},
            "gate": "device_bytes",
            "reason": "too few bytes " * 20,
            "evidence": [],
        }
    ]
    text = tables.results_table(cells, width) + tables.best_worst(cells, 1, width) + tables.voids_table(voids, width)
    assert max(map(len, text.splitlines())) <= width


def test_a_long_case_is_cut_in_the_middle():
    line = tables.results_table([record(axes=LONG)], 100).splitlines()[2]
    case = line.split("  ")[0]
    assert re.fullmatch(r"micro/randwrite_fdatasy?n?c?.*\.\.\..*cold fdatasync32", case)
    assert "1.31" in line


def test_a_narrow_terminal_costs_no_figure():
    lines = tables.results_table([record(axes=LONG)], 40).splitlines()
    for figure in ("1.31", "20k", "1.5ms", "2.01ms", "5ms", "0.50", "2.62"):
        assert f"  {figure}" in lines[2]


def test_text_stays_what_it_is():
    """Names from a user's targets are not markup, nor emoji."""
    text = tables.results_table([record(axes={"target": "[red]:smile:"})])
    assert "[red]:smile:" in text


def test_best_and_worst_of_each_workload():
    cells = [record(gb=float(gb), axes={"qd": gb}) for gb in (3, 1, 6, 2, 5, 4)]
    cells.append(record(gb=0.5, axes={"workload": "micro/randread", "bs": 4096}, gates=UNSETTLED))
    cells[0]["gates"] = [gate("hidden", "unsettled")]  # its row is not shown, so the legend must not name it
    lines = tables.best_worst(cells, 2, 120).splitlines()
    assert lines[2] == "inference/kv_fetch: 6 cells, best first"
    assert [line.split()[:4] for line in lines[3:8]] == [
        ["io_uring", "virtual", "64k", "qd6"],
        ["io_uring", "virtual", "64k", "qd5"],
        ["...", "2", "between", "..."],
        ["io_uring", "virtual", "64k", "qd2"],
        ["io_uring", "virtual", "64k", "qd1"],
    ]
    assert [line.split()[4] for line in (lines[3], lines[4], lines[6], lines[7])] == ["6.00", "5.00", "2.00", "1.00"]
    assert lines[8] == "micro/randread: 1 cells, best first"
    assert lines[9].startswith("  io_uring virtual 4k qd32")
    assert lines[10:] == ["U = unsettled: true but not steady, never used by a recommendation (stable)"]


def test_few_cells_are_all_shown():
    text = tables.best_worst([record(gb=float(gb)) for gb in range(1, 7)], 3)
    assert "between" not in text
    assert len(text.splitlines()) == 2 + 1 + 6


def test_the_order_given_is_not_changed():
    cells = [record(gb=1.0), record(gb=2.0)]
    tables.best_worst(cells)
    assert [cell["gb_per_s"] for cell in cells] == [1.0, 2.0]


def test_voids_show_the_whole_reason():
    voids = [
        {
            "case": "c",
            "axes": GOLDEN["axes"],
            "gate": "littles_law",
            "reason": "12.0 requests from latency, 32.0 in flight",
            "evidence": [],
        },
        {
            "case": "c",
            "axes": {**GOLDEN["axes"], "qd": 1},
            "gate": "enough_io",
            "reason": "3 I/Os in 0.1 s",
            "evidence": [],
        },
    ]
    text = tables.voids_table(voids, 110)
    assert text.splitlines() == [
        "void case                                     gate         why",
        "-" * 101,
        "inference/kv_fetch io_uring virtual 64k qd32  littles_law  12.0 requests from latency, 32.0 in flight",
        "inference/kv_fetch io_uring virtual 64k qd1   enough_io    3 I/Os in 0.1 s",
    ]
    narrow = " ".join(tables.voids_table(voids, 40).split())
    assert "12.0 requests from latency, 32.0 in flight" in narrow


def test_colour_only_when_asked():
    cells = [record(gates=UNSETTLED)]
    assert "\x1b[" not in tables.results_table(cells)
    coloured = tables.results_table(cells, colour=True)
    assert "\x1b[" in coloured
    plain = [line.rstrip() for line in re.sub(r"\x1b\[[0-9;]*m", "", coloured).splitlines()]
    assert plain == tables.results_table(cells).splitlines()
