"""safetensors: one file of tensors behind a header, written in one go and copied out of a map."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pytest_gpuio.measure.frameworks.framework import import_framework, sync_file

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray


class Safetensors:
    """``save_file`` and ``load_file`` on arrays.

    Loading copies each tensor out of a map of the file, as a server does when it fills a model's parameters; a map by
    itself would have read nothing yet.
    """

    joins_files = False
    suffix = ".safetensors"

    def __init__(self) -> None:
        self._module = import_framework("safetensors.numpy", "safetensors")
        self._error = import_framework("safetensors", "safetensors").SafetensorError

    def hold(self, tensors: Mapping[str, NDArray[np.uint8]]) -> Any:
        """The arrays themselves."""
        return dict(tensors)

    def save(self, held: Any, path: Path, *, fsync: bool) -> None:
        """One file."""
        with self._told():
            self._module.save_file(held, str(path))
        if fsync:
            sync_file(path)

    def load(self, held: Any, path: Path) -> Any:  # noqa: ARG002 - the protocol's
        """All of it into memory."""
        with self._told():
            return self._module.load_file(str(path))

    @contextmanager
    def _told(self) -> Iterator[None]:
        """Its own class of errors as what they are."""
        try:
            yield
        except self._error as error:
            raise RuntimeError(str(error)) from error

    def bytes_of(self, loaded: Any) -> Mapping[str, NDArray[np.uint8]]:
        """The arrays themselves."""
        return dict(loaded)

    def written(self, path: Path) -> Sequence[Path]:
        """The file."""
        return (path,)

    def settings(self) -> Mapping[str, Any]:
        """Its version."""
        from importlib import metadata

        return {"framework": "safetensors", "version": metadata.version("safetensors"), "call": "save_file, load_file"}
