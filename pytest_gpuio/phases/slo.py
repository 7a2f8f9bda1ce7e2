"""How long groups took against time limits, and what part of the time to first token that is."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from pytest_gpuio.core.errors import ConfigError

if TYPE_CHECKING:
    from numpy.typing import ArrayLike

# numpy is imported where it is used: the measuring child imports this package and must start without it.

#: Milliseconds; MLPerf's interactive, responsive and batch classes have 50/100, 100/200 and 1,000/5,000 at p95/p99.
LIMITS_MS: Final = (50, 100, 200, 1000)


@dataclass(frozen=True, slots=True)
class SloReport:
    """Completion of groups, in nanoseconds.

    Attributes:
        groups: that were measured. requests: that were made; those without a group waited for nothing.
        mean_ns, p50_ns, p95_ns, p99_ns, max_ns: of the groups; percentiles are the smallest value that so many groups
            do not exceed.
        over: share of all requests above each limit, by milliseconds.
        ttft_share: what part of all waiting for first tokens was waiting for groups: completion / (completion +
            prefill), summed over the groups; None without prefill times.
        ttft_share_p50: the median over groups of that part; None likewise.
    """

    groups: int
    requests: int
    mean_ns: float
    p50_ns: int
    p95_ns: int
    p99_ns: int
    max_ns: int
    over: dict[int, float]
    ttft_share: float | None = None
    ttft_share_p50: float | None = None

    def as_json(self) -> dict[str, Any]:
        """For result files: limits as text."""
        return {
            "groups": self.groups,
            "requests": self.requests,
            "mean_ns": self.mean_ns,
            "p50_ns": self.p50_ns,
            "p95_ns": self.p95_ns,
            "p99_ns": self.p99_ns,
            "max_ns": self.max_ns,
            "over_ms": {str(limit): share for limit, share in self.over.items()},
            "ttft_share": self.ttft_share,
            "ttft_share_p50": self.ttft_share_p50,
        }


def slo_report(
    completion_ns: ArrayLike,
    *,
    requests: int | None = None,
    prefill_ns: ArrayLike | None = None,
    limits_ms: Sequence[int] = LIMITS_MS,
) -> SloReport:
    """Judges groups by how long after their intended start they ended.

    Args:
        completion_ns: end minus intended start, shape (groups,).
        requests: all requests, those that needed no group included; None = one per group.
        prefill_ns: time to compute what the group does not bring, shape (groups,).
        limits_ms: time limits.

    Raises:
        ConfigError: no group, a negative time, or numbers that do not go together.
    """
    import numpy as np

    took = np.asarray(completion_ns, dtype=np.int64)
    if took.ndim != 1 or not took.size:
        raise ConfigError("there is no group whose completion could be judged.")
    if took.min() < 0:
        raise ConfigError(f"group {int(took.argmin()):,} ended {-int(took.min()):,} ns before its intended start.")
    made = len(took) if requests is None else requests
    if made < len(took):
        raise ConfigError(f"{made:,} requests cannot have {len(took):,} groups: one each at most.")
    ordered = np.sort(took)
    whole = half = None
    if prefill_ns is not None:
        prefill = np.asarray(prefill_ns, dtype=np.float64)
        if prefill.shape != took.shape or prefill.min() < 0:
            raise ConfigError(f"prefill times of shape {prefill.shape} do not go with {len(took):,} groups.")
        both = took + prefill
        whole = float(took.sum() / both.sum()) if both.sum() else 0.0
        half = float(np.median(np.divide(took, both, out=np.zeros_like(both), where=both > 0)))
    at = {share: int(ordered[max(0, math.ceil(share * len(took) / 100) - 1)]) for share in (50, 95, 99)}
    return SloReport(
        groups=len(took),
        requests=made,
        mean_ns=float(took.mean()),
        p50_ns=at[50],
        p95_ns=at[95],
        p99_ns=at[99],
        max_ns=int(ordered[-1]),
        over={limit: float(np.count_nonzero(took > limit * 1_000_000) / made) for limit in limits_ms},
        ttft_share=whole,
        ttft_share_p50=half,
    )
