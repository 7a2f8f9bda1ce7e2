"""PyTorch's distributed checkpoint: a folder a rank, with one file of tensors and one of metadata."""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pytest_gpuio.measure.frameworks.framework import import_framework
from pytest_gpuio.measure.frameworks.torch_save import as_tensors, import_torch

if TYPE_CHECKING:
    from collections.abc import Iterator

    import numpy as np
    from numpy.typing import NDArray


class TorchDcp:
    """``dcp.save`` and ``dcp.load`` of one rank's state, with the defaults of its file system storage.

    Every rank keeps a checkpoint of its own: what ranks would agree on over the network is left out.
    """

    joins_files = True
    suffix = ""

    def __init__(self) -> None:
        self._torch = import_torch()
        self._dcp = import_framework("torch.distributed.checkpoint", "PyTorch's distributed checkpoint")

    def hold(self, tensors: Mapping[str, NDArray[np.uint8]]) -> Any:
        """A state dictionary."""
        return as_tensors(self._torch, tensors)

    def save(self, held: Any, path: Path, *, fsync: bool) -> None:
        """One folder."""
        writer = self._dcp.FileSystemWriter(str(path), single_file_per_rank=True, sync_files=fsync, thread_count=1)
        with _quiet():
            self._dcp.save(held, storage_writer=writer, no_dist=True)

    def load(self, held: Any, path: Path) -> Any:
        """Into new tensors of the same sizes."""
        made = {name: self._torch.empty_like(tensor) for name, tensor in held.items()}
        with _quiet():
            self._dcp.load(made, storage_reader=self._dcp.FileSystemReader(str(path)), no_dist=True)
        return made

    def bytes_of(self, loaded: Any) -> Mapping[str, NDArray[np.uint8]]:
        """The tensors as arrays."""
        return {name: tensor.numpy() for name, tensor in loaded.items()}

    def written(self, path: Path) -> Sequence[Path]:
        """Tensors and metadata."""
        return sorted(one for one in path.iterdir() if one.is_file())

    def settings(self) -> Mapping[str, Any]:
        """PyTorch's version, and what was chosen."""
        return {
            "framework": "torch.distributed.checkpoint",
            "version": str(self._torch.__version__),
            "call": "dcp.save, dcp.load",
            "single_file_per_rank": True,
            "thread_count": 1,
        }


@contextmanager
def _quiet() -> Iterator[None]:
    """Without the warning that there is one process: so it is asked for."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield
