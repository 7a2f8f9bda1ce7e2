"""Processes of ranks: they start together, and their windows are added up as one."""

from __future__ import annotations

import dataclasses
import os
import signal
from array import array
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from types import SimpleNamespace

import pytest

from pytest_gpuio.core.errors import EngineError
from pytest_gpuio.engine import NEVER, Clock, Histogram, Pool, Window, results_for
from pytest_gpuio.engine.replay import GROUP, RECORD, RESULTS
from pytest_gpuio.measure.opening import open_rank
from pytest_gpuio.measure.plan import Plan, RankPart, ReplayFile, ReplayPlan
from pytest_gpuio.measure.ranks import RankedRun, Ranks, merge_windows, scatter
from pytest_gpuio.measure.replay import rank_plan


def window(**changed: float) -> Window:
    zero = dict.fromkeys(Window._fields, 0) | {"workers": ()}
    return Window(**(zero | changed))


def test_windows_of_ranks_run_from_the_first_start_to_the_last_end() -> None:
    one = window(start_ns=100, end_ns=500, ios=3, bytes=30, steady_ns=400, mean_in_flight=2.0, steady_ios=3, cpu_ns=7)
    other = window(start_ns=90, end_ns=300, ios=5, bytes=50, steady_ns=200, mean_in_flight=1.0, steady_ios=5, cpu_ns=9)
    merged = merge_windows([one, other])
    assert (merged.start_ns, merged.end_ns, merged.ios, merged.bytes) == (90, 500, 8, 80)
    # 2 requests for 400 ns and 1 for 200 ns, over the longer stretch.
    assert merged.mean_in_flight == (2.0 * 400 + 1.0 * 200) / 400
    assert merged.steady_rate == 8 * 1e9 / 400
    # Every process counts its own CPU; the others' come in as processes that work for the cell.
    assert merged.cpu_ns == 7


def test_the_first_error_of_any_rank_is_told() -> None:
    fine, failed = window(), window(errors=2, first_error=-5, first_error_op=1, first_error_offset=4096)
    for order in ([fine, failed], [failed, fine]):
        merged = merge_windows(order)
        assert (merged.errors, merged.first_error, merged.first_error_offset) == (2, -5, 4096)


def test_group_results_land_at_their_numbers_on_the_common_clock() -> None:
    results = array("Q", [0] * 15)
    scatter(results, array("Q", [1, 2, 3, 4, 7, 5, 6, NEVER, NEVER, 0]), [2, 0], 10)
    assert results.tolist() == [15, 16, NEVER, NEVER, 0, 0, 0, 0, 0, 0, 11, 12, 13, 14, 7]


@dataclasses.dataclass(frozen=True)
class SmallPlan:
    """Of a plan, only what is shared out."""

    jobs: int
    cpus: tuple[int, ...]
    sq_cpus: tuple[int, ...]
    gpus: tuple[int, ...]
    replay: SimpleNamespace


def test_each_rank_has_its_share_of_jobs_cpus_and_gpus() -> None:
    plan = SmallPlan(4, (7, 6, 5, 4), (), (0, 0, 1, 1), SimpleNamespace(parts=(1, 2)))
    rank = rank_plan(plan, 1)  # type: ignore[arg-type]
    assert (rank.jobs, rank.cpus, rank.sq_cpus, rank.gpus) == (2, (5, 4), (), (1, 1))


def test_merged_windows_count_copies_and_the_whole_way_once_each() -> None:
    one = window(copies=5, copied_bytes=50, total_ios=10, total_lat_ns=100, total_ns=1000, total_in_flight=2.0)
    other = window(copies=7, copied_bytes=70, total_ios=30, total_lat_ns=300, total_ns=2000, total_in_flight=4.0)
    merged = merge_windows([one, other])
    assert (merged.copies, merged.copied_bytes, merged.total_ios, merged.total_lat_ns) == (12, 120, 40, 400)
    # Requests in flight x time adds up: 2 x 1000 + 4 x 2000 over 2000.
    assert merged.total_in_flight == 5.0
    assert merged.total_rate == 40 * 1e9 / 2000


