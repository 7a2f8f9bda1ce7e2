"""How long computing the cache of new tokens takes: a model of prefill time."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import numpy as np

from pytest_gpuio.core.errors import ConfigError

if TYPE_CHECKING:
    from numpy.typing import NDArray

#: Dense bf16 peak of one H100 SXM.
H100_FLOPS: Final = 989e12
USUAL_MFU: Final = 0.4


@dataclass(frozen=True, slots=True)
class Prefill:
    """Prefill at a fixed speed; attention's quadratic part is left out, as the usual estimate 2 x parameters does.

    Attributes:
        tokens_per_s: speed.

    Raises:
        ConfigError: no speed.
    """

    tokens_per_s: float

    def __post_init__(self) -> None:
        if not 0 < self.tokens_per_s < 1e15:
            raise ConfigError(f"prefill at {self.tokens_per_s:g} tokens/s cannot be: use a number above 0.")

    @classmethod
    def of_model(
        cls, active_parameters: int, *, peak_flops: float = H100_FLOPS, mfu: float = USUAL_MFU, gpus: int = 1
    ) -> Prefill:
        """Speed by ``2 x parameters`` operations a token.

        Args:
            active_parameters: that one token's forward pass uses.
            peak_flops: of one GPU, in operations per second.
            mfu: share of it that is reached, 0 .. 1.
            gpus: that share the work.

        Raises:
            ConfigError: a number out of range.
        """
        if active_parameters < 1 or peak_flops <= 0 or not 0 < mfu <= 1 or gpus < 1:
            raise ConfigError(
                f"prefill of {active_parameters:,} parameters on {gpus} GPUs of {peak_flops:g} FLOPS at {mfu:g} of the "
                "peak cannot be: parameters and GPUs from 1, a share of the peak in 0 .. 1."
            )
        return cls(gpus * mfu * peak_flops / (2 * active_parameters))

    def ns(self, tokens: NDArray[np.int64]) -> NDArray[np.int64]:
        """Nanoseconds for so many tokens each."""
        took: NDArray[np.int64] = np.rint(tokens * (1e9 / self.tokens_per_s)).astype(np.int64)
        return took
