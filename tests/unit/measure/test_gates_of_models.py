"""Gates on made-up observations of a model's records (our own logic): what a pass must last, and what is late."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from pytest_gpuio.datapaths import DATAPATHS, Proof
from pytest_gpuio.measure import gates
from pytest_gpuio.measure.binned import pack
from pytest_gpuio.measure.plan import Plan, ReplayFile, ReplayPlan
from pytest_gpuio.measure.totals import sum_up
from pytest_gpuio.results.histogram import bin_of

REPLAY = ReplayPlan("r", "g", "o", (ReplayFile("a", 2 << 20, 1 << 30, 1),), 10, 10, 0, 1000, 10**8, True, 0.1)
PLAN = Plan(
    engine="io_uring", library=None, path="/t/models", region_offset=2 << 20, region_bytes=1 << 30, pattern_seed=1,
    order="random", read_percent=100, zipf_theta=0.0, bs=1 << 20, qd=16, jobs=1, submit_batch=1, reap_batch=1, knobs=(),
    cache="direct", sync="none", sync_every=0, dsync=False, round="region", window_s=0.25, precision=0.02, max_time=1.0,
    timeout_s=60.0, verify="sweep", counted=("8:0",), interrupt_names=(), cpus=(0,), seed=1, replay=REPLAY,
)  # fmt: skip


def observe(path: str = "io_uring", counters: Any = None, **changes: Any) -> gates.Observed:
    """Six passes of 1,000 records, 100 MB in half a second each, on average 2 requests in flight."""
    window = {
        "start_ns": 0, "end_ns": 5 * 10**8, "ios": 1000, "reads": 1000, "writes": 0, "bytes": 10**8, "errors": 0,
        "short_ios": 0, "first_error": 0, "first_error_op": 0, "first_error_offset": 0, "syncs": 0, "sync_ns": 0,
        "cpu_ns": 10**8, "user_ns": 1, "system_ns": 1, "minor_faults": 0, "major_faults": 0, "voluntary_switches": 0,
        "involuntary_switches": 0, "mean_in_flight": 2.0, "steady_ns": 5 * 10**8, "steady_ios": 1000,
        "steady_lat_ns": 10**9, "steady_rate": 2000.0, "max_in_flight": 3, "verified": 0, "bad": 0,
        "first_bad_offset": 0,
        "clock_ppm": 0.0, "scheduled": 100, "late": 0,
    } | changes  # fmt: skip
    lat = {"count": 6000, "overflow": 0, "sum_ns": 6 * 10**9, "min_ns": 10**6, "max_ns": 10**6}
    lat |= {"bins": pack({bin_of(10**6): 6000})}
    outcome = {
        "windows": [window] * 6, "counters": counters, "resident_before": 0, "resident_after": 0,
        "sweep": {"checked": 16, "bad": 0, "first_bad": 0}, "latency": {"lat": lat, "clat": lat, "slat": lat},
        "clock": {"source": "tsc", "cost_ns": 10.0, "resolution_ns": 10},
    }  # fmt: skip
    return gates.Observed(PLAN, DATAPATHS[path], "nvme_ssd", outcome, sum_up(PLAN, outcome), Proof(path, ("evidence",)))


def result(seen: gates.Observed, name: str) -> gates.GateResult:
    return {result.gate: result for result in gates.check(seen)}[name]


def test_a_pass_needs_no_twenty_depths_but_a_few_milliseconds() -> None:
    assert result(observe(), "enough_io").state == "passed"
    assert result(observe(ios=5, reads=5), "enough_io").state == "passed"
    short = result(observe(end_ns=1_900_000), "enough_io")
    assert short.state == "failed"
    assert "larger --gpuio-scale" in short.detail
    assert result(observe(path="null", end_ns=1_000), "enough_io").state == "exempt"


def test_the_model_decides_what_is_in_flight() -> None:
    assert result(observe(), "depth_achieved").state == "exempt"
    assert result(observe(), "tool_bound").state == "exempt"


@pytest.mark.parametrize(
    ("late", "most", "state"),
    # Of 600 groups: 6 are a hundredth. More are the tool's fault while there was room for requests.
    [(1, 3, "passed"), (2, 3, "failed"), (2, 16, "passed"), (100, 16, "passed")],
)
def test_groups_may_start_late_only_when_every_request_slot_was_taken(late: int, most: int, state: str) -> None:
    assert result(observe(late=late, max_in_flight=most), "open_loop_lag").state == state


def test_device_bytes_are_held_against_the_bytes_that_were_moved() -> None:
    # 600 MB were completed, in records far smaller than the block of 1 MiB; 16 of those may straddle the ends.
    moved = {
        "read_ios": 6000, "read_bytes": 6 * 10**8, "write_ios": 0, "write_bytes": 0, "read_ticks": 12_000,
        "write_ticks": 0,
    }  # fmt: skip
    assert result(observe(counters=moved), "device_bytes").state == "passed"
    assert result(observe(counters=moved | {"read_bytes": 5 * 10**8}), "device_bytes").state == "failed"
    assert result(observe(counters=moved), "requests_whole").state == "exempt"


def test_littles_law_is_not_asked_of_a_queue_that_is_hardly_ever_filled() -> None:
    assert result(observe(), "littles_law").state == "passed"
    assert result(observe(mean_in_flight=3.0), "littles_law").state == "failed"
    assert result(observe(mean_in_flight=0.3, steady_lat_ns=10**8), "littles_law").state == "unknown"


def test_the_plan_survives_its_way_to_the_child() -> None:
    import json

    sent = json.loads(json.dumps(PLAN.to_params()))
    assert Plan.from_params(sent) == PLAN
    without = replace(PLAN, replay=None)
    assert Plan.from_params(json.loads(json.dumps(without.to_params()))) == without
