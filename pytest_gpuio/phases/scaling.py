"""Less of the same: fewer bytes of a workload with every request as large as it was."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from pytest_gpuio.core.errors import ConfigError

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

#: Tensors longer than this reach a device in many requests anyway, and may lose some of them.
PIECE: Final = 8 << 20
#: Which pieces stay must not change with the seed of a workload: files would.
_SEED: Final = 20_240_611


def thin(lengths: NDArray[np.int64], scale: float, piece: int = PIECE) -> NDArray[np.int64]:
    """Lengths of which ``scale`` of the bytes are left, the mix of sizes as it was.

    Pieces of at most ``piece`` bytes stay or go as a whole, drawn at random but always alike; what stays at a small
    scale also stays at a larger one. So a short tensor is there in full or not at all, and a long one gets shorter.

    Args:
        lengths: bytes of each tensor, above 0; shape (n,).
        scale: 0 < scale <= 1.
        piece: in bytes.

    Returns:
        New lengths, 0 = gone; together ``scale`` of the bytes, short of it by less than a piece, but at least a piece.

    Raises:
        ConfigError: a scale out of range.
    """
    import numpy as np

    check_share(scale)
    if scale == 1.0:
        return lengths
    pieces = -(-lengths // piece)
    row = np.repeat(np.arange(len(lengths)), pieces)
    size = np.full(len(row), piece, np.int64)
    size[np.cumsum(pieces) - 1] = lengths - (pieces - 1) * piece
    order = np.random.default_rng(_SEED).permutation(len(row))
    target = scale * float(lengths.sum())
    # Only pieces that fit by themselves are candidates, or an early large one would end the draw.
    order = order[size[order] <= max(target, float(size.min()))]
    count = max(1, int(np.searchsorted(np.cumsum(size[order]), target, side="right")))
    kept = order[:count]
    return np.bincount(row[kept], weights=size[kept], minlength=len(lengths)).astype(np.int64)


def share(whole: int, scale: float, least: int = 1) -> int:
    """``scale`` of a count, rounded, but not below ``least``."""
    return max(least, round(whole * scale))


def check_share(scale: float) -> None:
    """Refuses a scale of more than the whole, for what has a whole.

    Raises:
        ConfigError: outside 0 .. 1.
    """
    if not 0.0 < scale <= 1.0:
        raise ConfigError(f"scale {scale:g}: use a number above 0 and up to 1, which is the whole model.")
