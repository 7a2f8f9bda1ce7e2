"""``torch.save`` and ``torch.load``: one archive a file, through Python's file objects."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pytest_gpuio.measure.frameworks.framework import import_framework

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray


def import_torch() -> Any:
    """PyTorch, kept to the thread that calls it: nothing here is computed.

    Raises:
        CapabilityMissing: it is not there.
    """
    torch = import_framework("torch", "PyTorch")
    torch.set_num_threads(1)
    return torch


def as_tensors(torch: Any, tensors: Mapping[str, NDArray[np.uint8]]) -> dict[str, Any]:
    """The arrays as tensors of the same memory."""
    return {name: torch.from_numpy(array) for name, array in tensors.items()}


class TorchSave:
    """A dictionary of tensors by ``torch.save`` to an open file, then fsync, as MLPerf Storage's benchmark does."""

    joins_files = False
    suffix = ".pt"

    def __init__(self) -> None:
        self._torch = import_torch()

    def hold(self, tensors: Mapping[str, NDArray[np.uint8]]) -> Any:
        """A state dictionary."""
        return as_tensors(self._torch, tensors)

    def save(self, held: Any, path: Path, *, fsync: bool) -> None:
        """One archive."""
        with path.open("wb") as file:
            self._torch.save(held, file)
            if fsync:
                file.flush()
                os.fsync(file.fileno())

    def load(self, held: Any, path: Path) -> Any:  # noqa: ARG002 - the protocol's
        """All of it into memory."""
        return self._torch.load(path, map_location="cpu", weights_only=True)

    def bytes_of(self, loaded: Any) -> Mapping[str, NDArray[np.uint8]]:
        """The tensors as arrays."""
        return {name: tensor.numpy() for name, tensor in loaded.items()}

    def written(self, path: Path) -> Sequence[Path]:
        """The archive."""
        return (path,)

    def settings(self) -> Mapping[str, Any]:
        """PyTorch's version."""
        return {"framework": "torch", "version": str(self._torch.__version__), "call": "torch.save, torch.load"}
