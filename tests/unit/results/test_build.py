import json
from pathlib import Path

import pytest

from pytest_gpuio.core.cell import Cell
from pytest_gpuio.results import build, histogram, validate

GOLDEN = Path(__file__).parents[2] / "golden" / "cell_record.json"

#: 20,000 latencies: 10,000 of 1.5 ms, 9,900 of 2 ms, 100 of 5 ms; the sum is 35.3 s.
BINS = {histogram.bin_of(1_500_000): 10_000, histogram.bin_of(2_000_000): 9_900, histogram.bin_of(5_000_000): 100}
LAT = {"count": 20_000, "overflow": 0, "min_ns": 1_500_000, "max_ns": 5_000_000, "sum_ns": 35_300_000_000, "bins": BINS}

METERED = {
    "irq_s": None,
    "softirq_s": None,
    "irq_reason": "already inside task time (no IRQ_TIME_ACCOUNTING)",
    "daemons": [],
    "sq_useful_share": None,
    "sq_reason": "no submission poller",
    "cycles_per_io": None,
    "instructions_per_io": None,
    "perf_reason": "the processor's counters are not there (ENOENT): usual in virtual machines",
    "runqueue_wait_s": 0.125,
    "steal_s": 0.0,
    "control": {
        "trusted": False,
        "reason": "the measured stretch lasted 1.0 s: /proc/stat counts in steps of 10 ms, 4 s are needed",
        "seconds": 1.0,
        "truth_s": 0.875,
        "parts_s": 0.5,
        "elsewhere_s": 0.25,
        "elsewhere": {"kworker loop0": 0.1875, "others": 0.0625},
        "no_task_s": None,
        "unattributed_s": 0.125,
        "unattributed_share": 0.125 / 0.875,
        "uncertainty_s": 0.046875,
        "idle_cores": None,
    },
}


