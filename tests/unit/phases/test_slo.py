"""The SLO report against counting by hand."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_gpuio.core.errors import ConfigError
from pytest_gpuio.phases.slo import slo_report

MS = 1_000_000


def test_a_hundred_groups_by_hand():
    report = slo_report(
        [ms * MS for ms in range(1, 101)], requests=200, prefill_ns=[100 * MS] * 100, limits_ms=(50, 99)
    )
    assert (report.p50_ns, report.p95_ns, report.p99_ns, report.max_ns) == (50 * MS, 95 * MS, 99 * MS, 100 * MS)
    assert report.mean_ns == 50.5 * MS
    # 51 .. 100 are over 50 ms, one is over 99 ms; half of the requests waited for nothing.
    assert report.over == {50: 0.25, 99: 0.005}
    assert report.ttft_share == pytest.approx(5050 / (5050 + 10_000))
    assert report.ttft_share_p50 == pytest.approx((50 / 150 + 51 / 151) / 2)
    assert report.as_json()["over_ms"] == {"50": 0.25, "99": 0.005}


@given(st.lists(st.integers(0, 10**12), min_size=1, max_size=300))
def test_percentiles_are_values_that_so_many_do_not_exceed(took):
    report = slo_report(took)
    for share, value in ((0.50, report.p50_ns), (0.95, report.p95_ns), (0.99, report.p99_ns)):
        assert value in took
        assert sum(one <= value for one in took) >= share * len(took) - 1e-9
        assert sum(one < value for one in took) < share * len(took) + 1e-9
    for limit, over in report.over.items():
        assert over == sum(one > limit * MS for one in took) / len(took)
    assert report.ttft_share is None


@pytest.mark.parametrize(
    ("took", "more", "why"),
    [
        ([], {}, "no group"),
        ([5, -1], {}, r"group 1 ended 1 ns before"),
        ([5, 1], {"requests": 1}, "1 requests cannot have 2 groups"),
        ([5, 1], {"prefill_ns": [1]}, "do not go with 2 groups"),
        ([5, 1], {"prefill_ns": [1, -1]}, "do not go with 2 groups"),
    ],
)
def test_what_cannot_be_judged(took, more, why):
    with pytest.raises(ConfigError, match=why):
        slo_report(took, **more)


def test_nothing_took_any_time():
    assert slo_report([0, 0], prefill_ns=[0, 0]).ttft_share == 0.0
