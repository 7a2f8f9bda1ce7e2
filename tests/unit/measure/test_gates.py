"""Gates on made-up observations (our own logic); the situations themselves are built for real in tests/plugin."""

import dataclasses
from typing import Any

import pytest

from pytest_gpuio.datapaths import DATAPATHS, Proof
from pytest_gpuio.measure import gates
from pytest_gpuio.measure.plan import Plan
from pytest_gpuio.measure.totals import sum_up

PLAN = Plan(
    engine="io_uring", library=None, path="/t/gpuio-read.dat", region_offset=2 << 20, region_bytes=1 << 30,
    pattern_seed=1, order="random", read_percent=100, zipf_theta=0.0, bs=4096, qd=32, jobs=1, submit_batch=1,
    reap_batch=1,
    knobs=(), cache="direct", sync="none", sync_every=0, dsync=False, round="time", window_s=0.25, precision=0.02,
    max_time=10.0, timeout_s=60.0, verify="sweep", counted=("8:0",), interrupt_names=(), cpus=(0,), seed=1,
)  # fmt: skip


def window(**changes: Any) -> dict[str, Any]:
    """100,000 reads of 4 KiB at depth 32 in one second: 320 us each."""
    values = {
        "start_ns": 0, "end_ns": 10**9, "ios": 100_000, "reads": 100_000, "writes": 0, "bytes": 409_600_000,
        "errors": 0, "short_ios": 0, "first_error": 0, "first_error_op": 0, "first_error_offset": 0,
        "syncs": 0, "sync_ns": 0,
        "cpu_ns": 5 * 10**8, "user_ns": 1, "system_ns": 1, "minor_faults": 0, "major_faults": 0,
        "voluntary_switches": 0, "involuntary_switches": 0, "mean_in_flight": 32.0, "steady_ns": 10**9,
        "steady_ios": 100_000,
        "steady_lat_ns": 100_000 * 320_000, "steady_rate": 100_000.0, "max_in_flight": 32, "verified": 0, "bad": 0,
        "first_bad_offset": 0, "clock_ppm": 0.0,
    }  # fmt: skip
    return values | changes


def observe(
    *windows: dict[str, Any], plan: Plan = PLAN, path: str = "io_uring", medium: str = "nvme_ssd", **changes: Any
) -> gates.Observed:
    outcome = {
        "windows": list(windows) or [window(start_ns=n * 10**9, end_ns=(n + 1) * 10**9) for n in range(6)],
        "counters": None,
        "resident_before": 0,
        "resident_after": 0,
        "sweep": {"checked": 32, "bad": 0, "first_bad": 0},
    } | changes
    totals = sum_up(plan, outcome)
    return gates.Observed(plan, DATAPATHS[path], medium, outcome, totals, Proof(path, ("evidence",)))


def state(seen: gates.Observed, name: str) -> str:
    return {result.gate: result for result in gates.check(seen)}[name].state


def detail(seen: gates.Observed, name: str) -> str:
    return {result.gate: result for result in gates.check(seen)}[name].detail


def counters(**changes: float) -> dict[str, float]:
    values = {
        "read_ios": 600_000, "read_bytes": 600_000 * 4096, "write_ios": 0, "write_bytes": 0,
        "time_in_queue_ms": 6 * 30_000,
    }  # fmt: skip
    return values | changes


def test_a_sound_observation_passes_every_gate_or_says_unknown():
    states = {result.gate: result.state for result in gates.check(observe())}
    assert set(states.values()) <= {"passed", "unknown"}
    assert states["device_bytes"] == "unknown"


def test_with_counters_nothing_is_unknown():
    assert {result.state for result in gates.check(observe(counters=counters()))} == {"passed"}


def test_bytes_multiplied_by_depth_break_littles_law():
    # Case D1: throughput counted depth times too high, latency unchanged.
    wrong = window(steady_rate=100_000.0 * 32)
    assert state(observe(wrong, wrong), "littles_law") == "failed"


def test_littles_law_limit_is_five_percent():
    assert state(observe(window(steady_rate=104_900.0)), "littles_law") == "passed"
    assert state(observe(window(steady_rate=105_100.0)), "littles_law") == "failed"
    assert state(observe(window(steady_rate=94_900.0)), "littles_law") == "failed"


def test_no_steady_stretch_is_unknown_not_passed():
    assert state(observe(window(steady_ns=0, steady_ios=0, mean_in_flight=0.0)), "littles_law") == "unknown"


def test_failed_requests_name_operation_offset_and_error():
    seen = observe(window(errors=3, first_error=-28, first_error_op=1, first_error_offset=8192))
    assert state(seen, "no_errors") == "failed"
    assert "a write of 4,096 bytes at offset 8,192" in detail(seen, "no_errors")
    assert "ENOSPC (No space left on device)" in detail(seen, "no_errors")


def test_the_first_failing_window_is_named():
    seen = observe(window(), window(errors=1, first_error=-5, first_error_offset=77))
    assert "offset 77" in detail(seen, "no_errors")


def test_short_io():
    assert state(observe(window(short_ios=1)), "no_short_io") == "failed"


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({"ios": 640}, "passed"),
        ({"ios": 639}, "failed"),
        ({"end_ns": 100_000_000}, "passed"),
        ({"end_ns": 99_999_999}, "failed"),
    ],
)
def test_enough_io_needs_twenty_depths_and_a_tenth_of_a_second(changes, expected):
    assert state(observe(window(**changes)), "enough_io") == expected