def make_record(**changes):
    """A record by way of the builders; 20,000 random 64 KiB reads in exactly one second."""
    lat = build.distribution(**LAT)
    arguments = {
        "requested": {"datapath": "io_uring", "direct": True, "qd": 32, "bs": 65536, "knobs": ["fixed_buffers"]},
        "effective": {
            "datapath": "io_uring",
            "direct": True,
            "in_flight": 31.5,
            "request_bytes": 65536.0,
            "knobs": ["fixed_buffers"],
            "knob_reason": None,
            "evidence": ["engine io_uring", "O_DIRECT is set on the open file"],
        },
        "reads": 20_000,
        "writes": 0,
        "bytes_moved": 1_310_720_000,
        "latency": {"lat": lat, "clat": lat, "slat": None, "slat_reason": "submission is merged with the wait"},
        "windows": {
            "count": 4,
            "warmup": 2,
            "ios_per_window": 5_000,
            "seconds": [0.25, 0.25, 0.125, 0.375],
            "start_ns": [1_000_000_000, 1_250_000_000, 1_500_000_000, 1_625_000_000],
            "rel_ci": 0.017,
            "precision": 0.02,
            "stop_reason": "precision",
            "warmup_reason": "flat",
            "drift": {"slope_per_window_rel": 0.0, "first_to_last": 0.0, "trend_p": 1.0, "change_points": []},
        },
        "cpu": build.cpu_cost(
            seconds=0.5,
            user_s=0.125,
            system_s=0.375,
            threads=[{"name": "worker 0", "role": "submitter", "seconds": 0.5, "tid": 4711}],
            voluntary_switches=20_000,
            involuntary_switches=3,
            minor_faults=0,
            major_faults=0,
            wall_s=1.0,
            ios=20_000,
            bytes_moved=1_310_720_000,
            qd=32,
            polling_s=[],
            metered=METERED,
        ),
        "device": {
            "known": True,
            "reason": None,
            "counted": ["254:0"],
            "read_bytes": 1_310_720_000,
            "write_bytes": 0,
            "read_ios": 20_000,
            "write_ios": 0,
            "in_flight": 31.25,
            "request_bytes": 65536.0,
            "bytes_ratio": 1.0,
        },
        "clock": {"source": "tsc", "cost_ns": 9.5, "resolution_ns": 1, "ppm": 0.5},
        "buffers": {"bytes": 2_097_152, "huge_bytes": 2_097_152},
        "verify": {"mode": "sweep", "checked": 32, "bad": 0},
        "durability": {"mode": "none", "syncs": 0, "sync_seconds": 0.0},
        "placement": {
            "requested": "near",
            "worker_cpus": [1],
            "irq_cpus": None,
            "device_nodes": [0],
            "worker_nodes": [0],
            "buffer_nodes": [0],
            "distance": "same_node",
            "evidence": "device and CPUs 1 belong to node 0.",
        },
        "target": {
            "name": "default",
            "path": "/data/.gpuio/gpuio-read.dat",
            "medium": "virtual",
            "medium_evidence": ["vda is a virtio disk"],
            "file_system": "ext4",
            "mount_options": "rw,relatime",
            "devices": [{"name": "vda", "dev": "254:0"}],
            "file_bytes": 1_075_838_976,
            "region_bytes": 1_073_741_824,
            "alignment": 512,
            "alignment_source": "statx",
        },
        "cache": {"mode": "direct", "resident_before": 0, "resident_after": 0},
        "open_loop": None,
        "gpu": None,
        "surroundings": {
            "steal_share": 0.0,
            "steal_ticks": 0,
            "cpu_throttles": None,
            "quota_stops": 0,
            "longest_wait": {"thread": "python3", "seconds": 0.002},
            "temperatures": [{"device": "nvme0n1", "before": 41.0, "after": 43.5}],
            "hot": [],
            "io_limits": [],
        },
        "gates": [
            {"gate": "no_errors", "class": "impossible", "state": "passed", "detail": "0 errors, 0 short"},
            {"gate": "stable", "class": "unsettled", "state": "failed", "detail": "windows differ by a factor of 3"},
        ],
        "setup_seconds": 0.004,
        "seed": 1,
        "profile": "quick",
    }
    cell = Cell("test_inference.test_kv_fetch", "io_uring", "virtual", "default", "inference/kv_fetch", 65536, 32, 1)
    return build.cell_record(cell, **{**arguments, **changes})


def test_a_record_of_schema_version_1_stays_as_it_is():
    record, golden = json.loads(json.dumps(make_record())), json.loads(GOLDEN.read_text())
    for name in ("lat", "clat"):  # deflated bytes may differ between versions of zlib; what they hold may not
        mine, theirs = record["latency"][name], golden["latency"][name]
        mine["histogram"], theirs["histogram"] = map(histogram.decode, (mine["histogram"], theirs["histogram"]))
    assert record == golden


def test_totals_and_rates_are_those_worked_out_by_hand():
    record = make_record()
    assert record["ios"] == 20_000
    assert record["seconds"] == 1.0
    assert record["iops"] == 20_000.0
    assert record["gb_per_s"] == 1.31072
    assert record["gib_per_s"] == 1.220703125
    assert record["cpu"]["cores_used"] == 0.5
    assert record["cpu"]["gb_per_s_per_core"] == 2.62144
    assert record["cpu"]["ns_per_io"] == 25_000.0
    assert record["cpu"]["load_point"] == {"qd": 32, "iops": 20_000.0}
    assert record["case"] == (
        "test_inference.test_kv_fetch|datapath=io_uring|medium=virtual|target=default|workload=inference/kv_fetch|"
        "destination=host|bs=64k|qd=32|jobs=1|batch=1x1|cache=direct|durability=none|arrivals=closed"
    )


