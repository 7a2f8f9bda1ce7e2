"""How long groups would take on storage of a given speed: one queue, first come first served."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from pytest_gpuio.core.errors import ConfigError

if TYPE_CHECKING:
    from numpy.typing import NDArray


def completion_ns(
    time_ns: NDArray[np.int64], moved: NDArray[np.int64], bytes_per_s: float, latency_s: float = 0.0
) -> NDArray[np.int64]:
    """From the arrival of each group to its end, as a projection: real devices are measured, not computed.

    Args:
        time_ns: arrivals, ascending; shape (groups,).
        moved: bytes of each group.
        bytes_per_s: of the device, whatever the request size.
        latency_s: added to each group once.

    Raises:
        ConfigError: a speed that is not above 0, or a negative latency.
    """
    if not 0 < bytes_per_s < 1e18 or not 0 <= latency_s < 1e6:
        raise ConfigError(f"storage of {bytes_per_s / 1e9:g} GB/s and {latency_s:g} s latency cannot be projected.")
    service = moved / bytes_per_s * 1e9
    # With S the running sum of services: end[i] = max over j <= i of (arrival[j] + S[i] - S[j - 1]).
    done = np.cumsum(service)
    end = np.maximum.accumulate(time_ns - (done - service)) + done
    took: NDArray[np.int64] = np.rint(end - time_ns + latency_s * 1e9).astype(np.int64)
    return took
