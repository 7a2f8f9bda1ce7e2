"""Several ranks' observations as one."""

from __future__ import annotations

import copy

import pytest

from pytest_gpuio.measure.binned import pack, unpack
from pytest_gpuio.measure.merge import RankPart, in_step, merge_outcomes, shares

ZERO = (
    "errors", "short_ios", "first_error", "first_error_op", "first_error_offset", "syncs", "sync_ns", "user_ns",
    "system_ns", "minor_faults", "major_faults", "voluntary_switches", "involuntary_switches", "verified", "bad",
    "first_bad_offset", "clock_ppm", "scheduled", "late", "total_in_flight", "total_ns", "total_ios", "total_lat_ns",
    "total_rate", "max_total", "copies", "copied_bytes", "writes",
)  # fmt: skip


def window(start_s, seconds, ios):
    return dict.fromkeys(ZERO, 0) | {
        "start_ns": round(start_s * 1e9),
        "end_ns": round((start_s + seconds) * 1e9),
        "ios": ios,
        "reads": ios,
        "bytes": ios * 4096,
        "cpu_ns": round(seconds * 1e8),
        "mean_in_flight": 2.0,
        "steady_ns": round(seconds * 1e9),
        "steady_ios": ios,
        "steady_lat_ns": ios * 1000,
        "steady_rate": ios / seconds,
        "max_in_flight": 2,
    }


def latency(bins, low, high):
    count = sum(bins.values())
    return {"count": count, "overflow": 0, "sum_ns": 10 * count, "min_ns": low, "max_ns": high, "bins": pack(bins)}


def outcome(*windows, **more):
    cpu = {
        "runqueue_wait_s": 0.5, "steal_s": 0.1, "irq_s": 0.2, "softirq_s": None, "irq_reason": None, "daemons": [],
        "sq_useful_share": None, "sq_reason": None, "cycles_per_io": None, "instructions_per_io": None,
        "perf_reason": "none here", "control": {},
    }  # fmt: skip
    values = {
        "windows": list(windows),
        "latency": {"lat": latency({3: 1, 5: 2}, 30, 50)},
        "threads": [{"name": "worker0", "role": "submitter", "seconds": 0.1, "tid": 12}],
        "cpu": cpu,
        "counters": {"read_bytes": 1000, "read_ios": 10},
        "interrupts": 7,
        "resident_before": 0,
        "resident_after": 4096,
        "sweep": {"checked": 4, "bad": 0, "first_bad": 0},
        "buffers": {"bytes": 4096, "huge_bytes": 0},
        "knobs": ["fixed_buffers", "merged_wait"],
        "ios_per_window": windows[0]["ios"] if windows else 0,
        "offered_rate": None,
        "setup_seconds": 1.0,
        "warmup": 2,
        "warmup_seconds": 0.5,
    }
    return copy.deepcopy(values | more)


def part(rank, found, machine="a", **more):
    values = {"host": f"node-{machine}", "target": f"/mnt/rank-{rank}", "counted": ("8:0",)}
    return RankPart(rank, machine=machine, outcome=found, **values | more)


def test_a_window_is_from_the_first_start_to_the_last_end_in_rank_0_s_clock():
    here = part(0, outcome(window(100.0, 1.0, 50)))
    # Its clock is 900 s ahead: it began 0.1 s later and ended 0.6 s later.
    there = part(1, outcome(window(1000.1, 1.5, 150)), machine="b", offset_ns=900 * 10**9)
    (merged,) = merge_outcomes([here, there])["windows"]
    assert (merged["start_ns"], merged["end_ns"]) == (100 * 10**9, round(101.6e9))
    assert (merged["ios"], merged["bytes"], merged["max_in_flight"]) == (200, 200 * 4096, 4)
    # 2 requests for 1 s and 2 for 1.5 s, over 1.5 s.
    assert merged["mean_in_flight"] == pytest.approx(2.0 * 2.5 / 1.5)
    assert merged["steady_rate"] == pytest.approx(200 / 1.5)


def test_sums_and_what_a_machine_counts_only_once():
    one = part(0, outcome(window(0, 1, 10)))
    same = part(1, outcome(window(0, 1, 10)))
    other = part(2, outcome(window(0, 1, 10)), machine="b")
    merged = merge_outcomes([one, same, other])
    assert merged["cpu"]["irq_s"] == pytest.approx(0.4)
    assert merged["cpu"]["softirq_s"] is None
    assert merged["cpu"]["runqueue_wait_s"] == pytest.approx(1.5)
    assert merged["counters"] == {"read_bytes": 2000, "read_ios": 20}
    assert merged["interrupts"] == 14
    assert merged["resident_after"] == 3 * 4096
    assert merged["sweep"] == {"checked": 12, "bad": 0, "first_bad": 0}
    assert [thread["tid"] for thread in merged["threads"]] == [12, None, None]
    # Another device of the same machine counts beside it.
    same = part(1, outcome(window(0, 1, 10)), counted=("8:16",))
    assert merge_outcomes([one, same, other])["counters"]["read_bytes"] == 3000


