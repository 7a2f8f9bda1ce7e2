"""Gates on made-up observations (our own logic); the situations themselves are built for real in tests/plugin."""

import dataclasses
from typing import Any

import pytest

from pytest_gpuio.datapaths import DATAPATHS, Proof
from pytest_gpuio.measure import gates
from pytest_gpuio.measure.binned import pack
from pytest_gpuio.measure.plan import Plan
from pytest_gpuio.measure.totals import sum_up
from pytest_gpuio.media import BlockDevice
from pytest_gpuio.results.histogram import bin_of

PLAN = Plan(
    engine="io_uring", library=None, path="/t/gpuio-read.dat", region_offset=2 << 20, region_bytes=1 << 30,
    pattern_seed=1, order="random", read_percent=100, zipf_theta=0.0, bs=4096, qd=32, jobs=1, submit_batch=1,
    reap_batch=1,
    knobs=(), cache="direct", sync="none", sync_every=0, dsync=False, round="time", window_s=0.25, precision=0.02,
    max_time=10.0, timeout_s=60.0, verify="sweep", counted=("8:0",), interrupt_names=(), cpus=(0,), seed=1,
)  # fmt: skip


#: A CPU account that adds up.
ACCOUNT = {
    "steal_s": 0.0,
    "control": {
        "trusted": True, "reason": None, "truth_s": 4.0, "parts_s": 3.0, "elsewhere_s": 0.9, "no_task_s": None,
        "unattributed_s": 0.1, "uncertainty_s": 0.05,
    },
}  # fmt: skip


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
        "first_bad_offset": 0, "clock_ppm": 0.0, "scheduled": 0, "late": 0,
    }  # fmt: skip
    return values | changes


#: 8 GT/s on four lanes.
LINKED = BlockDevice("nvme0n1", "259:0", numa_node=0, link_bytes_per_s=3_938_461_538)
QUIET = {
    "steal_share": 0.0, "steal_ticks": 0, "cpu_throttles": 0, "quota_stops": 0, "hot": [], "io_limits": [],
    "longest_wait": {"thread": "worker", "seconds": 0.001},
    "temperatures": [{"device": "nvme0n1", "before": 40.0, "after": 41.0}],
}  # fmt: skip
TSC = {"source": "tsc", "cost_ns": 10.0, "resolution_ns": 10}


def latency(**changes: Any) -> dict[str, Any]:
    """600,000 latencies of 320 us."""
    lat = {"count": 600_000, "overflow": 0, "sum_ns": 600_000 * 320_000, "min_ns": 320_000, "max_ns": 320_000}
    lat |= {"bins": pack({bin_of(320_000): 600_000})} | changes
    return {"lat": lat, "clat": lat, "slat": lat}


def observe(
    *windows: dict[str, Any],
    plan: Plan = PLAN,
    path: str = "io_uring",
    medium: str = "nvme_ssd",
    devices: tuple[BlockDevice, ...] = (LINKED,),
    virtual_machine: bool = False,
    **changes: Any,
) -> gates.Observed:
    outcome = {
        "windows": list(windows) or [window(start_ns=n * 10**9, end_ns=(n + 1) * 10**9) for n in range(6)],
        "counters": None,
        "resident_before": 0,
        "resident_after": 0,
        "sweep": {"checked": 32, "bad": 0, "first_bad": 0},
        "surroundings": QUIET,
        "cpu": ACCOUNT,
        "clock": TSC,
        "latency": latency(),
    } | changes
    totals = sum_up(plan, outcome)
    proof = Proof(path, ("evidence",))
    return gates.Observed(plan, DATAPATHS[path], medium, outcome, totals, proof, devices, (0,), virtual_machine)


def state(seen: gates.Observed, name: str) -> str:
    return {result.gate: result for result in gates.check(seen)}[name].state


def detail(seen: gates.Observed, name: str) -> str:
    return {result.gate: result for result in gates.check(seen)}[name].detail


def counters(**changes: float) -> dict[str, float]:
    values = {
        "read_ios": 600_000, "read_bytes": 600_000 * 4096, "write_ios": 0, "write_bytes": 0,
        "read_ticks": 6 * 30_000, "write_ticks": 0,
    }  # fmt: skip
    return values | changes


def test_a_sound_observation_passes_every_gate_or_says_unknown():
    states = {result.gate: result.state for result in gates.check(observe())}
    assert states.pop("open_loop_lag") == "exempt"
    assert set(states.values()) <= {"passed", "unknown"}
    assert states["device_bytes"] == "unknown"


def test_with_counters_nothing_is_unknown():
    open_loop = dataclasses.replace(PLAN, arrivals="fixed:100000", qd=64)
    scheduled = [window(scheduled=100_000) for _ in range(6)]
    states = {}
    for seen in (observe(counters=counters()), observe(*scheduled, plan=open_loop, counters=counters())):
        states |= {result.gate: result.state for result in gates.check(seen) if result.state != "exempt"}
    assert set(states) == {gate.name for gate in gates.GATES}
    assert set(states.values()) == {"passed"}


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
    ("in_flight", "depth", "tool"), [(17.5, "failed", "failed"), (17.7, "passed", "failed"), (29.0, "passed", "passed")]
)
def test_depth_reached(in_flight, depth, tool):
    seen = observe(window(mean_in_flight=in_flight))
    assert state(seen, "depth_achieved") == depth
    assert state(seen, "tool_bound") == tool


def test_a_device_that_never_held_the_depth_is_found_although_the_tool_counted_it():
    # Buffered libaio: the submit call itself waits, so the device holds one request of the 32.
    cold = dataclasses.replace(PLAN, cache="cold")
    assert state(observe(plan=cold, counters=counters(read_ticks=6 * 1000)), "depth_achieved") == "failed"


def test_a_device_faster_than_its_submitter_is_the_tools_limit_and_not_impossible():
    # 10 us at 400,000/s is 4 requests at the device, whatever the queue depth: the bytes are all its own.
    seen = observe(counters=counters(read_ticks=6 * 1000))
    assert state(seen, "depth_achieved") == "passed"
    assert state(seen, "tool_bound") == "failed"
    cached = observe(counters=counters(read_ticks=6 * 1000, read_bytes=600_000 * 2048))
    assert state(cached, "depth_achieved") == "failed"


def test_device_depth_is_not_asked_of_memory_or_of_one_request_at_a_time():
    shallow = counters(read_ticks=1)
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
    halved = counters(write_ios=1_200_000, write_bytes=600_000 * 4096, read_ios=0, read_bytes=0, write_ticks=6 * 9_000)
    written = window(reads=0, writes=100_000)
    assert state(observe(written, plan=plan, counters=halved), "depth_achieved") == "passed"


def test_buffered_reads_are_judged_by_what_the_device_held_too():
    cold = dataclasses.replace(PLAN, cache="cold")
    shallow = counters(read_ticks=6 * 1000)
    assert state(observe(plan=cold, counters=shallow), "depth_achieved") == "failed"
    writes = dataclasses.replace(cold, read_percent=0)
    written = window(reads=0, writes=100_000)
    assert state(observe(written, plan=writes, counters=shallow), "depth_achieved") == "passed"


@pytest.mark.parametrize(("late", "expected"), [(1_000, "passed"), (1_001, "failed")])
def test_an_open_loop_may_send_one_in_a_hundred_late(late, expected):
    seen = observe(window(scheduled=100_000, late=late), plan=dataclasses.replace(PLAN, arrivals="poisson:100000"))
    assert state(seen, "open_loop_lag") == expected


def test_an_open_loop_has_a_ceiling_not_a_depth():
    seen = observe(
        window(mean_in_flight=1.5, scheduled=100_000), plan=dataclasses.replace(PLAN, arrivals="fixed:100000")
    )
    assert state(seen, "depth_achieved") == state(seen, "tool_bound") == "exempt"


@pytest.mark.parametrize(
    ("clock", "changes", "expected"),
    [
        # Three stamps of 10,666 ns are just below a tenth of 320 us.
        ({"cost_ns": 10_666.0}, {}, "passed"),
        ({"cost_ns": 10_667.0}, {}, "failed"),
        ({"resolution_ns": 31_000}, {}, "passed"),
        ({"resolution_ns": 33_000}, {}, "failed"),
        # Jiffies at 250 Hz.
        ({"resolution_ns": 4_000_000}, {}, "failed"),
        # A latency of nothing, as a broken clock of a virtual machine gave it (fio#902).
        ({}, {"min_ns": 0}, "failed"),
    ],
)
def test_a_clock_must_be_fine_and_cheap_against_what_it_measures(clock, changes, expected):
    assert state(observe(clock=TSC | clock, latency=latency(**changes)), "clock_sane") == expected


@pytest.mark.parametrize(("ppm", "expected"), [(49.9, "passed"), (50.1, "failed")])
def test_a_clock_that_runs_off_is_found_in_any_window(ppm, expected):
    assert state(observe(window(), window(clock_ppm=ppm), window()), "clock_sane") == expected


def test_no_device_is_faster_than_its_link():
    slow = dataclasses.replace(LINKED, link_bytes_per_s=400_000_000)
    assert state(observe(), "not_faster_than_link") == "passed"
    assert state(observe(devices=(slow,)), "not_faster_than_link") == "failed"
    assert "0.410 GB/s in one direction; the link carries 0.400 GB/s" in detail(
        observe(devices=(slow,)), "not_faster_than_link"
    )
    # Two devices under one target have two links; reads and writes have a direction each.
    assert state(observe(devices=(slow, slow)), "not_faster_than_link") == "passed"
    mixed = window(reads=50_000, writes=50_000)
    assert state(observe(mixed, devices=(slow,)), "not_faster_than_link") == "passed"


def test_a_link_is_unknown_where_it_is_not_told_or_cannot_be_trusted():
    bare = dataclasses.replace(LINKED, link_bytes_per_s=None)
    for seen in (observe(devices=()), observe(devices=(LINKED, bare)), observe(virtual_machine=True)):
        assert state(seen, "not_faster_than_link") == "unknown"
    slow = dataclasses.replace(LINKED, link_bytes_per_s=1)
    hot = dataclasses.replace(PLAN, cache="hot")
    assert state(observe(plan=hot, devices=(slow,)), "not_faster_than_link") == "exempt"


def test_a_step_of_the_level_is_named_with_its_window():
    stepped = [window(end_ns=int(10**9 * (1.38 if index >= 12 else 1.0))) for index in range(20)]
    seen = observe(*stepped)
    assert state(seen, "stable") == "failed"
    assert "a step of +38% in time per I/O at window 12: throttling" in detail(seen, "stable")


@pytest.mark.parametrize(
    ("gate", "changes", "expected"),
    [
        ("cores_available", {"longest_wait": {"thread": "iou-sqp-7", "seconds": 0.29}}, "passed"),
        ("cores_available", {"longest_wait": {"thread": "iou-sqp-7", "seconds": 0.31}}, "failed"),
        ("cores_available", {"longest_wait": None}, "unknown"),
        ("no_throttle", {"cpu_throttles": 1}, "failed"),
        ("no_throttle", {"hot": ["nvme0n1"]}, "failed"),
        ("no_throttle", {"cpu_throttles": None}, "passed"),
        ("no_throttle", {"cpu_throttles": None, "temperatures": []}, "unknown"),
        ("no_steal", {"steal_share": 0.011, "steal_ticks": 7}, "failed"),
        ("no_steal", {"steal_share": 0.011, "steal_ticks": 1}, "passed"),
        ("no_steal", {"steal_share": 0.009, "steal_ticks": 7}, "passed"),
        ("no_steal", {"steal_share": None}, "unknown"),
        ("no_quota", {"quota_stops": 1}, "failed"),
        ("no_quota", {"io_limits": ["io.max of x: 259:0 rbps=1000"]}, "failed"),
        ("no_quota", {"quota_stops": None}, "unknown"),
    ],
)
def test_what_else_the_machine_did(gate, changes, expected):
    seen = observe(surroundings=QUIET | changes)
    assert state(seen, gate) == expected
    assert {result.gate: result.kind for result in gates.check(seen)}[gate] == "unsettled"


