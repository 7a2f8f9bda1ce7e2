"""The open loop: requests begin when the schedule says."""

from __future__ import annotations

import errno
import os
from array import array
from dataclasses import replace

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from pytest_gpuio.core.errors import EngineError
from pytest_gpuio.engine import Clock, Pool, Run, RunSpec, probe

MIB = 1 << 20
ENGINES = ("psync", "mmap", "libaio", "io_uring", "io_uring_sqpoll")
RATE = 10_000


def every(gap_ns: int, count: int) -> array[int]:
    return array("Q", range(0, gap_ns * count, gap_ns))


@pytest.fixture(params=ENGINES)
def spec(request, target) -> RunSpec:
    reason = probe(request.param)
    if reason is not None:
        pytest.skip(reason)
    return RunSpec(
        engine=request.param, fd=target(), depth=1 if request.param in ("psync", "mmap") else 16, order="random",
        region_bytes=4 * MIB, pattern_seed=7, verify=True, timeout_s=60, arrivals=every(10**9 // RATE, RATE // 2),
        knobs=frozenset({"merged_wait", "single_issuer"}) if request.param == "io_uring" else frozenset(),
    )  # fmt: skip


@pytest.mark.parametrize("wait", ["sleep", "spin"])
def test_ten_thousand_a_second(spec, clock: Clock, pool: Pool, wait):
    with Run(replace(spec, arrival_wait=wait), clock, pool) as run:
        window = run.window(RATE // 2)
        histograms = run.histograms()
    lag, lat, response = (histograms[name] for name in ("lag", "lat", "response"))
    assert (window.ios, window.scheduled, window.verified) == (RATE // 2, RATE // 2, RATE // 2)
    assert (window.errors, window.short_ios, window.bad) == (0, 0, 0)
    assert lag.count == lat.count == response.count == RATE // 2
    # Three numbers of the same request, each rounded down to whole nanoseconds.
    assert lag.sum_ns + lat.sum_ns <= response.sum_ns <= lag.sum_ns + lat.sum_ns + 2 * RATE // 2
    assert response.max_ns >= max(lag.max_ns, lat.max_ns)
    # The last request was due 499.9 ms after the start, and its lag is all that came on top.
    due = (RATE // 2 - 1) * (10**9 // RATE)
    assert due <= window.end_ns - window.start_ns <= due + lag.max_ns + lat.max_ns + 50_000_000
    assert 0.0 < window.mean_in_flight <= window.max_in_flight <= spec.depth


def may_be_real_time() -> bool:
    """Whether the kernel lets this process have what workers ask for."""
    pid = os.fork()
    if pid == 0:
        try:
            os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(1))
        except OSError:
            os._exit(1)
        os._exit(0)
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0


@pytest.mark.filterwarnings("ignore:This process:DeprecationWarning")
@pytest.mark.parametrize(
    ("changed", "real_time"),
    [({}, True), ({"arrival_wait": "spin"}, False), ({"arrivals": None}, False)],
    ids=["sleeps", "spins", "closed"],
)
def test_only_workers_that_sleep_until_arrivals_run_ahead_of_usual_tasks(
    target, clock: Clock, pool: Pool, changed, real_time
):
    spec = RunSpec(
        engine="psync", fd=target(), depth=1, order="random", region_bytes=4 * MIB, pattern_seed=7,
        arrivals=every(100_000, 100), timeout_s=60,
    )  # fmt: skip
    allowed = may_be_real_time()
    with Run(replace(spec, **changed), clock, pool) as run:
        (worker,) = run.window(100).workers
        policy = os.sched_getscheduler(worker.tid)
    wanted = os.SCHED_FIFO | os.SCHED_RESET_ON_FORK if real_time and allowed else os.SCHED_OTHER
    assert policy == wanted
    # The thread that waits for it, and later runs without arrivals, are as they were.
    assert os.sched_getscheduler(0) == os.SCHED_OTHER


def test_littles_law_holds_for_arrivals(spec, clock: Clock, pool: Pool):
    """In one of five windows: so little is in flight that one loss of the CPU between two stamps is more than that."""
    ratios = []
    with Run(replace(spec, arrivals=every(10**9 // RATE, RATE // 10)), clock, pool) as run:
        for _ in range(5):
            window = run.window(RATE // 10)
            in_flight = window.steady_rate * window.steady_lat_ns / window.steady_ios / 1e9
            ratios.append(in_flight / window.mean_in_flight)
    assert min(ratios, key=lambda ratio: abs(ratio - 1.0)) == pytest.approx(1.0, abs=0.05)


def test_workers_take_turns(spec, clock: Clock, pool: Pool):
    with Run(replace(spec, jobs=3, arrivals=every(20_000, 1000)), clock, pool) as run:
        window = run.window(1000)
    assert [worker.ios for worker in window.workers] == [334, 333, 333]


def test_a_closed_loop_has_no_lag(clock: Clock, pool: Pool):
    with Run(RunSpec(engine="null", depth=4, region_bytes=MIB), clock, pool) as run:
        window = run.window(100)
        histograms = run.histograms()
    assert (window.scheduled, window.late) == (0, 0)
    assert histograms["lag"].count == histograms["response"].count == 0


def test_all_at_once(clock: Clock, pool: Pool, target):
    """Sixty-four arrivals at the same moment through a depth of four: the later ones wait, and that is lag."""
    spec = RunSpec(
        engine="libaio", fd=target(), depth=4, submit_batch=4, region_bytes=4 * MIB, arrivals=array("Q", [0] * 64)
    )
    with Run(spec, clock, pool) as run:
        window = run.window(64)
        lag = run.histograms()["lag"]
    assert (window.ios, window.max_in_flight) == (64, 4)
    assert lag.count == 64
    assert lag.max_ns > lag.min_ns


@settings(max_examples=30, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    gaps=st.lists(st.integers(0, 200_000), min_size=1, max_size=60),
    jobs=st.integers(1, 3),
    depth=st.integers(1, 5),
    batch=st.integers(1, 5),
    wait=st.sampled_from(["sleep", "spin"]),
)
def test_any_schedule_is_served(clock: Clock, gaps, jobs, depth, batch, wait):
    arrivals, now = array("Q"), 0
    for gap in gaps:
        now += gap
        arrivals.append(now)
    spec = RunSpec(
        engine="null", jobs=jobs, depth=depth, submit_batch=min(batch, depth), region_bytes=MIB, arrivals=arrivals,
        arrival_wait=wait, timeout_s=30,
    )  # fmt: skip
    pool = Pool()
    with Run(spec, clock, pool) as run:
        window = run.window(len(gaps))
        response = run.histograms()["response"]
    pool.close()
    assert (window.ios, window.scheduled, response.count) == (len(gaps), len(gaps), len(gaps))
    assert window.end_ns - window.start_ns >= now * 0.9999  # the TSC's scale is good to 50 ppm


@pytest.mark.parametrize(
    ("arrivals", "words"),
    [
        (array("Q", [5, 4]), "arrival 1 at 4 ns comes before"),
        (array("Q"), "there are no arrivals"),
        (array("d", [1.0]), "type code 'Q'"),
        (array("I", [1]), "type code 'Q'"),
        (memoryview(bytes(16)), "type code 'Q'"),
        (array("Q", [10**15 + 1]), "11 days"),
    ],
)
def test_schedules_that_cannot_work(clock: Clock, pool: Pool, arrivals, words):
    with pytest.raises(EngineError, match=words) as raised:
        Run(RunSpec(engine="null", region_bytes=MIB, arrivals=arrivals), clock, pool)
    assert raised.value.errno == errno.EINVAL


def test_what_else_is_refused(clock: Clock, pool: Pool):
    spec = RunSpec(engine="null", region_bytes=MIB, arrivals=every(1000, 10))
    with pytest.raises(EngineError, match="arrival wait 'doze' is not known: use sleep, spin"):
        Run(replace(spec, arrival_wait="doze"), clock, pool)
    with (
        Run(spec, clock, pool) as run,
        pytest.raises(EngineError, match="a window of 11 I/Os does not fit a schedule of 10"),
    ):
        run.window(11)


def test_a_schedule_is_copied(clock: Clock, pool: Pool):
    arrivals = every(1000, 10)
    with Run(RunSpec(engine="null", region_bytes=MIB, arrivals=arrivals), clock, pool) as run:
        arrivals[:] = array("Q", [10**15] * 10)  # days away, were it looked at
        arrivals.append(1)  # and nobody holds it any longer
        assert run.window(10).ios == 10


def test_pauses_are_slept_through(clock: Clock, pool: Pool):
    """Asleep between arrivals: the worker's CPU time is a fraction of the window; spinning takes all of it."""
    spec = RunSpec(
        engine="null", region_bytes=MIB, arrivals=every(10_000_000, 20), cpus=(min(os.sched_getaffinity(0)),)
    )
    used = {}
    for wait in ("sleep", "spin"):
        with Run(replace(spec, arrival_wait=wait), clock, pool) as run:
            used[wait] = run.window(20).workers[0].cpu_ns
    assert used["sleep"] < used["spin"] / 2
