"""What a framework has to offer to be measured: saving named tensors to a path, and loading them again."""

from __future__ import annotations

import importlib
import importlib.util
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from pytest_gpuio.core.errors import CapabilityMissing

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

INSTALL = "pip install 'pytest-gpuio[frameworks]'"


class Framework(Protocol):
    """One framework. Tensors are bytes: what type their elements have makes no difference to what is moved.

    Attributes:
        joins_files: a rank's files become one object.
        suffix: of its files; some look at it.
    """

    joins_files: bool
    suffix: str

    def hold(self, tensors: Mapping[str, NDArray[np.uint8]]) -> Any:
        """The tensors as the framework has them in memory, without a copy; outside windows."""

    def save(self, held: Any, path: Path, *, fsync: bool) -> None:
        """Write them, as an application does. Raises OSError."""

    def load(self, held: Any, path: Path) -> Any:
        """Read them, until all bytes are in memory; ``held`` names them. Raises OSError."""

    def bytes_of(self, loaded: Any) -> Mapping[str, NDArray[np.uint8]]:
        """What was loaded, to be compared; outside windows."""

    def written(self, path: Path) -> Sequence[Path]:
        """The files that a save has left behind."""

    def settings(self) -> Mapping[str, Any]:
        """Names and versions, as JSON-able values."""


def import_framework(module: str, title: str) -> Any:
    """The module.

    Raises:
        CapabilityMissing: it is not installed, or cannot be imported here.
    """
    if importlib.util.find_spec(module.partition(".")[0]) is None:
        raise CapabilityMissing(f"{title} is not installed: {INSTALL}")
    try:
        return importlib.import_module(module)
    except (ImportError, OSError, RuntimeError) as error:
        raise CapabilityMissing(f"{title} cannot be imported ({error}): {INSTALL}") from error


def sync_file(path: Path) -> None:
    """Make a closed file durable, as frameworks leave it to their users."""
    fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)
