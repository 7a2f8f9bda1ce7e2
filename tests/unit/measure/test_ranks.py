"""Processes of ranks: they start together, and their windows are added up as one."""

from __future__ import annotations

import dataclasses
from array import array
from types import SimpleNamespace

from pytest_gpuio.engine import NEVER, Histogram, Window
from pytest_gpuio.measure.ranks import merge_windows, rank_plan, scatter


def window(**changed: float) -> Window:
    zero = {field.name: 0 for field in dataclasses.fields(Window)} | {"workers": ()}
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
    results = array("Q", [0] * 12)
    scatter(results, array("Q", [1, 2, 3, 4, 5, 6, NEVER, NEVER]), [2, 0], 10)
    assert results.tolist() == [15, 16, NEVER, NEVER, 0, 0, 0, 0, 11, 12, 13, 14]


@dataclasses.dataclass(frozen=True)
class SmallPlan:
    """Of a plan, only what is shared out."""

    jobs: int
    cpus: tuple[int, ...]
    sq_cpus: tuple[int, ...]
    replay: SimpleNamespace


def test_each_rank_has_its_share_of_jobs_and_cpus() -> None:
    plan = SmallPlan(4, (7, 6, 5, 4), (), SimpleNamespace(parts=(1, 2)))
    rank = rank_plan(plan, 1)  # type: ignore[arg-type]
    assert (rank.jobs, rank.cpus, rank.sq_cpus) == (2, (5, 4), ())


def test_a_histogram_survives_the_way_between_processes() -> None:
    histogram = Histogram.empty()
    for value in (1, 1000, 10**9):
        histogram.add(value)
    back = Histogram.from_bytes(histogram.to_bytes())
    assert (back.count, back.min_ns, back.max_ns, back.bins()) == (3, 1, 10**9, histogram.bins())