def test_percentiles_are_bin_middles():
    # 1.5 ms lies in [2^20, 2^21), where bins are 2^14 wide: its bin starts at 91 * 16384, and the middle, 8191 further,
    # is below the minimum. 2 ms: 122 * 16384 + 8191. 5 ms, in bins 2^16 wide: 76 * 65536 + 32767 is above the maximum.
    lat = make_record()["latency"]["lat"]
    assert (lat["p50_ns"], lat["p90_ns"], lat["p99_ns"]) == (1_500_000, 2_007_039, 2_007_039)
    assert lat["p999_ns"] == 5_000_000
    assert lat["mean_ns"] == 1_765_000.0


def test_an_empty_distribution_is_null_not_nan():
    empty = build.distribution(count=0, overflow=0, min_ns=2**64 - 1, max_ns=0, sum_ns=0, bins={})
    assert {name for name, value in empty.items() if value is None} == {
        "min_ns",
        "mean_ns",
        "p50_ns",
        "p90_ns",
        "p95_ns",
        "p99_ns",
        "p999_ns",
        "max_ns",
    }
    assert histogram.decode(empty["histogram"]) == {}


def test_overflow_counts_as_the_largest():
    one = build.distribution(count=1, overflow=1, min_ns=2**43, max_ns=2**43, sum_ns=2**43, bins={})
    assert one["p50_ns"] == one["p999_ns"] == 2**43


def test_no_cpu_seen_gives_null():
    cpu = build.cpu_cost(
        seconds=0.0,
        user_s=0.0,
        system_s=0.0,
        threads=[],
        voluntary_switches=0,
        involuntary_switches=0,
        minor_faults=0,
        major_faults=0,
        wall_s=1.0,
        ios=1,
        bytes_moved=512,
        qd=1,
        polling_s=[],
        metered=METERED,
    )
    assert cpu["gb_per_s_per_core"] is None
    assert cpu["gb_per_s_per_core_reserved"] is None


def cost(**changes):
    values = {
        "seconds": 3.0,
        "user_s": 1.0,
        "system_s": 2.0,
        "threads": [],
        "voluntary_switches": 0,
        "involuntary_switches": 0,
        "minor_faults": 0,
        "major_faults": 0,
        "wall_s": 4.0,
        "ios": 1_000,
        "bytes_moved": 12 * 10**9,
        "qd": 1,
        "polling_s": [],
        "metered": METERED,
    }
    return build.cpu_cost(**{**values, **changes})


def test_daemons_and_interrupts_outside_of_tasks_are_part_of_the_cost():
    daemon = {"pid": 7, "name": "fuse", "seconds": 1.5}
    cpu = cost(metered={**METERED, "irq_s": 0.25, "softirq_s": 1.25, "daemons": [daemon]})
    assert cpu["seconds"] == 3.0
    assert cpu["cores_used"] == cpu["cores_reserved"] == 1.5
    assert cpu["gb_per_s_per_core"] == 2.0
    assert cpu["ns_per_io"] == 6e6


def test_a_thread_that_polls_takes_its_whole_core():
    cpu = cost(polling_s=[3.0, 0.0, 4.1])
    assert cpu["cores_used"] == 0.75
    # 1 s and 4 s of 4 s were left unused on two of the cores; a core is never taken more than once.
    assert cpu["cores_reserved"] == 2.0
    assert cpu["gb_per_s_per_core"] == 4.0
    assert cpu["gb_per_s_per_core_reserved"] == 1.5


def test_disagreeing_inputs_are_refused():
    with pytest.raises(ValueError, match="not the 20000 I/Os"):
        make_record(reads=19_999)
    with pytest.raises(ValueError, match="not 20001"):
        build.distribution(**{**LAT, "count": 20_001})
    windows = make_record()["windows"]
    with pytest.raises(ValueError, match="needs windows"):
        make_record(windows={**windows, "count": 0, "seconds": []})
    with pytest.raises(ValueError, match="needs windows"):
        make_record(windows={**windows, "seconds": [0.5]})


def test_an_unknown_device_is_valid():
    assert validate.validate_cell(make_record(device=build.unknown_device("tmpfs has no block device"))) == []
