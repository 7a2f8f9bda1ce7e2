"""Draws from a distribution that is known by some of its quantiles."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pytest_gpuio.core.errors import ConfigError

if TYPE_CHECKING:
    from collections.abc import Mapping

    import numpy as np
    from numpy.typing import NDArray


def draw(quantiles: Mapping[float, float], count: int, generator: np.random.Generator) -> NDArray[np.float64]:
    """Values whose logarithm is linear between the quantiles that are given.

    Args:
        quantiles: value by share (0 .. 1), both ascending, values above 0; 0 and 1 must be among the shares.
        count: how many.
        generator: of uniform numbers.

    Raises:
        ConfigError: quantiles that are not so.
    """
    import numpy as np

    shares, values = np.array(list(quantiles)), np.array(list(quantiles.values()), dtype=float)
    ascending = np.all(np.diff(shares) > 0) and np.all(np.diff(values) >= 0)
    if len(shares) < 2 or shares[0] != 0.0 or shares[-1] != 1.0 or values[0] <= 0 or not ascending:
        raise ConfigError(f"quantiles {dict(quantiles)} do not ascend from share 0 to share 1 with values above 0.")
    logarithms: NDArray[np.float64] = np.interp(generator.random(count), shares, np.log(values))
    return np.exp(logarithms)