def test_daemons_of_one_machine_are_one():
    def served(rank, machine, seconds):
        found = outcome(window(0, 1, 10))
        found["cpu"]["daemons"] = [{"pid": 9, "name": "hf3fs_fuse_main", "seconds": seconds}]
        return part(rank, found, machine=machine)

    merged = merge_outcomes([served(0, "a", 1.0), served(1, "a", 2.0), served(2, "b", 4.0)])
    assert sorted(daemon["seconds"] for daemon in merged["cpu"]["daemons"]) == [2.0, 4.0]


def test_histograms_add_up_and_empty_ones_have_no_minimum():
    empty = {"lat": {"count": 0, "overflow": 0, "sum_ns": 0, "min_ns": 2**64 - 1, "max_ns": 0, "bins": pack({})}}
    parts = [
        part(0, outcome(window(0, 1, 10), latency=empty)),
        part(1, outcome(window(0, 1, 10))),
        part(2, outcome(window(0, 1, 10), latency={"lat": latency({5: 1, 9: 4}, 20, 90)})),
    ]
    merged = merge_outcomes(parts)["latency"]["lat"]
    assert unpack(merged["bins"]) == {3: 1, 5: 3, 9: 4}
    assert (merged["count"], merged["min_ns"], merged["max_ns"]) == (8, 20, 90)


def test_knobs_are_what_every_rank_had():
    parts = [part(0, outcome(window(0, 1, 1))), part(1, outcome(window(0, 1, 1), knobs=["merged_wait"]))]
    assert merge_outcomes(parts)["knobs"] == ["merged_wait"]


def test_ranks_out_of_step_are_no_cell():
    with pytest.raises(ValueError, match="different numbers of windows"):
        merge_outcomes([part(0, outcome(window(0, 1, 1))), part(1, outcome(window(0, 1, 1), window(1, 1, 1)))])


def test_shares_name_the_straggler_and_the_slowest_rank():
    parts = [
        part(0, outcome(window(0, 1.0, 1000), window(2, 1.0, 1000))),
        part(1, outcome(window(0.1, 1.0, 1000), window(2, 1.1, 1000))),
        part(2, outcome(window(50.0, 4.0, 1000), window(52.0, 4.0, 1000)), machine="b", offset_ns=50 * 10**9,
             uncertainty_ns=300, drift_ns=-20),
    ]  # fmt: skip
    found = shares(parts)
    assert (found["count"], found["hosts"]) == (3, 2)
    assert found["max_rank_s"] == 4.0
    assert found["start_spread_s"] == pytest.approx(0.1)
    assert found["clock_uncertainty_s"] == pytest.approx(3e-7)
    assert found["min_rank_gb_per_s"] == pytest.approx(2000 * 4096 / 8 / 1e9)
    (straggler,) = found["stragglers"]
    assert (straggler["rank"], straggler["host"]) == (2, "node-b")
    assert straggler["share_of_median_rate"] == pytest.approx((2000 / 8) / (2000 / 2.1))
    assert found["each"][2]["clock_drift_s"] == pytest.approx(-2e-8)


def test_ranks_that_move_no_bytes_are_weighed_by_requests():
    quick = [window(0, 1.0, 1000) | {"bytes": 0}]
    slow = [window(0, 2.0, 1000) | {"bytes": 0}]
    found = shares([part(0, outcome(*quick)), part(1, outcome(*quick)), part(2, outcome(*slow))])
    assert [one["rank"] for one in found["stragglers"]] == [2]


@pytest.mark.parametrize(("apart", "state"), [(0.0, "passed"), (0.099, "passed"), (0.101, "failed")])
def test_windows_that_began_apart_are_flagged(apart, state):
    parts = [part(0, outcome(window(0, 1.0, 10))), part(1, outcome(window(apart, 1.0, 10)))]
    found = in_step(shares(parts))
    assert (found.gate, found.kind, found.state) == ("in_step", "unsettled", state)
    assert f"up to {apart * 1e3:.3g} ms apart" in found.detail
