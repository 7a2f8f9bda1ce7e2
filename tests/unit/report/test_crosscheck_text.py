"""The table of a cell by two tools, from a made-up result."""

from pytest_gpuio.report.crosscheck import aligned, cell_text


def spread(median, low, high):
    return {"median": median, "low": low, "high": high, "count": 7}


def figure(ours, fio, ratio, floor):
    return {"unit": "", "ours": ours, "fio": fio, "ratio": ratio, "noise_floor": floor}


UNKNOWN = figure(None, None, None, None)
NAMES = ("iops", "bytes_per_s", "lat_mean", "lat_p50", "lat_p99", "lat_p999")
CPU = ("cores_told", "cores_process", "cores_host", "cpu_told", "cpu_process", "cpu_host")

FOUND = {
    "title": "micro/randread psync virtual 4k qd1 on /x: 7 pairs of 2 s",
    "fio": {"path": "/usr/bin/fio", "version": "fio-3.33"},
    "figures": {
        **dict.fromkeys((*NAMES, *CPU), UNKNOWN),
        "iops": figure(spread(20e3, 19e3, 21e3), spread(18e3, 17e3, 19e3), spread(1.11, 1.05, 1.2), [0.97, 1.03]),
        "lat_p99": figure(spread(70e3, 60e3, 80e3), spread(71e3, 60e3, 80e3), spread(0.99, 0.9, 1.1), [0.9, 1.11]),
        "cpu_process": figure(spread(1.2e-6, 1e-6, 2e-6), None, None, None),
    },
    "foreign_share": spread(0.02, 0.01, 0.05),
    "disturbed": "strangers used 2% of the CPUs, 1% are allowed",
    "known_faults": [{"name": "x", "sentence": "fio is wrong here."}],
    "unmatched": ["pages differ"],
    "interrupted": True,
}


def test_a_cell():
    lines = cell_text(FOUND).splitlines()
    assert lines[:2] == ["micro/randread psync virtual 4k qd1 on /x: 7 pairs of 2 s", "fio: fio-3.33"]
    table = {line.split("  ")[0]: line for line in lines[3:9]}
    assert "20k [19k .. 21k]" in table["IOPS"]
    assert "1.11 [1.05 .. 1.20]" in table["IOPS"]
    assert table["IOPS"].endswith("0.97 .. 1.03")  # outside fio's own noise: decided
    assert table["lat p99"].endswith("not decided")
    assert "1.2us [1us .. 2us]" in table["CPU/IO, its process"]
    assert "lat mean" not in table  # nobody measured it
    text = "\n".join(lines)
    assert "Known fault: fio is wrong here." in text
    assert "Too much to decide anything: strangers used 2% of the CPUs, 1% are allowed." in text
    assert "Not the same: pages differ." in text
    assert "Strangers used 2% [1% .. 5%] of the CPUs." in text
    assert lines[-1].startswith("Interrupted")
    assert max(map(len, lines)) <= 120


def test_columns_stand_under_each_other():
    lines = aligned([["", "a", "bb"], ["long name", "1", "2"], ["x", "333", ""]])
    assert lines == ["           a    bb", "---------  ---  --", "long name  1    2", "x          333"]
