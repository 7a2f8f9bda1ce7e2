"""LRU stack distances of a whole reference string at once: one pass answers for every cache size."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray


def previous_use(ids: NDArray[np.int64]) -> NDArray[np.int64]:
    """Index of the last earlier reference to the same id; -1 = there is none. Shape (n,)."""
    order = np.argsort(ids, kind="stable")
    again = ids[order[1:]] == ids[order[:-1]]
    previous = np.full(len(ids), -1, dtype=np.int64)
    previous[order[1:][again]] = order[:-1][again]
    return previous


def stack_distances(ids: NDArray[np.int64]) -> NDArray[np.int64]:
    """How many other ids were referenced since the last reference to the same id; -1 = never before. Shape (n,).

    An LRU cache of C entries holds the id at that moment exactly if 0 <= distance < C (Mattson et al., 1970).

    Args:
        ids: references in order.
    """
    return distances_of(previous_use(ids))


def distances_of(previous: NDArray[np.int64]) -> NDArray[np.int64]:
    """:func:`stack_distances` of references whose previous uses are known."""
    # With p the previous use of reference i, the ids referenced between p and i are as many as the references j in
    # (p, i) that are first ones there: those with previous[j] <= p. All j <= p have previous[j] < j <= p, so that these
    # are counted by "j < i with previous[j] <= previous[i]", less p + 1. First uses are never greater: left out.
    used = np.flatnonzero(previous >= 0)
    distance = np.full(len(previous), -1, dtype=np.int64)
    distance[used] = used - _greater_before(previous[used]) - previous[used] - 1
    return distance


def _greater_before(values: NDArray[np.int64]) -> NDArray[np.int64]:
    """For each value, how many earlier ones are greater; bit by bit from the highest, as in a wavelet tree."""
    n = len(values)
    greater = np.zeros(n, dtype=np.int64)
    if n < 2:
        return greater
    rank = np.empty(n, dtype=np.int64)
    rank[np.argsort(values, kind="stable")] = np.arange(n)
    place = np.arange(n)
    for bit in reversed(range(int(n - 1).bit_length())):
        # ``place`` lists references by the higher bits of their rank, and in order within each such group.
        high = rank[place]
        one = (high >> bit) & 1
        starts = np.flatnonzero(np.diff(high >> (bit + 1), prepend=-1))
        ones_before = np.cumsum(one) - one
        sizes = np.diff(starts, append=n)
        base = np.repeat(ones_before[starts], sizes)
        zero = one == 0
        greater[place[zero]] += (ones_before - base)[zero]
        # Stable partition of each group: its zeros first.
        start = np.repeat(starts, sizes)
        zeros = np.repeat(np.add.reduceat(zero.astype(np.int64), starts), sizes)
        index = np.arange(n)
        within_ones = ones_before - base
        target = np.where(zero, index - within_ones, start + zeros + within_ones)
        moved = np.empty(n, dtype=np.int64)
        moved[target] = place
        place = moved
    return greater