@pytest.mark.parametrize(
    ("in_flight", "depth", "tool"), [(15.9, "failed", "failed"), (16.1, "passed", "failed"), (29.0, "passed", "passed")]
)
def test_depth_reached(in_flight, depth, tool):
    seen = observe(window(mean_in_flight=in_flight))
    assert state(seen, "depth_achieved") == depth
    assert state(seen, "tool_bound") == tool


def test_a_device_that_never_held_the_depth_is_found_although_the_tool_counted_it():
    # Buffered libaio: the submit call itself waits, so the device holds one request of the 32.
    assert state(observe(counters=counters(time_in_queue_ms=6 * 1000)), "depth_achieved") == "failed"


def test_device_depth_is_not_asked_of_memory_or_of_one_request_at_a_time():
    shallow = counters(time_in_queue_ms=1)
    assert state(observe(counters=shallow, medium="ram"), "depth_achieved") == "passed"
    single = dataclasses.replace(PLAN, qd=1)
    assert (
        state(observe(window(mean_in_flight=0.9), plan=single, path="psync", counters=shallow), "depth_achieved")
        == "passed"
    )


def test_bytes_from_the_page_cache_are_found_by_the_block_layer():
    assert state(observe(counters=counters(read_bytes=600_000 * 4096 * 0.94)), "device_bytes") == "failed"
    assert state(observe(counters=counters(read_bytes=600_000 * 4096 * 0.96)), "device_bytes") == "passed"


def test_a_growing_page_cache_is_not_direct_io():
    assert state(observe(resident_after=200_000), "device_bytes") == "failed"
    hot = dataclasses.replace(PLAN, cache="hot")
    assert state(observe(plan=hot, resident_after=200_000), "device_bytes") == "exempt"


def test_data_must_be_checked_and_right():
    assert state(observe(sweep={"checked": 0, "bad": 0, "first_bad": 0}), "data_verified") == "failed"
    assert state(observe(sweep={"checked": 32, "bad": 1, "first_bad": 4096}), "data_verified") == "failed"
    off = dataclasses.replace(PLAN, verify="none")
    assert state(observe(plan=off, sweep=None), "data_verified") == "unknown"


def test_another_path_than_asked_is_impossible():
    seen = dataclasses.replace(observe(), proof=Proof("psync", ("engine psync",)))
    assert state(seen, "path_proved") == "failed"
    assert "asked for io_uring, got psync" in detail(seen, "path_proved")


def test_null_is_exempt_where_nothing_moves():
    plan = dataclasses.replace(PLAN, engine="null", path=None, counted=())
    seen = observe(plan=plan, path="null", medium="ram", sweep={"checked": 0, "bad": 0, "first_bad": 0})
    states = {result.gate: result.state for result in gates.check(seen)}
    assert states["data_verified"] == states["littles_law"] == states["depth_achieved"] == "exempt"
    assert "failed" not in states.values()


def test_spread_and_drift_are_unsettled_not_impossible():
    jumpy = [window(start_ns=0, end_ns=ns) for ns in (10**9, 2 * 10**9, 10**9, 2 * 10**9)]
    drifting = [window(start_ns=0, end_ns=int(10**9 * factor)) for factor in (1.0, 1.0, 1.0, 1.12, 1.12, 1.12)]
    for windows in (jumpy, drifting):
        results = {result.gate: result for result in gates.check(observe(*windows))}
        assert results["stable"].state == "failed"
        assert results["stable"].kind == "unsettled"


def test_one_window_has_no_known_spread():
    assert state(observe(window()), "stable") == "failed"


def test_split_requests_are_a_warning():
    seen = observe(counters=counters(read_ios=1_200_000))
    assert state(seen, "requests_whole") == "failed"
    assert {result.gate: result.kind for result in gates.check(seen)}["requests_whole"] == "warning"


def test_totals_are_sums_of_completion_records():
    totals = sum_up(PLAN, observe(window(), window(ios=50_000, reads=50_000, bytes=204_800_000)).outcome)
    assert (totals.ios, totals.bytes, totals.seconds) == (150_000, 614_400_000, 2.0)
    assert totals.costs == (1e-5, 2e-5)


def test_no_window_is_an_error():
    with pytest.raises(ValueError, match="no window"):
        sum_up(PLAN, {"windows": []})


def test_gate_names_are_unique_and_impossible_ones_come_first():
    kinds = [gate.kind for gate in gates.GATES]
    assert len({gate.name for gate in gates.GATES}) == len(gates.GATES)
    assert kinds == sorted(kinds, key=["impossible", "unsettled", "warning"].index)


def test_a_failed_sync_belongs_to_no_offset():
    seen = observe(window(errors=1, first_error=-5, first_error_offset=2**64 - 1))
    assert detail(seen, "no_errors") == "fsync or fdatasync of /t/gpuio-read.dat failed: EIO (Input/output error)"


def test_device_depth_is_not_judged_by_requests_that_are_half_flushes():
    # O_DSYNC without FUA: each write is followed by a flush, which counts as a request of no bytes.
    plan = dataclasses.replace(PLAN, dsync=True, read_percent=0)
    halved = counters(
        write_ios=1_200_000, write_bytes=600_000 * 4096, read_ios=0, read_bytes=0, time_in_queue_ms=6 * 9_000
    )
    assert state(observe(plan=plan, counters=halved), "depth_achieved") == "passed"