def test_without_readings_nothing_is_claimed():
    seen = observe(surroundings=None)
    for gate in ("cores_available", "no_throttle", "no_steal", "no_quota"):
        assert state(seen, gate) == "unknown"


@pytest.mark.parametrize("pollers", [(0,), (2, 2)])
def test_a_poller_needs_a_cpu_of_its_own(pollers):
    plan = dataclasses.replace(PLAN, sq_cpus=pollers, cpus=(0, 1)[: len(pollers)])
    assert state(observe(plan=plan), "cores_available") == "failed"


def test_a_worker_on_another_node_is_a_warning():
    far = dataclasses.replace(LINKED, numa_node=1)
    seen = observe(devices=(far,))
    assert state(seen, "numa_far") == "failed"
    assert (
        detail(seen, "numa_far")
        == "workers on node 0, device on node 1: use --gpuio-numa=near, or a CPU set of that node"
    )
    assert state(observe(devices=(dataclasses.replace(LINKED, numa_node=None),)), "numa_far") == "unknown"


def test_one_request_at_a_time_has_no_depth_to_miss():
    # 4 KiB from memory take less time than what the job loop does between two of them.
    single = dataclasses.replace(PLAN, qd=1)
    seen = observe(window(mean_in_flight=0.46), plan=single, path="psync")
    assert state(seen, "depth_achieved") == "passed"
    assert state(seen, "tool_bound") == "failed"


def test_memory_has_no_queue_to_fill():
    # It answers inside the submit call: filled one by one, then emptied, a queue holds half on average.
    half = window(mean_in_flight=16.0)
    assert state(observe(half), "depth_achieved") == "failed"
    assert state(observe(half, medium="ram"), "depth_achieved") == "passed"
    assert state(observe(half, plan=dataclasses.replace(PLAN, cache="hot")), "depth_achieved") == "passed"


def test_what_strangers_write_does_not_stand_in_for_reads_from_a_cache():
    half = counters(read_bytes=300_000 * 4096, write_ios=300_000, write_bytes=300_000 * 4096)
    assert state(observe(counters=half), "device_bytes") == "failed"
    shallow = counters(read_ticks=6 * 1000, write_ticks=6 * 30_000)
    assert state(observe(plan=dataclasses.replace(PLAN, cache="cold"), counters=shallow), "depth_achieved") == "failed"


def test_a_mix_is_counted_both_ways():
    mixed = [window(reads=50_000, writes=50_000)] * 6
    halves = counters(
        read_ios=300_000, read_bytes=300_000 * 4096, write_ios=300_000, write_bytes=300_000 * 4096,
        read_ticks=6 * 15_000, write_ticks=6 * 15_000,
    )  # fmt: skip
    states = {result.gate: result.state for result in gates.check(observe(*mixed, counters=halves))}
    assert states["device_bytes"] == states["depth_achieved"] == "passed"


def test_a_queue_that_is_emptied_by_order_is_not_measured_by_its_depth():
    drained = dataclasses.replace(PLAN, sync="every", sync_every=32, read_percent=0)
    seen = observe(window(mean_in_flight=16.0), plan=drained)
    assert state(seen, "depth_achieved") == "passed"
    assert state(seen, "tool_bound") == "failed"


def test_an_open_loop_with_next_to_nothing_in_flight_is_not_weighed():
    loop = dataclasses.replace(PLAN, arrivals="fixed:100")
    sparse = window(mean_in_flight=0.01, scheduled=100, late=0)
    assert state(observe(sparse, plan=loop), "littles_law") == "unknown"
    assert state(observe(window(scheduled=100, late=0, steady_rate=1e6), plan=loop), "littles_law") == "failed"
