"""Ranks on several hosts that measured a cell together."""

from __future__ import annotations

from typing import TypedDict


class HostRank(TypedDict):
    """What one rank of a cell on several ranks did over its measured windows.

    ``cpu_seconds`` are its measuring child's, ``cores_used`` those over ``seconds``; ``gpus`` are ordinals on its host.
    ``clock_offset_s`` is its host's CLOCK_MONOTONIC less rank 0's, half the fastest round trip being the uncertainty;
    ``clock_drift_s`` is how much the offset had changed at the cell's end.
    """

    rank: int
    host: str
    target: str
    ios: int
    bytes: int
    seconds: float
    gb_per_s: float
    cpu_seconds: float
    cores_used: float
    gpus: list[int]
    clock_offset_s: float
    clock_uncertainty_s: float
    clock_drift_s: float


class Straggler(TypedDict):
    """A rank well below the median rank's rate."""

    rank: int
    host: str
    share_of_median_rate: float


class HostRanks(TypedDict):
    """Ranks, on one host or several, whose windows began at one time.

    ``max_rank_s`` is the slowest rank's window (median over windows), ``min_rank_gb_per_s`` the slowest rank's rate,
    ``start_spread_s`` the worst distance between the first and the last rank's start of a window.
    """

    count: int
    hosts: int
    max_rank_s: float
    min_rank_gb_per_s: float
    start_spread_s: float
    clock_uncertainty_s: float
    stragglers: list[Straggler]
    each: list[HostRank]