def test_a_histogram_survives_the_way_between_processes() -> None:
    histogram = Histogram.empty()
    for value in (1, 1000, 10**9):
        histogram.add(value)
    back = Histogram.from_bytes(histogram.to_bytes())
    assert (back.count, back.min_ns, back.max_ns, back.bins()) == (3, 1, 10**9, histogram.bins())


@pytest.fixture
def plan(tmp_path: Path) -> Plan:
    """Two ranks of two groups each, on the path that moves no data: groups 0 and 2, and 1 and 3."""
    parts = []
    for rank in (0, 1):
        records = b"".join(RECORD.pack(4096 * (2 * i + rank), 4096, 0, 0, 0) for i in range(2))
        groups = b"".join(GROUP.pack(i, -1, 0, i, 0) for i in range(2))
        numbers = array("I", [rank, rank + 2]).tobytes()
        paths = [tmp_path / f"{name}{rank}" for name in ("records", "groups", "numbers")]
        for path, data in zip(paths, (records, groups, numbers), strict=True):
            path.write_bytes(data)
        parts.append(RankPart(*map(str, paths), chains=2))
    replay = ReplayPlan(
        "", "", "", (ReplayFile("", 0, 1 << 20, 0),), 4, 4, 0, 4, 16384, timed=False, least_s=0.0, parts=tuple(parts)
    )
    return Plan(
        engine="null", library=None, path=None, region_offset=0, region_bytes=1 << 20, pattern_seed=0, order="random",
        read_percent=100, zipf_theta=0.0, bs=4096, qd=2, jobs=2, submit_batch=1, reap_batch=1, knobs=(), cache="direct",
        sync="none", sync_every=0, dsync=False, round="region", window_s=0.1, precision=0.1, max_time=0.1,
        timeout_s=20.0, verify="none", counted=(), interrupt_names=(), cpus=(-1, -1), seed=1, replay=replay,
    )  # fmt: skip


@pytest.fixture
def ranks(plan: Plan):
    stop = memoryview(bytearray(4))
    ranks = Ranks(plan, partial(open_rank, plan, Clock.calibrate(None), stop))
    yield ranks
    ranks.close()


@pytest.mark.filterwarnings("ignore:This process:DeprecationWarning")
def test_all_ranks_replay_their_own_groups_at_the_same_time(plan: Plan, ranks: Ranks) -> None:
    pool = Pool()
    assert len(ranks.pids) == 1
    stack = ExitStack()
    mine = open_rank(plan, Clock.calibrate(None), memoryview(bytearray(4)), 0, stack, pool)
    with stack, RankedRun(plan, ranks, mine) as run:
        for _ in range(2):
            results = results_for(4)
            window = run.replay(0, 4, results)
            assert (window.ios, window.bytes, len(window.workers)) == (4, 16384, 2)
            assert run.histograms()["lat"].count == 4
            assert all(results[RESULTS * group + 1] <= results[RESULTS * group + 2] != NEVER for group in range(4))
        assert run.sweep().bad == 0
        with pytest.raises(EngineError, match="ranks replay all they have"):
            run.replay(0, 2, results_for(2))
    assert not ranks.pids
    pool.close()


@pytest.mark.filterwarnings("ignore:This process:DeprecationWarning")
def test_a_rank_that_dies_is_an_error_and_not_a_wait(plan: Plan, ranks: Ranks) -> None:
    ranks.answers(30.0)
    os.kill(ranks.pids[0], signal.SIGKILL)
    with pytest.raises(EngineError, match="rank 1 has died"):
        ranks.ask("sweep", 30.0)


@pytest.mark.filterwarnings("ignore:This process:DeprecationWarning")
def test_what_a_rank_cannot_open_is_told_with_its_number(plan: Plan) -> None:
    assert plan.replay is not None
    broken = dataclasses.replace(plan.replay.parts[1], chains=1)
    bad = dataclasses.replace(plan, replay=dataclasses.replace(plan.replay, parts=(plan.replay.parts[0], broken)))
    ranks = Ranks(bad, partial(open_rank, bad, Clock.calibrate(None), memoryview(bytearray(4))))
    with pytest.raises(EngineError, match=r"rank 1: .*group 1 is of chain 1 of 1"):
        ranks.answers(30.0)
    ranks.close()
